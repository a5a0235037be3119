"""Clients of different numbers of samples: nobody waits longer than needed, and no bit changes."""

import functools
import pathlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarks import uneven_clients
from fedjax_priv import ClientData
from fedjax_priv.clients import local_sgd, poisson
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.parts import checked_clients
from fedjax_priv.engine.side_by_side import traced_for
from fedjax_priv.systems import fedavg
from helpers import accelerator_forms, cohort_of, engine, mesh_of, same_bits

KEY = jax.random.key(0)
COUNT = np.array([3, 40, 1, 22, 0, 39, 2, 5, 21])
M, D, B = 40, 3, 4
EXAMPLES = np.random.default_rng(0).normal(size=(COUNT.size, M, D)).astype(np.float32)
DATA = ClientData(jnp.asarray(EXAMPLES), jnp.asarray(COUNT, jnp.int32))


def counting():
    """A loss that notes each step, which all clients of a block take at once, and the list it notes them in."""
    seen = []

    def loss(params, examples):
        jax.debug.callback(lambda: seen.append(1))
        return jnp.square(examples - params[None]).sum(1)

    return loss, seen


def steps_taken(run):
    """How many steps of a block `run(loss)` computes."""
    loss, seen = counting()
    jax.block_until_ready(run(loss))
    jax.effects_barrier()
    return len(seen)


def sgd(loss, **options):
    return local_sgd(loss, learning_rate=0.1, batch_size=B, **options)


def waiting(batches, block):
    """Steps that blocks of `block` neighbours compute, each as many as its longest client."""
    return sum(max(part) for part in np.split(np.asarray(batches), range(block, len(batches), block)))


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_clients_of_about_the_same_work_share_a_block_and_return_to_their_places(devices):
    n, block = 10, 3
    work = np.random.default_rng(1).permutation(n) * 10

    def longest(shared, valid, number, work):
        return jnp.where(valid, number + 1, 0).sum(), (number, jnp.full(work.shape, work.max()))

    run = jax.jit(
        lambda work: over_clients(
            longest, (), (jnp.arange(n), work), row_bytes=1, work=work, block=block, mesh=mesh_of(devices)
        )
    )
    total, (number, largest) = run(jnp.asarray(work))
    assert int(total) == n * (n + 1) // 2
    np.testing.assert_array_equal(number, np.arange(n))
    for own in np.split(np.arange(n), range(-(-n // devices), n, -(-n // devices))):  # what a device has
        if devices == 1:  # ten in blocks of 3, 3, 3 and, reaching back over its neighbour, 1
            assert [int(largest[i]) for i in own[np.argsort(work[own])]] == [20] * 3 + [50] * 3 + [80] * 3 + [90]
        assert all(largest[i] >= work[i] for i in own)
        in_order = np.asarray(largest)[own[np.argsort(work[own])]]
        assert (np.diff(in_order) >= 0).all(), "with more work there is no shorter block"


@pytest.mark.parametrize("options", [{"num_epochs": 2}, {"num_steps": 7}], ids=str)
def test_a_block_ends_with_its_longest_client(options):
    whole, small = np.array([1, 3, 5, 7, 8]), np.array([2, 4, 6])

    def run(rows):
        data = jax.tree.map(lambda a: a[rows], DATA)
        who = cohort_of(len(rows))
        return steps_taken(lambda loss: jax.jit(sgd(loss, **options).apply)(KEY, (), jnp.zeros(D), data, who))

    steps = (lambda count: 2 * -(-count // B)) if "num_epochs" in options else (lambda count: 7 * (count > 0))
    for rows in (whole, small, np.array([4])):
        assert run(rows) == steps(COUNT[rows]).max()


def test_a_round_waits_within_blocks_of_similar_clients_only():
    run = lambda loss: _round(fedavg(sgd(loss, num_epochs=1), block=3, mesh=None))
    batches = -(-COUNT // B)
    assert steps_taken(run) == waiting(sorted(batches), 3) < waiting(batches, 3)


def test_who_is_not_selected_takes_no_time():
    draw, n = poisson(0.5), COUNT.size
    system = lambda loss: engine(local=sgd(loss, num_epochs=1), cohort=draw, block=3, mesh=None)
    who, _ = system(counting()[0]).draw(KEY, draw.init(KEY, n), jnp.int32(0), DATA.count)
    mine = np.where(who.selected, -(-COUNT[np.asarray(who.client)] // B), 0)
    assert 0 < np.asarray(who.selected).sum() < who.client.size
    assert who.client.size % 3 == 0, "no block reaches back over another"
    assert steps_taken(lambda loss: _round(system(loss))) == waiting(sorted(mine), 3) < waiting(mine, 3)


def _round(system):
    state = system.init(KEY, jnp.zeros(D), DATA)
    return jax.jit(system.step)(KEY, state, DATA)


def test_the_block_changes_neither_who_is_who_nor_a_bit():
    system = lambda **placement: fedavg(sgd(lambda w, x: x @ w, num_epochs=2), **placement)
    alone = _round(system(block=1, mesh=None))
    for block, devices in ((4, 1), (100, 1), (2, 3)):
        state, info = _round(system(block=block, mesh=mesh_of(devices)))
        assert same_bits((alone[0].params, alone[1].loss, alone[1].client), (state.params, info.loss, info.client))


def test_runs_side_by_side_end_with_the_longest_of_all_and_none_is_changed():
    counts = jnp.asarray([[3, 4, 0], [5, 21, 9]], jnp.int32)
    data = ClientData(DATA.examples[:3], counts[0])

    def updates(loss, count):
        local = sgd(loss, num_epochs=1)
        return local.apply(KEY, (), jnp.zeros(D), data._replace(count=count), cohort_of(3))[0]

    together = lambda loss: jax.jit(jax.vmap(lambda count: updates(loss, count)))(counts)
    loss = counting()[0]
    alone = [updates(loss, count) for count in counts]
    assert steps_taken(together) == 6
    np.testing.assert_allclose(together(loss), alone, rtol=1e-5, atol=1e-6)
    with accelerator_forms():
        np.testing.assert_allclose(together(loss), alone, rtol=1e-5, atol=1e-6)


UNEVEN = [{"num_epochs": 1}, {"num_epochs": 1, "batch_size": M - 1}]
EVEN = [{"num_steps": 3}, {"num_epochs": 2, "batch_size": M}]
"""Training of the same number of steps for all clients that have samples."""


@pytest.mark.parametrize(
    ("options", "on_accelerators"),
    [*((uneven, ["while"] * 3) for uneven in UNEVEN), *((even, ["scan"]) for even in EVEN)],
    ids=str,
)
def test_loops_of_accelerators_have_a_known_length_if_all_clients_take_as_many_steps(options, on_accelerators):
    local = local_sgd(lambda w, x: x @ w, **{"learning_rate": 0.1, "batch_size": B, **options})
    train = lambda data: local.apply(KEY, (), jnp.zeros(D), data, cohort_of(COUNT.size))
    for platform, loops in (("cpu", ["while"]), ("gpu", on_accelerators), ("tpu", on_accelerators)):
        with traced_for(platform):
            names = [eqn.primitive.name for eqn in jax.make_jaxpr(train)(DATA).eqns]
        assert [name for name in names if name in ("while", "scan")] == loops, platform


@functools.cache
def counted_on_accelerators():
    """Two epochs, compiled once for each number of clients, and a list of the steps that they take."""
    rows = []

    def loss(params, examples):
        jax.debug.callback(lambda _: rows.append(1), examples[0, 0])  # once for each client of a step
        return jnp.square(examples - params[None]).sum(1)

    return jax.jit(sgd(loss, num_epochs=2).apply), rows


@pytest.mark.parametrize("counts", [COUNT, COUNT[:1], COUNT[:2], 0 * COUNT, [M] * 5, [1, 2, 3, 40] * 8], ids=str)
def test_on_accelerators_clients_that_are_done_drop_out(counts):
    """Until a quarter is left, and then a 16th, as counted here by hand."""
    counts = np.asarray(counts)
    data = ClientData(jnp.ones((counts.size, M, D)), jnp.asarray(counts, jnp.int32))
    run, rows = counted_on_accelerators()
    rows.clear()
    with accelerator_forms():
        jax.block_until_ready(run(KEY, (), jnp.zeros(D), data, cohort_of(counts.size)))
    jax.effects_barrier()
    assert len(rows) == computed(2 * -(-counts // B))


def computed(end):
    """Steps of a client that are computed, some of which it does not need."""
    total = 0
    for time in range(max(end)):
        left = sum(steps > time for steps in end)
        total += min(width for part in (1, 4, 16) if (width := -(-len(end) // part)) >= left)
    return total


def test_the_page_says_how_many_steps_that_saves():
    sizes = uneven_clients.SIZES
    end = -(-sizes // 20)
    assert (sizes.size, round(sizes.mean()), sizes.max()) == (1_000, 29, 600)
    page = " ".join((pathlib.Path(__file__).parents[2] / "docs" / "scaling.md").read_text().split())
    assert f"computes {computed(end):,} steps of a client in an epoch. All clients together need {end.sum():,}" in page
    assert f"as many steps for each as the largest could need would be {end.size * end.max():,}." in page


OPTIONS = {
    "plain": {"num_epochs": 2},
    "momentum": {"num_epochs": 2, "momentum": 0.9, "carry_momentum": True},
    "proximal, schedule": {"num_epochs": 1, "proximal": 0.3, "learning_rate": lambda rounds: 0.1 / (1 + rounds)},
    "clipped, noisy": {"num_epochs": 1, "sample_clip": 0.5, "gradient_noise": 0.1},
}


def trained(name):
    """Local training, and what clients send and remember of it in the third round."""
    local = local_sgd(
        lambda w, x: x @ w + jnp.square(w).sum(), **{"learning_rate": 0.1, "batch_size": B, **OPTIONS[name]}
    )

    def run():
        who = cohort_of(COUNT.size)._replace(round=jnp.int32(2))
        numbered = lambda a: (jnp.arange(a.size).reshape(a.shape) % 3).astype(a.dtype)
        memory = jax.tree.map(numbered, local.init(COUNT.size, jnp.zeros(D)))
        return jax.jit(local.apply)(KEY, memory, jnp.full(D, 0.3), DATA, who)

    return local, run


@pytest.mark.parametrize("name", OPTIONS)
def test_accelerators_train_as_a_cpu_does(name):
    _, run = trained(name)
    on_a_cpu = run()
    with accelerator_forms():
        chex.assert_trees_all_close(run(), on_a_cpu, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("block", "devices"), [(4, 1), (9, 1), (None, 3)])
def test_rounds_of_accelerators_are_those_of_a_cpu(block, devices):
    """Samples are those of each client wherever it stands among the others, and so are its keys and its memory."""
    local, _ = trained("momentum")

    def rounds():
        system = fedavg(local, dropout=0.2, block=block, mesh=mesh_of(devices))
        state, step = system.init(KEY, jnp.zeros(D), DATA), jax.jit(system.step)
        for _ in range(2):
            state, info = step(KEY, state, DATA)
        return state.params, state.memory, info.loss

    on_a_cpu = rounds()
    with accelerator_forms():
        chex.assert_trees_all_close(rounds(), on_a_cpu, rtol=1e-5, atol=1e-6)


def test_accelerators_add_to_gradients_what_belongs_to_the_client():
    """As a CPU, with SCAFFOLD's corrections in place of random numbers."""
    added = jax.random.normal(KEY, (COUNT.size, D))
    corrected = sgd(lambda w, x: x @ w + jnp.square(w).sum(), num_epochs=1).apply.corrected

    def run():
        return jax.jit(corrected)(KEY, (), jnp.zeros(D), DATA, cohort_of(COUNT.size), added)

    on_a_cpu = run()
    with accelerator_forms():
        chex.assert_trees_all_close(run(), on_a_cpu, rtol=1e-5, atol=1e-6)


def test_on_accelerators_a_change_of_one_client_changes_no_other():
    """Also where it takes the most steps, and so another place among the others."""

    def updates(counts):
        data = DATA._replace(count=jnp.asarray(counts, jnp.int32))
        with accelerator_forms():
            return jax.jit(sgd(lambda w, x: x @ w, num_epochs=2).apply)(KEY, (), jnp.zeros(D), data, cohort_of(9))[0]

    other = COUNT.copy()
    other[2] = M
    moved = (updates(COUNT) != updates(other)).any(1)
    np.testing.assert_array_equal(moved, np.arange(9) == 2)


def test_counts_of_any_integer_type_train_the_same():
    """254 and a batch are more than a byte holds."""
    count, system = np.array([254, 3, 0, 97]), fedavg(sgd(lambda w, x: x @ w, num_epochs=1), block=2, mesh=None)
    of = lambda dtype: ClientData(jnp.ones((4, 254, D)), jnp.asarray(count.astype(dtype)))

    def run(dtype):
        return jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(D), of(dtype)), of(dtype))

    assert same_bits(run(np.uint8), run(np.int32))
    for dtype in (np.uint8, np.int16, np.uint32):  # with these a round begins in the same way
        assert same_bits(checked_clients(of(dtype), None), of(np.int32))
