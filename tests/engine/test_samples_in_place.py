"""Training reads samples where they lie: nothing is copied, and no bit changes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems.same_parts import parts_of

from fedjax_priv import ClientData, systems
from fedjax_priv.base import Local, Rows, Told
from fedjax_priv.clients import fedsgd, local_sgd, once_per_model, poisson, sample
from fedjax_priv.engine.samples import samples_of
from fedjax_priv.engine.telling import told_by
from helpers import cohort_of, engine, mesh_of, same_bits

KEY, WEIGHTS = jax.random.key(0), jnp.zeros(3)
N, M = 12, 40
RNG = np.random.default_rng(0)
X, COUNT = RNG.normal(size=(N, M, 3)).astype(np.float32), RNG.permutation([0, 1, 2, 5, 8, 13, 20, 30, 37, 39, 40, 3])
DATA = ClientData((jnp.asarray(X), {"y": jnp.asarray(X[..., 0] > 0)}), jnp.asarray(COUNT, jnp.int32))


def loss(params, examples):
    x, label = examples
    return jnp.square(x @ params - label["y"].astype(jnp.float32))


def sgd(**options):
    return local_sgd(loss, learning_rate=0.1, batch_size=4, **{"num_epochs": 2, **options})


def copied(local):
    """The same training, for which samples are copied."""
    return local._replace(apply=dataclasses.replace(local.apply, in_place=False))


def two_rounds(system, data=DATA, params=WEIGHTS):
    state, step = system.init(KEY, params, data), jax.jit(system.step)
    for _ in range(2):
        state, info = step(KEY, state, data)
    return state, info


LOCALS = {
    "epochs": sgd(),
    "carried momentum": sgd(momentum=0.9, carry_momentum=True, proximal=0.1),
    "a clipped step": sgd(num_epochs=None, num_steps=1, sample_clip=1.0, gradient_noise=0.1),
    "a step": sgd(num_epochs=None, num_steps=1),
    "the gradient": fedsgd(loss),
}


@pytest.mark.parametrize(("name", "everyone"), [("epochs", True), ("epochs", False), ("the gradient", False)])
def test_a_round_has_the_bits_of_training_on_copies(name, everyone):
    """In the order of the population, and for a cohort with places that nobody takes; with rows, and of sums."""
    local, parts = LOCALS[name], {} if everyone else {"cohort": poisson(0.4)}
    assert (local.updates is None) == (name == "epochs")
    system = lambda local: engine(local=local, block=3, **parts)
    assert same_bits(two_rounds(system(local)), two_rounds(system(copied(local))))


def trained_on(local, data, start=WEIGHTS):
    """What four clients, some of whom have no samples, send and remember."""
    who = cohort_of(4)._replace(client=jnp.array([7, 2, 9, 4]))
    memory = local.init(4, WEIGHTS)
    return jax.jit(lambda data: local.apply(KEY, memory, start, data, who))(data)


def bits_are_those_of_copies(local, start=WEIGHTS):
    row = jnp.array([7, 2, 9, 4])
    copies = jax.tree.map(lambda a: a[row], DATA)
    rows = ClientData(Rows(DATA.examples, row), copies.count)
    assert local.in_place
    assert same_bits(trained_on(local, rows, start), trained_on(local, copies, start))


@pytest.mark.parametrize("name", LOCALS)
def test_training_has_the_bits_of_training_on_copies(name):
    bits_are_those_of_copies(LOCALS[name])


SYSTEMS = {
    "dp_sgd": lambda local, **where: systems.dp_sgd(local, num_clients=N, cohort_size=4, elide=True, **where),
    "once_per_model": lambda local, **where: systems.fedavg(once_per_model(local), **where),
    "scaffold": lambda local, **where: systems.scaffold(local, num_clients=N, **where),
    "fednova": systems.fednova,
    "dp_fedavg": lambda local, **where: systems.dp_fedavg(
        local, num_clients=N, clip=0.1, noise_multiplier=1.0, clip_quantile=0.5, count_noise=3.0, **where
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_made_of_training_reads_in_place_too(name):
    """The round hands it samples where they lie, or copies; and from both it has the same bits."""
    seen = []

    def watching(local):
        def apply(*args):
            seen.append(isinstance(args[3].examples, Rows))
            return local.apply(*args)

        corrected = lambda *args: seen.append(isinstance(args[3].examples, Rows)) or local.corrected(*args)
        return local._replace(apply=dataclasses.replace(local.apply, function=apply, corrected=corrected))

    def traced(local):
        system = SYSTEMS[name](watching(local), block=3, mesh=None)
        jax.eval_shape(lambda: system.step(KEY, system.init(KEY, WEIGHTS, DATA), DATA))
        found = {*seen}
        seen.clear()
        return found, parts_of(system)

    one_noisy_step = dict(num_epochs=None, num_steps=1, sample_clip=1.0, gradient_noise=0.1)
    local = sgd(**(one_noisy_step if name == "dp_sgd" else {}))
    (found, parts), (of_copies, _) = traced(local), traced(copied(local))
    assert found == {True} and of_copies == {False}
    told = told_by(parts.aggregate, parts.aggregate.init(WEIGHTS.size))
    bits_are_those_of_copies(parts.local, Told(WEIGHTS, told) if told else WEIGHTS)


@functools.cache
def spread_over(devices, cohort):
    parts = {} if cohort is None else {"cohort": sample(cohort)}
    return two_rounds(engine(local=sgd(), block=2, mesh=mesh_of(devices), **parts))


@pytest.mark.parametrize("cohort", [None, 4])
@pytest.mark.parametrize("devices", [3, 5])
def test_devices_read_what_they_hold(devices, cohort):
    """They share the rows of the population, if so many divide it, or all have all of them."""
    alone, spread = (spread_over(number, cohort) for number in (1, devices))
    assert same_bits((alone[0].params, alone[1].loss), (spread[0].params, spread[1].loss))


def test_a_row_counts_from_the_first_of_its_device():
    who = cohort_of(6)
    data = ClientData(jnp.arange(6), jnp.arange(6))
    of = lambda n, mesh: samples_of(sgd(), who, jax.tree.map(lambda a: a[:n], data), mesh, blocks_in_order=True)
    assert of(6, mesh_of(3)).by_client.examples.row.tolist() == [0, 1, 0, 1, 0, 1]
    assert of(6, mesh_of(4)).by_client.examples.row.tolist() == list(range(6)), "each device holds all"
    assert of(6, mesh_of(3)).spec != of(6, mesh_of(4)).spec


def test_a_cohort_of_samples_that_lie_on_several_devices_is_copied():
    who, spread = cohort_of(6)._replace(client=jnp.arange(6) + 3), mesh_of(3)
    found = samples_of(sgd(), who, DATA, spread, blocks_in_order=True)
    np.testing.assert_array_equal(found.by_client.examples[0], X[3:9])
    assert found.shared == ()
    in_order = samples_of(sgd(), cohort_of(N), DATA, spread, blocks_in_order=False)
    assert in_order.shared == (), "a chunk has clients of all devices"


@pytest.mark.parametrize("blocks_in_order", [True, False])
def test_or_a_device_trains_the_clients_that_it_holds(blocks_in_order):
    place = functools.partial(samples_of, sgd(), mesh=mesh_of(3), blocks_in_order=blocks_in_order, of_any=True)
    found = place(who=cohort_of(4)._replace(client=jnp.array([7, 0, 5, 10])), data=DATA)
    assert (found.device.tolist(), found.by_client.examples.row.tolist()) == ([1, 0, 1, 2], [3, 0, 1, 2])
    everyone = place(who=cohort_of(N), data=DATA)
    assert (everyone.device is None) == blocks_in_order


def bytes_held(local, *, n, devices=1, **parts):
    """What a round of softmax regression holds beside arguments and results, in samples of a client."""
    examples = jnp.ones((n, 400, 30)), jnp.zeros((n, 400), jnp.int32)
    data, params = ClientData(examples, jnp.full(n, 400, jnp.int32)), jnp.zeros((30, 2))
    system = engine(local=local, block=2, mesh=mesh_of(devices), **parts)
    state = jax.eval_shape(system.init, KEY, params, data)
    held = jax.jit(system.step).lower(KEY, state, data).compile().memory_analysis().temp_size_in_bytes
    return held / (400 * 31 * 4)


def classes(params, examples):
    x, y = examples
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ params), y[:, None], axis=1)[:, 0]


@pytest.mark.parametrize(
    "case",
    [
        dict(n=20),
        dict(n=60, cohort=sample(20)),
        dict(n=21, devices=2),
        dict(n=20, devices=2),
        dict(n=60, cohort=sample(20), devices=2),
    ],
    ids=["everyone", "cohort", "shared", "split", "cohort of a split population"],
)
def test_no_samples_are_copied(case):
    """Those of a client take 50 kB; shuffles and batches are a tenth of it."""
    local = local_sgd(classes, learning_rate=0.1, batch_size=4, num_epochs=1)
    assert bytes_held(local, **case) < 1 < 1.9 < bytes_held(copied(local), **case)


def test_one_step_of_all_clients_copies_none_either():
    local = local_sgd(classes, learning_rate=0.1, batch_size=4, num_steps=1)
    assert local.updates is not None
    assert bytes_held(local, n=20) < 10 < 20 < bytes_held(copied(local), n=20)


def test_samples_may_be_numpy_arrays_that_a_round_closes_over():
    data, system = jax.tree.map(np.asarray, DATA), engine(local=sgd(), block=3)
    given = jax.jit(system.step)(KEY, system.init(KEY, WEIGHTS, DATA), DATA)
    assert same_bits(given, jax.jit(lambda: system.step(KEY, system.init(KEY, WEIGHTS, data), data))())


def test_training_that_does_not_say_so_gets_arrays_of_its_block():
    seen = []

    def apply(key, memory, params, data, cohort):
        seen.append(jax.tree.map(jnp.shape, data.examples))
        return jnp.zeros((cohort.client.size, 3)), memory, jnp.zeros(cohort.client.size)

    local = Local(lambda n, params: (), apply)
    two_rounds(engine(local=local, block=3), DATA._replace(examples=()))
    assert seen and set(seen) == {()}, "it may need none"
    seen.clear()
    two_rounds(engine(local=local, block=3))
    assert set(map(str, seen)) == {str(((3, M, 3), {"y": (3, M)}))}
