import pathlib
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from fedjax_priv import models, systems
from fedjax_priv.base import Algorithm, ClientData, Local
from fedjax_priv.cli.experiment import MODELS, experiment, options_by_part
from fedjax_priv.cli.options import REQUIRED, handed_on, options_of, takes
from fedjax_priv.data import Dataset
from helpers import cohort_of, refuses

ALL = ["system", "training", "server", "byzantine", "data", "model"]
GIVEN = {int: 2, float: 0.5}  # for an option without a default


def defaults(system):
    return {
        name: GIVEN[option.type] if option.default is REQUIRED else option.default
        for options in options_by_part(system).values()
        for name, option in options.items()
    }


def made(system="fedavg", **values):
    unknown = values.keys() - defaults(system).keys()
    assert not unknown
    return experiment(system, defaults(system) | {"num_clients": 4, "hidden": (5,)} | values)


@pytest.mark.parametrize("system", systems.__all__)
def test_every_system_has_options_and_can_be_made_from_their_defaults(system):
    """Also systems that come later: nothing here names one. Rounds are traced in tests of the command `audit`."""
    assert [*options_by_part(system)] == ALL
    for options in options_by_part(system).values():
        for option in options.values():
            assert option.type is not None
    chosen = made(system, model="softmax", hidden=None)
    assert isinstance(chosen.make(), Algorithm)


@pytest.mark.parametrize("system", ["fedavg", "dp_sgd"])
def test_default_training_is_that_of_a_round(system):
    """Steps of `dp_sgd` are counted otherwise than those of all others."""
    chosen = made(system, model="softmax", hidden=None)
    algorithm, key = chosen.make(), jax.random.key(0)
    state = jax.eval_shape(lambda: algorithm.init(key, chosen.model.init(key), chosen.data))
    _, info = jax.eval_shape(algorithm.step, key, state, chosen.data)
    assert info.direction.shape == (64 * 10 + 10,)


def other_choices(option):
    """Values of a flag or a choice that are not its default."""
    if option.type is bool:
        return [not option.default]
    members = (option.type, *typing.get_args(option.type))
    found = [value for member in members if typing.get_origin(member) is typing.Literal for value in member.__args__]
    return [value for value in found if value != option.default]


def refusal(chosen, name, value):
    """What is said to a choice; nothing if it is taken."""
    try:
        chosen.make(**{name: value})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("system", systems.__all__)
def test_a_choice_is_not_refused_for_defaults_that_nobody_gave(system):
    """A command line hands over every default; what "must not be given" is then what was chosen."""
    chosen = made(system)
    for name, option in options_by_part(system)["system"].items():
        for said in filter(None, (refusal(chosen, name, value) for value in other_choices(option))):
            blamed, must_not, _ = said.partition(" must not be given")
            assert name in said and (not must_not or blamed == name), said


def test_the_options_of_a_system_are_those_of_its_signature():
    fedavg, secagg = (options_by_part(name)["system"] for name in ("fedavg", "secagg"))
    assert fedavg.keys() == {"cohort_size", "dropout", "exact", "block"}
    assert fedavg["block"] == secagg["block"] and options_by_part("f2ed")["server"]  # handed on to the round
    assert secagg["neighbours"].default == "all" and "even number" in secagg["neighbours"].help  # and to the masks
    assert secagg.keys() == {
        "num_clients", "cohort_size", "dropout", "leave", "levels", "neighbours", "threshold", "elide",
        "normalize", "block", "clip", "noise_variance", "consistency", "bind_model", "key_agreement", "prg",
        "norm_bound", "max_entry", "proof", "verdict", "check_range",
    }  # fmt: skip
    assert typing.get_args(secagg["normalize"].type) == ("expected", "survivors")
    assert secagg["leave"].help == "probability that a survivor is gone when the server asks for shares."
    training = options_by_part("fedavg")["training"]
    assert (training["learning_rate"].default, training["batch_size"].default) == (0.1, 10)


def test_what_a_system_hands_on_is_an_argument_of_who_gets_it():
    """And nothing else is taken."""
    for function in (getattr(systems, name) for name in systems.__all__):
        assert {"server", "block", "mesh", "observe"} <= handed_on(function).keys()
        assert all(takes(to, name) for name, to in handed_on(function).items())
    for name, of in (("f2ed", "share"), ("dp_sgd", "cdp_fl")):
        assert options_by_part(name)["system"].keys() >= options_by_part(of)["system"].keys()
    assert not {"block", "elide"} & options_of(systems.secagg, without=("block", "elide")).keys()
    with pytest.raises(TypeError, match=r"^secagg has no argument blok \(did you mean block\?\); it takes local, "):
        systems.secagg(Local(print, print), num_clients=4, blok=3)


def test_the_size_of_the_model_is_no_option(monkeypatch):
    """A system that needs it is told."""
    given = []

    def record(local, *, num_params: int, strength: float = 0.5):
        given.append(num_params)
        return Algorithm(print, print)

    monkeypatch.setattr(systems, "fedavg", record)
    assert options_by_part("fedavg")["system"].keys() == {"strength"}
    for hidden in (5, 16):
        made(hidden=(hidden,)).make()
    assert given == [64 * hidden + hidden + 10 * hidden + 10 for hidden in (5, 16)]


def test_options_of_a_part_that_no_command_line_gives_are_left_out():
    """Without a secure sum, which is a layer, they are refused or change nothing; another system has one."""
    of_sum = {"levels", "weight_levels", "leave"}
    assert not of_sum & options_by_part("fedbuff")["system"].keys()
    assert of_sum <= options_by_part("secure_fedbuff")["system"].keys()


def test_every_option_has_help():
    short = {"hidden": "mlp: units of each hidden layer.", "padding": "mcmahan_cnn: padding of the convolutions"}
    for system in systems.__all__:
        for options in options_by_part(system).values():
            for name, option in options.items():
                assert len(option.help) > 10 and option.help.startswith(short.get(name, "")), name


@pytest.fixture
def parts(monkeypatch):
    """`parts(chosen, **point)` is what a made-up system in place of FedAvg is given by `make`."""
    given = {}

    def record(local, *, num_clients: int, strength: float | Array = 0.5, server=None):
        given.update(local=local, num_clients=num_clients, strength=strength, server=server)
        return Algorithm(print, print)

    monkeypatch.setattr(systems, "fedavg", record)
    return lambda chosen, **point: chosen.make(**point) and given.copy()


def update_of(local, chosen, params):
    """Update of the first client alone."""
    data = jax.tree.map(lambda rows: jnp.asarray(rows[:1]), chosen.data)
    apply = jax.jit(lambda params: local.apply(jax.random.key(0), local.init(1, params), params, data, cohort_of(1)))
    return np.asarray(apply(params)[0])


def test_values_reach_the_parts_and_a_point_of_a_sweep_replaces_them(parts):
    assert options_by_part("fedavg")["system"].keys() == {"num_clients", "strength"}
    chosen = made(strength=0.25, model="softmax", hidden=None, num_steps=1, batch_size=360, learning_rate=0.5)
    params = chosen.model.init(jax.random.key(1))
    given, point = parts(chosen), parts(chosen, learning_rate=0.25, strength=0.125)
    assert (given["num_clients"], given["strength"], point["strength"]) == (4, 0.25, 0.125)
    full, half = (update_of(which["local"], chosen, params) for which in (given, point))
    assert np.abs(full).max() > 0
    np.testing.assert_allclose(half, full / 2, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("optimizer", "move"), [("sgd", -0.5 * 7), ("adam", -0.5)])
def test_the_server_has_its_optimizer(parts, optimizer, move):
    """The first step of Adam is the learning rate, whatever the gradient."""
    server = parts(made(optimizer=optimizer, server_learning_rate=0.5))["server"]
    gradient = jnp.full(3, 7.0)
    with jax.numpy_dtype_promotion("standard"):  # optax takes powers of floats by integer counts
        update, _ = server.update(gradient, server.init(gradient))
    np.testing.assert_allclose(update, move, rtol=1e-5)


def test_data_and_partition_follow_their_options():
    iid, skew = made(), made(partition="quantity_skew", concentration=0.5)
    assert isinstance(iid.data, ClientData) and isinstance(iid.make(), Algorithm)
    assert iid.data.count.tolist() == [360, 359, 359, 359]
    assert skew.data.count.sum() == 1437 and np.ptp(skew.data.count) > 50
    again, other = made(), made(data_seed=1)
    assert np.array_equal(again.data.examples[0], iid.data.examples[0])
    assert not np.array_equal(other.data.examples[0], iid.data.examples[0])
    metrics = jax.eval_shape(iid.evaluate, iid.model.init(jax.random.key(0)))
    assert metrics.keys() == {"accuracy", "test_loss"}


@pytest.mark.parametrize("name", MODELS)
def test_a_table_is_for_models_of_rows(monkeypatch, name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 6)).astype(np.float32), np.arange(40, dtype=np.int32) % 2
    monkeypatch.setattr("fedjax_priv.data.adult", lambda folder: Dataset(x, y, x, y, num_classes=2))
    table = dict(dataset="adult", data_dir=pathlib.Path("there"), model=name, hidden=(3,) if name == "mlp" else None)
    if name in ("mlp", "softmax"):
        chosen = made(**table)
        first = chosen.model.init(jax.random.key(0))  # of zeros under softmax, where all rows would be of one class
        params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), first)
        right = np.asarray(chosen.model.apply(params, jnp.asarray(x))).argmax(1) == y
        assert 0 < right.mean() < 1
        assert chosen.evaluate(params)["accuracy"] == pytest.approx(right.mean())
    else:
        with pytest.raises(ValueError, match=f"^model {name} is for images, got rows of 6 numbers"):
            made(**table)


@pytest.mark.parametrize("name", MODELS)
def test_models_by_name(monkeypatch, name):
    """On images of CIFAR-10's size, which all of them take."""
    images = np.zeros((8, 32, 32, 3), np.float32), np.arange(8, dtype=np.int32)
    cifar = Dataset(*images, *images, num_classes=10)
    monkeypatch.setattr("fedjax_priv.data.cifar10", lambda data_dir: cifar)
    chosen = made(dataset="cifar10", model=name, hidden=(7,) if name == "mlp" else None)
    sizes = {
        "softmax": 3073 * 10,
        "mlp": 3073 * 7 + 80,
        "mcmahan_cnn": 25 * 3 * 32 + 32 + 25 * 32 * 64 + 64 + (8 * 8 * 64 + 1) * 512 + 5130,
        "cifar_cnn": 165_354,
        "resnet20": 272_474,
    }
    assert models.num_params(jax.eval_shape(chosen.model.init, jax.random.key(0))) == sizes[name]


test_options_that_do_not_fit_are_refused = refuses(
    lambda values: made(**values),
    ({"num_clients": 0}, "num_clients must be an integer >= 1, got 0"),
    ({"partition": "dirichlet"}, "concentration must be given with partition dirichlet"),
    ({"concentration": 1.0}, "concentration is for partition dirichlet or quantity_skew, got it with iid"),
    ({"model": "softmax"}, "hidden is for model mlp, got it with softmax"),
    ({"model": "cifar_cnn", "hidden": None}, "model cifar_cnn is for images of 32x32x3, got 8x8x1"),
    ({"data_dir": pathlib.Path("somewhere")}, "data_dir is for dataset mnist, cifar10 or adult, got it with digits"),
    ({"dataset": "adult"}, "data_dir must be given with dataset adult: the folder of adult.data and adult.test"),
    ({"data_seed": -1}, "data_seed must be an integer >= 0, got -1"),
    whole=True,
)


test_values_of_the_parts_are_checked_by_the_parts = refuses(
    lambda values: made(**values).make(),
    ({"num_epochs": 1, "num_steps": 1}, "exactly one of num_epochs and num_steps"),
    ({"server_learning_rate": 0.0}, "server_learning_rate must be a finite number > 0"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1"),
)
