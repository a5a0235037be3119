"""Adapters: what is trained and sent is small, and the whole model follows."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import ClientData, clients, losses, models, simulate, systems

KEY = jax.random.key(0)
BASE = models.mlp((4,), 3, hidden=(5,))
PARAMS = BASE.init(KEY)
X = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)


def test_a_new_adapter_changes_nothing():
    small = models.lora(BASE, PARAMS, rank=2)
    np.testing.assert_array_equal(small.apply(small.init(KEY), X), BASE.apply(PARAMS, X))


def test_an_adapter_adds_its_product_scaled():
    small = models.lora(BASE, PARAMS, rank=2, alpha=3.0, adapted=lambda path: "Dense_1" in path)
    adapters = small.init(KEY)
    assert [*adapters] == ["['Dense_1']['kernel']"]
    ((name, adapter),) = adapters.items()
    up = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    adapters = {name: adapter | {"up": jnp.asarray(up)}}
    whole = {**PARAMS, "Dense_1": {**PARAMS["Dense_1"]}}
    whole["Dense_1"]["kernel"] = whole["Dense_1"]["kernel"] + 1.5 * np.asarray(adapter["down"]) @ up
    np.testing.assert_allclose(small.apply(adapters, X), BASE.apply(whole, X), rtol=1e-5, atol=1e-6)
    merged = models.merge_lora(PARAMS, adapters, alpha=3.0)
    np.testing.assert_allclose(merged["Dense_1"]["kernel"], whole["Dense_1"]["kernel"], rtol=1e-6, atol=1e-6)


def test_adapters_of_one_size_start_apart():
    model = models.mlp((4,), 4, hidden=(4,))
    first, second = models.lora(model, model.init(KEY), rank=2).init(KEY).values()
    assert first["down"].shape == second["down"].shape and (first["down"] != second["down"]).all()


def test_down_has_variance_one_over_inputs():
    wide = models.mlp((400,), 30, hidden=())
    (adapter,) = models.lora(wide, wide.init(KEY), rank=50).init(KEY).values()
    np.testing.assert_allclose(np.var(adapter["down"]), 1 / 400, rtol=0.05)


def test_attention_is_adapted_from_its_first_axis():
    model = models.transformer(7, 4, width=8, heads=2, blocks=1)
    params = model.init(KEY)
    small = models.lora(model, params, rank=1, adapted=lambda path: "query" in path and "kernel" in path)
    assert models.num_params(small.init(KEY)) == 8 + 8
    tokens = jnp.array([[1, 2, 3, 4]])
    np.testing.assert_array_equal(small.apply(small.init(KEY), tokens), model.apply(params, tokens))


def test_only_adapters_are_sent_and_learnt():
    """Bytes show it: 4 for each of the 17 numbers, of 43 of the whole model; and the loss falls."""
    small = models.lora(BASE, PARAMS, rank=1, alpha=2.0)
    y = (X[:, 0] > 0).astype(np.int32)
    data = ClientData((np.stack([X, X]), np.stack([y, y])), np.array([6, 6], np.int32))
    local = clients.local_sgd(losses.softmax_cross_entropy(small), learning_rate=0.1, batch_size=6, num_steps=10)
    params = small.init(KEY)
    run = simulate(systems.fedavg(local, mesh=None), KEY, params, data, rounds=5, progress=False)
    assert run.loss[-1].mean() < 0.7 * run.loss[0].mean()
    assert run.down_bytes.sel(phase="model").values[0, 0] == 4 * 17 and models.num_params(PARAMS) == 43


@pytest.mark.parametrize("wrong", [dict(rank=0), dict(alpha=0.0), dict(adapted=lambda path: False)])
def test_a_bad_argument_is_named(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
        models.lora(BASE, PARAMS, **dict(rank=1) | wrong)


test_what_is_no_model_path_or_adapter_is_named = refused(
    (lambda: inspect.unwrap(models.lora)(3, PARAMS, rank=1), "model must be a Model, such as .*, got int$"),
    (
        lambda: inspect.unwrap(models.lora)(BASE, PARAMS, rank=1, adapted="kernel"),
        r"adapted must be a function of \(path\), got str$",
    ),
    (
        lambda: models.merge_lora(PARAMS, {"nope": {"down": jnp.ones((2, 1)), "up": jnp.ones((1, 2))}}),
        r"adapters must be of arrays of params, \[.*\], got \['nope'\]$",
    ),
    (lambda: models.merge_lora(PARAMS, {}, alpha=float("nan")), "alpha must be a finite number > 0, got nan$"),
)
