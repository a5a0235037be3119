"""Wrong parts of a round: the error names the argument, the type and an example."""

import inspect
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv import aggregators, attacks, channels, clients, layers, losses, metrics, models, sweep, systems
from fedjax_priv._validate import function, part
from fedjax_priv.base import Aggregator, Channel, ClientData, Kept, Local
from fedjax_priv.engine.parts import check_types
from fedjax_priv.engine.returned_by_parts import check_direction
from fedjax_priv.runs import checks
from helpers import cohort_of, engine, refuses, towards_target

KEY, D = jax.random.key(0), 64

FINE = dict(
    cohort=clients.everyone(), local=towards_target(), layers=layers.plain(), channel=channels.erasure(0.0),
    aggregate=aggregators.mean(), server=optax.sgd(1.0),
)  # fmt: skip


def test_parts_of_their_types_pass():
    check_types(FINE)
    part(Aggregator, "mean()", aggregate=FINE["aggregate"])


test_a_part_of_another_type_is_named = refuses(
    lambda wrong: check_types(FINE | wrong),
    (
        {"aggregate": aggregators.krum},
        r"^aggregate must be an Aggregator, such as .*, got krum, which may",
    ),
    ({"aggregate": lambda rows: rows}, r"^aggregate must be an Aggregator, such as .*from_host.*, got function$"),
    ({"local": clients.local_sgd}, r"^local must be a Local, such as .*, got local_sgd, which"),
    ({"layers": [layers.plain()]}, r"^layers must be a Layer, such as .*, got list$"),
    ({"channel": None}, r"^channel must be a Channel, such as .*, got NoneType$"),
    ({"server": "adam"}, r"^server must be a GradientTransformation, such as .*, got str$"),
    ({"cohort": types}, r"^cohort must be a Draw, such as .*"),
)
test_a_function_of_other_arguments_is_named = refuses(
    lambda wrong: check_types(FINE | wrong),
    (
        {"aggregate": Aggregator(lambda d: (), lambda rows: rows.mean(0))},
        r"^aggregate.apply must be a function of \(key, state, received\), got one of \(rows\)$",
    ),
    ({"local": Local(lambda n, params: (), 3)}, r"^local.apply must be a function of \(key, memory, .*, got int$"),
    (
        {"channel": Channel(lambda y: y, lambda key, received: received)},
        r"^channel.transmit must .*, got one of \(y\)$",
    ),
)
test_a_half_of_a_layer_with_other_arguments_is_named = refuses(
    lambda make: inspect.unwrap(make)(),
    (lambda: layers.stateless(lambda key, x: x), r"^encode must be .* \(key, x, cohort\), got one of \(key, x\)$"),
    (
        lambda: layers.stateless(decode=lambda header, public, received: received),
        r"^decode must be a function of \(received\), got one of \(header, public, received\)$",
    ),
    (
        lambda: layers.stack(mine=layers.stateless()._replace(encode=lambda key, x, cohort: x), send=layers.plain()),
        r"^mine.encode must be a function of \(key, private, public, x, cohort\), got one of \(key, x, cohort\)$",
    ),
)
test_a_layer_that_is_none_is_named = refuses(
    lambda wrong: inspect.unwrap(layers.stack)(**wrong, send=layers.plain()),  # without the tests' check of types
    (
        {"a": layers.clip},
        r"^a must be a Layer, such as layers.clip\(1.0\), got clip, which may have to be called first$",
    ),
    (
        {"a": layers.rand_k},  # a function of three arguments that makes a layer
        r"^a must be a Layer, such as layers.clip\(1.0\), got rand_k, which may have to be called first$",
    ),
    ({"a": lambda x, y: x}, r"^a must be a Layer, such as layers.clip\(1.0\), got function$"),
    ({"a": attacks.alie()}, r"^a must be a Layer: an attack becomes one by attacks.on_updates, got \w+$"),
)
test_a_folder_alone_is_no_keep = refuses(
    inspect.unwrap(checks.check_keep), ("results/a", r"^keep must be a Keep, such as Keep\('results/a'\), got str$")
)
test_a_direction_of_another_shape_is_named = refuses(
    lambda made: check_direction(made, 3, jnp.zeros(2)),
    (jnp.zeros(3), r"^aggregate must return a pair, a direction \[d\] and its state, got an array of shape \(3,\)$"),
    ((jnp.float32(0), ()), r"^aggregate must return a direction of shape \(3,\), one number per parameter, got \(\)$"),
    ((jnp.zeros((1, 3)), ()), r"^aggregate must return a direction of shape \(3,\), .* got \(1, 3\)$"),
    (
        (jnp.zeros(3), jnp.zeros(4)),
        r"^aggregate must return a state of the arrays of its init, float32\[2\], got float32\[4\]$",
    ),
    ((jnp.zeros(3), jnp.zeros(2, jnp.int32)), r".* got int32\[2\]$"),
    ((jnp.zeros(3), ()), r".* got \(\)$"),
    ((jnp.zeros(3), Kept(jnp.zeros(2), jnp.zeros(3))), r".* got float32\[3\]$"),
)
test_what_is_no_function_of_so_many_arguments_is_named = refuses(
    lambda given: function(4, "attacks.alie()", attack=given),
    ("alie", r"^attack must be a function of 4 arguments, such as attacks.alie\(\), got 'alie'$"),
    (attacks.alie, r".*, got alie, which may have to be called first$"),
    (lambda updates: updates, r".*, got function$"),
    (None, r".*, got NoneType$"),
)
test_what_cannot_measure_or_log_is_named = refuses(
    lambda given: checks.check_shown(**{"evaluate": None, "log": None, "progress": False} | given),
    ({"evaluate": {"accuracy": 0.5}}, r"^evaluate must be a function of 1 argument, such as .*, got dict$"),
    ({"evaluate": metrics.accuracy}, r".*, got accuracy, which may have to be called first$"),
    ({"log": "run.log"}, r"^log must be a function of 1 argument, such as print, got 'run.log'$"),
    ({"progress": "x"}, r"^progress must be one of True, False, got 'x'$"),
)

FACTORIES = [
    attacks.alie, attacks.foe, attacks.gaussian, attacks.infinite, attacks.mimic, attacks.min_max, attacks.min_sum,
    attacks.optimal_alie, attacks.optimal_foe, attacks.sign_flip, attacks.one_of, attacks.model_replacement,
    attacks.orthogonal_perturbation, attacks.relocated_perturbation,
]  # fmt: skip


@pytest.mark.parametrize("factory", FACTORIES)
def test_an_attack_that_was_not_called_is_refused(factory):
    for layer in (attacks.on_updates, lambda attack: attacks.on_sparse(attack, D)):
        with pytest.raises(ValueError, match=f"^attack must be .*, got {factory.__name__}, which may"):
            layer(factory)


test_an_attack_of_other_rows_is_named = refuses(
    lambda layer: jax.eval_shape(layer.encode, KEY, layer.init(KEY, 4), (), jnp.ones((4, D)), cohort_of(4)),
    (
        attacks.on_updates(lambda key, updates, honest, byzantine: updates.mean(0)),
        r"^attack must return rows of shape \(4, 64\) or \(1, 64\), got \(64,\)",
    ),
    (attacks.on_updates(lambda key, updates, honest, byzantine: updates[:2]), r"^attack must .*, got \(2, 64\)"),
    (attacks.on_group_means(lambda key, means, honest, byzantine: means[:, :1], 2), r"^attack .*, got \(2, 1\)"),
    (
        layers.conspar(D, 3, attack=lambda key, updates, proposals, honest: proposals[:, :2]),
        r"^coordinate_attack must return proposals of shape \(4, 3\), got \(4, 2\)",
    ),
)


def traced(local, params):
    """A round, traced only."""
    system = systems.fedavg(local)
    jax.eval_shape(lambda params: system.step(KEY, system.init(KEY, params, DATA), DATA), params)


DATA = ClientData((jnp.ones((4, 2, D)), jnp.zeros((4, 2), jnp.int32)), jnp.full(4, 2))
MODEL = models.softmax_regression((D,), 3)
SGD = dict(learning_rate=0.1, batch_size=2, num_steps=1)


def test_a_loss_that_is_none_is_named():
    train = inspect.unwrap(clients.local_sgd)
    with pytest.raises(ValueError, match=r"^loss must be a function of 2 arguments, such as .*, got Model$"):
        train(MODEL, **SGD)
    with pytest.raises(ValueError, match=r".*, got softmax_cross_entropy, which may have to be called first$"):
        train(losses.softmax_cross_entropy, **SGD)
    with pytest.raises(ValueError, match=r"^loss must return the loss of each example.*got apply, probably that of a"):
        traced(train(MODEL.apply, **SGD), MODEL.init(KEY))
    with pytest.raises(ValueError, match=r"^loss must return the loss of each example.*got apply, probably that of a"):
        losses.checked_loss(MODEL.apply)(MODEL.init(KEY), jnp.ones((2, D)))  # examples without labels


def test_params_of_another_model_are_named():
    """The control is what fails for another reason."""
    local = clients.fedsgd(losses.softmax_cross_entropy(MODEL))
    with pytest.raises(ValueError, match=r"^params must be those of the model of the loss, .* \(64, 3\), got \(5, 3\)"):
        traced(local, models.softmax_regression((5,), 3).init(KEY))
    with pytest.raises(ValueError, match=r"^params must be those of the model .*, got None"):
        traced(local, {"w": jnp.ones(3)})
    broken = MODEL._replace(apply=lambda params, x: x.no_such_name)
    with pytest.raises(AttributeError, match="no_such_name"):
        traced(clients.fedsgd(losses.softmax_cross_entropy(broken)), MODEL.init(KEY))


def test_a_sweep_of_parts_is_refused():
    with pytest.raises(ValueError, match=r"^what make returns must be an Algorithm, such as .*, got Local$"):
        sweep(lambda: towards_target(), {"seed": [1, 2]}, KEY, jnp.zeros(3), DATA, rounds=1)


def test_a_direction_and_its_state_pass():
    state = {"steps": jnp.int32(0)}
    assert check_direction((np.zeros(3), state), 3, state)[1] is state
    assert check_direction((np.zeros(3), Kept(state, state)), 3, state)


def test_rows_of_different_lengths_are_named():
    with pytest.raises(ValueError, match=r"^rows must have shape \[g, d\], got rows of shapes \(1,\), \(2,\)$"):
        aggregators.krum(1)([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("rows", [np.zeros((0, 3)), np.zeros((3, 0))])
def test_no_rows_are_named(rows):
    with pytest.raises(ValueError, match=r"^rows must have shape \[g, d\] and not be empty, got \(\d, \d\)$"):
        aggregators.coordinate_median()(rows)


@pytest.mark.parametrize("params", [{}, {"w": np.zeros((0, 3), np.float32)}])
def test_a_model_of_nothing_is_named(params):
    with pytest.raises(ValueError, match="^params must have at least one number, got none$"):
        engine(local=towards_target()).init(KEY, params, DATA)
