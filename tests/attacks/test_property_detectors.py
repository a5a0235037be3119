"""A unit that fires on a property of the target's data: what the sum says of it, and masks bound to the model."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from refusals import refused

from fedjax_priv import clients, losses, models
from fedjax_priv.attacks import detector_coordinates, property_detector
from fedjax_priv.attacks.tampered_layers import unit_of
from fedjax_priv.base import ClientData, LyingServer, Models, RoundState
from fedjax_priv.systems import secagg
from helpers import QUICK, Q, same_bits

KEY, N, M, TARGET, UNIT = jax.random.key(4), 5, 6, 3, 2
MODEL = models.mlp((2, 2, 1), 3, hidden=(6,))
PARAMS = MODEL.init(jax.random.key(0))
LOCAL = clients.fedsgd(losses.softmax_cross_entropy(MODEL))
WEIGHTS, THRESHOLD = jnp.array([1.0, 0.0, 0.0, -1.0]), 1.5
"""Of the property: the first pixel is above the last one by more than 1.5."""
HONEST, TO_TARGET, TO_ALL = range(3)


def data(*holders):
    """Examples within [0, 1]; these clients hold one with the property, the last of theirs."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(size=(N, M, 2, 2, 1)), rng.integers(3, size=(N, M))
    x[list(holders), -1, 0, 0] = 1.9 + x[list(holders), -1, 1, 1]
    return ClientData((jnp.asarray(x, jnp.float32), jnp.asarray(y)), jnp.full(N, M))


def models_of(lies, state):
    assert lies.models is not None
    return lies.models(KEY, state)


def server(kind):
    """By the kind of round: the model for all, a detector for the target, or one for all."""

    of = functools.partial(property_detector, TARGET, N, "Dense_0", UNIT, WEIGHTS, THRESHOLD)

    def hand_out(key, state):
        only, everybody = (models_of(of(to_all=to_all), state) for to_all in (False, True))
        rows = jnp.stack([jnp.full(N, 2), only.row, everybody.row])
        return Models(
            jax.tree.map(lambda two, a: jnp.concatenate([two, a[None]]), only.params, state.params), rows[kind]
        )

    return LyingServer(models=hand_out)


@functools.cache
def program(bind):
    def one(kind, data):
        system = secagg(LOCAL, num_clients=N, bind_model=bind, elide=not bind, lying_server=server(kind), mesh=None)
        return system.step(KEY, system.init(KEY, PARAMS, data), data)[1]

    return jax.jit(one, compiler_options=QUICK)


def sums(kind, *holders, bind=False):
    """The sum of a round at the detector's coordinates, and at the others."""
    info = program(bind)(jnp.int32(kind), data(*holders))
    assert int(info.status) == 0
    where, found = np.asarray(detector_coordinates(PARAMS, "Dense_0", UNIT)), np.asarray(info.direction)
    return found[where], found[~where]


def test_the_sum_says_whether_the_target_has_the_property():
    """Whoever else has it; the sum there is the target's own update. The control is an honest round, which says nothing
    by being zero or not.
    """
    without, rest = sums(TO_TARGET, 0, 1)
    assert not without.any() and rest.any()
    alone, _ = sums(TO_TARGET, TARGET)
    crowd, _ = sums(TO_TARGET, 0, TARGET)
    assert alone.all() and same_bits(alone, crowd)
    np.testing.assert_allclose(alone, target_update(), atol=2.0**-20 + 1e-8)
    assert all(sums(HONEST, *who)[0].any() for who in [(), (TARGET,), (0,)])


def target_update():
    """What the target alone adds to the sum at the detector's coordinates, by the gradient of its one example."""
    x, y = data(TARGET).examples
    dense = PARAMS["Dense_0"]
    tampered = {"kernel": dense["kernel"].at[:, UNIT].set(WEIGHTS), "bias": dense["bias"].at[UNIT].set(-THRESHOLD)}
    params = {**PARAMS, "Dense_0": tampered}
    where = detector_coordinates(params, "Dense_0", UNIT)

    def loss(params):
        logits = MODEL.apply(params, x[TARGET])
        return -jax.nn.log_softmax(logits)[jnp.arange(M), y[TARGET]].mean()

    return np.asarray(jax.jit(lambda: ravel_pytree(jax.grad(loss)(params))[0])())[where] / N


def test_one_detector_for_all_says_whether_anybody_has_it():
    assert not sums(TO_ALL)[0].any()
    assert sums(TO_ALL, TARGET)[0].all() and sums(TO_ALL, 0)[0].all()


def test_masks_that_depend_on_the_model_hide_the_targets_and_not_everybodys():
    """They leave the sum uniform; what all are given alike passes with the bits it had."""
    for who in [(), (TARGET,)]:
        bound, rest = sums(TO_TARGET, *who, bind=True)
        assert bound.all() and np.abs(np.concatenate([bound, rest])).max() > Q / 8 / 2**20
        for kind in (HONEST, TO_ALL):
            assert same_bits(sums(kind, *who, bind=True), sums(kind, *who))


def nested_gradient(layer, first):
    """Of a network of two blocks with equally named layers and a detector of examples that sum to more than 10, at its
    coordinates; the one example is `(first, -45, 0, 0)`.
    """
    rng = np.random.default_rng(0)
    dense = lambda: {
        "Dense_0": {"kernel": jnp.asarray(np.abs(rng.normal(size=(4, 4))), jnp.float32), "bias": jnp.ones(4)}
    }
    params = {"b1": dense(), "b2": dense()}
    lies = property_detector(0, N, layer, UNIT, jnp.ones(4), 10.0)
    live = jax.tree.map(lambda a: a[1], models_of(lies, RoundState(jnp.int32(0), (), params, (), (), (), ())).params)

    def output(params):
        x = jnp.array([[first, -45.0, 0.0, 0.0]])
        for block in ("b1", "b2"):
            x = jax.nn.relu(x @ params[block]["Dense_0"]["kernel"] + params[block]["Dense_0"]["bias"][None])
        return x.sum()

    where = np.asarray(detector_coordinates(params, layer, UNIT))
    assert where.sum() == 5, "four weights and a bias"
    return np.asarray(jax.jit(lambda: ravel_pytree(jax.grad(output)(live))[0])())[where]


def test_one_of_several_layers_of_a_name_is_tampered_with():
    """Its path says which; the name alone is refused. The second block has units that fire on everything."""
    assert not nested_gradient("b1/Dense_0", 50.0).any() and nested_gradient("b1/Dense_0", 60.0)[:2].any()
    with pytest.raises(
        ValueError, match=r"^layer must be the path of one layer, .* \['b1/Dense_0', 'b2/Dense_0'\], got"
    ):
        nested_gradient("Dense_0", 50.0)


def test_a_layer_that_has_just_this_path_is_meant():
    dense = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    where = detector_coordinates({"Dense_0": dense, "b1": {"Dense_0": dense}}, "Dense_0", 1)
    assert where.tolist() == [False, True, False, True, False, True] + [False] * 6
    assert detector_coordinates([dense, dense], "1", 0).tolist() == [False] * 6 + [True, False] * 3


def test_a_detector_must_fit_the_model():
    state = RoundState(jnp.int32(0), (), PARAMS, (), (), (), ())
    for how, message in (
        ((0, 5, "Dense_9", 0, WEIGHTS, 1.0), r"layer must be one of the model with a bias, \['Dense_0', 'Dense_1'\]"),
        ((0, 5, "Dense_0", 6, WEIGHTS, 1.0), "unit must be one of the 6 of Dense_0, got 6"),
        ((0, 5, "Dense_0", 0, jnp.ones(3), 1.0), r"weights must have shape \(4,\), one for each input of Dense_0"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            models_of(property_detector(*how), state)
    with pytest.raises(ValueError, match="^target must be a client below 5, got 5"):
        property_detector(5, 5, "Dense_0", 0, WEIGHTS, 1.0)


DETECTOR = dict(target=TARGET, num_clients=N, layer="Dense_0", unit=UNIT, weights=WEIGHTS, threshold=THRESHOLD)
test_a_detector_that_would_never_fire_is_refused = refused(
    ({"threshold": np.nan}, "threshold must be a finite number, got nan"),
    ({"weights": [1.0, np.nan, 0.0, 0.0]}, "weights must be a finite number, got nan"),
    ({"unit": 1.5}, "unit must be an integer >= 0, got 1.5"),
    by=lambda change: inspect.unwrap(property_detector)(**DETECTOR | change),
)
test_a_unit_is_an_integer = refused(
    *((unit, f"unit must be an integer >= 0, got {unit}") for unit in (1.0, True)),
    by=lambda unit: inspect.unwrap(unit_of)(PARAMS, "Dense_0", unit),
)
