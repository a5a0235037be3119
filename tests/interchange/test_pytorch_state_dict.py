"""Parameters in PyTorch's layouts, against its layers in NumPy and, if it is installed, PyTorch itself."""

import inspect

import jax
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import models
from fedjax_priv.interchange import from_state_dict, to_state_dict

CNN = models.mcmahan_cnn((8, 12, 3), 4)
NAMES = {"Conv_0": "0", "Conv_1": "3", "Dense_0": "7", "Dense_1": "9"}  # of the layers of a sequential twin
FLATTENED = {"Dense_0": (2, 3, 64)}
IMAGES = np.random.default_rng(1).normal(size=(2, 8, 12, 3)).astype(np.float32)


def drawn(model):
    """Parameters, none of them zero."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda p: (rng.normal(size=p.shape) / np.sqrt(p.size / p.shape[-1])).astype(np.float32), shapes)


@pytest.fixture(scope="module")
def params():
    return drawn(CNN)


@pytest.fixture(scope="module")
def logits(params):
    return np.asarray(jax.jit(CNN.apply)(params, IMAGES))


def conv2d(x, weight, bias):
    """torch.nn.Conv2d with padding="same", stride 1: x [b, c, h, w], weight [out, c, kh, kw]."""
    (height, width), (kh, kw) = x.shape[2:], weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (kh // 2, kh // 2), (kw // 2, kw // 2)))
    taps = (
        np.einsum("bchw,oc->bohw", padded[:, :, i : i + height, j : j + width], weight[:, :, i, j])
        for i in range(kh)
        for j in range(kw)
    )
    return sum(taps) + bias[:, None, None]


def max_pool2d(x):
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2).max((3, 5))


def test_a_twin_written_out_in_numpy_has_the_same_logits(params, logits):
    state = to_state_dict(params, names=NAMES, flattened=FLATTENED)
    x = IMAGES.astype(np.float64).transpose(0, 3, 1, 2)
    for layer in "03":
        x = np.maximum(max_pool2d(conv2d(x, state[f"{layer}.weight"], state[f"{layer}.bias"])), 0)
    x = x.reshape(len(x), -1)
    x = np.maximum(x @ state["7.weight"].T + state["7.bias"], 0)
    x = x @ state["9.weight"].T + state["9.bias"]
    np.testing.assert_allclose(x, logits, rtol=1e-4, atol=1e-4)


def test_a_twin_of_pytorch_has_the_same_logits(params, logits):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    twin = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding="same"), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(32, 64, 5, padding="same"), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 6, 512), nn.ReLU(), nn.Linear(512, 4),
    )  # fmt: skip
    state = to_state_dict(params, names=NAMES, flattened=FLATTENED)
    twin.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    with torch.no_grad():
        found = twin(torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-4)
    back = from_state_dict(params, twin.state_dict(), names=NAMES, flattened=FLATTENED)
    jax.tree.map(np.testing.assert_array_equal, back, params)


@pytest.mark.parametrize(
    ("model", "flattened"),
    [(CNN, FLATTENED), (models.resnet20(), {}), (models.mlp((4, 4, 3), 5), {"Dense_0": (4, 4, 3)})],
    ids=["cnn", "resnet20", "mlp on images"],
)
def test_there_and_back(model, flattened):
    params = drawn(model)
    state = to_state_dict(params, flattened=flattened)
    assert all(name.endswith((".weight", ".bias")) for name in state)
    back = from_state_dict(jax.eval_shape(model.init, jax.random.key(0)), state, flattened=flattened)
    jax.tree.map(np.testing.assert_array_equal, back, params)


def test_the_order_of_flattened_images_matters(params):
    """Otherwise the test of logits could not fail."""
    named, plain = (to_state_dict(params, flattened=given)["Dense_0.weight"] for given in (FLATTENED, {}))
    np.testing.assert_array_equal(plain, params["Dense_0"]["kernel"].T)
    assert named.shape == plain.shape and not np.array_equal(named, plain)


test_what_is_not_a_layer_or_not_said_is_refused = refused(
    ({}, "flattened must list the dense layers"),
    ({"flattened": {"Dense_0": (2, 3, 63)}}, r"flattened must be shapes .* got \(2, 3, 63\) for Dense_0"),
    ({"flattened": {"Dense_0": (6, 64)}}, r"flattened must be shapes .* got \(6, 64\)"),
    ({"flattened": {"Dense_0": 384}}, r"flattened must be shapes .* got 384 for Dense_0"),
    ({"flattened": {"Conv_0": (5, 5, 3)}}, r"flattened must be shapes .* for Conv_0"),
    ({"flattened": {"Dense_7": (1, 1, 1)}}, r"flattened must name layers among \['Conv_0', .* got \['Dense_7'\]"),
    ({"flattened": {}, "names": {"fc": "0"}}, r"names must name layers among"),
    ({"flattened": {}, "names": {"Dense_0": "Dense_1"}}, "names must be different for each layer"),
    by=lambda given: inspect.unwrap(to_state_dict)(drawn(CNN), **given),
)


def test_other_arrays_are_refused(params):
    with pytest.raises(ValueError, match=r"got Embed_0.embedding of shape \(3, 2\)"):
        to_state_dict({"Embed_0": {"embedding": np.zeros((3, 2))}})
    state = to_state_dict(params, flattened=FLATTENED)
    with pytest.raises(ValueError, match=r"Conv_0.weight must have shape \(32, 3, 5, 5\), got \(5, 5, 3, 32\)"):
        from_state_dict(params, state | {"Conv_0.weight": params["Conv_0"]["kernel"]}, flattened=FLATTENED)
    rest = {name: array for name, array in state.items() if name != "Dense_1.bias"}
    with pytest.raises(ValueError, match=r"missing \['Dense_1.bias'\], unknown \['num_batches'\]"):
        from_state_dict(params, rest | {"num_batches": 0}, flattened=FLATTENED)
