"""SCAFFOLD: rounds in float64 loops, minima in closed form, what goes over the wires, and who keeps what."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv import ledger, simulate, systems
from fedjax_priv.audit.canaries import sending
from fedjax_priv.base import ClientData, Local, Received
from fedjax_priv.clients import bounded, fedsgd, local_sgd, normalized
from fedjax_priv.clients.control_variates import controlled
from fedjax_priv.crypto import field
from fedjax_priv.status import Status
from fedjax_priv.systems.in_the_clear.scaffold import EQUAL_STEPS, _mean_and_control
from fedjax_priv.testing import cohort_of
from helpers import mesh_of, same_bits

KEY, N, D, BATCH, EPOCHS, RATE = jax.random.key(5), 6, 4, 4, 2, 0.05
COUNT = np.array([3, 20, 7, 12, 1, 16])
RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((N, D)).astype(np.float32)
CURVES = RNG.uniform(0.3, 3.0, (N, D)).astype(np.float32)
START = np.full(D, 0.5, np.float32)


def loss(params, example):
    """All samples of a client are alike, so its batches are."""
    centre, curve = example
    return 0.5 * (curve * jnp.square(params[None] - centre)).sum(1)


def samples_of(centres, curves, count):
    repeated = [np.repeat(a[:, None], max(count), 1) for a in (centres, curves)]
    return ClientData(tuple(repeated), np.asarray(count, np.int32))


DATA = samples_of(CENTRES, CURVES, COUNT)


def trained(momentum=0.0, **how):
    return local_sgd(loss, **dict(learning_rate=RATE, batch_size=BATCH, num_epochs=EPOCHS, momentum=momentum) | how)


def made(local=None, **how):
    return systems.scaffold(trained() if local is None else local, **dict(num_clients=N, mesh=None) | how)


@functools.cache
def usual(**how):
    """One object for tests of the same system, which is compiled once."""
    return made(**how)


def rounds_of(system, number, data=DATA):
    """The states, from the first one on, and what the rounds tell."""
    states, infos = [system.init(KEY, jnp.asarray(START), data)], []
    step = jax.jit(system.step)
    for _ in range(number):
        state, info = step(KEY, states[-1], data)
        states, infos = [*states, state], [*infos, jax.device_get(info)]
    return states, infos


class Reference:
    """Algorithm 1 with option II in loops of float64, and what is easily done wrong."""

    def __init__(self, momentum=0.0, *, sign=1.0, over=N, lost_move=False, inside=False, server=1.0):
        self.momentum, self.sign, self.over, self.server = momentum, sign, over, server
        self.lost_move, self.inside = lost_move, inside
        self.w, self.c, self.own = START.astype(float), np.zeros(D), np.zeros((N, D))

    def trained(self, i):
        """`(x - y_i, c_i+ - c_i)`."""
        at, velocity, steps = self.w.copy(), np.zeros(D), EPOCHS * -(-COUNT[i] // BATCH)
        correction = self.sign * (self.c - self.own[i])
        for _ in range(steps):
            gradient = CURVES[i].astype(float) * (at - CENTRES[i])
            velocity = self.momentum * velocity + gradient + self.inside * correction
            at -= RATE * (velocity + (not self.inside) * correction)
        after = self.own[i] - self.c + (self.w - at) / (steps * RATE)
        return self.w - at, after - self.own[i]

    def round(self, cohort, counted):
        found = {i: self.trained(i) for i in cohort}
        arrived = [i for i, came in zip(cohort, counted, strict=True) if came]
        self.w = self.w - self.server * np.mean([found[i][0] for i in arrived], axis=0)
        self.c = self.c + np.sum([found[i][1] for i in arrived], axis=0) / (self.over or len(arrived))
        for i in cohort if self.lost_move else arrived:
            self.own[i] += found[i][1]


WRONG = {
    "the sign": dict(sign=-1.0),
    "|S| for N": dict(over=None),
    "clients that lost their upload move": dict(lost_move=True),
}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rounds_are_those_of_loops_in_float64(momentum):
    """Sampled cohorts with losses and a step size of the server; each mistake would be seen."""
    system = made(trained(momentum), cohort_size=4, dropout=0.3, server=optax.sgd(0.7))
    states, infos = rounds_of(system, 5)
    assert {int(info.counted.sum()) for info in infos} - {0, 4}, "some uploads are lost"
    wrong = WRONG | ({"in the velocity": dict(inside=True)} if momentum else {})
    right, *others = [Reference(momentum, server=0.7, **how) for how in ({}, *wrong.values())]
    for state, info in zip(states[1:], infos, strict=True):
        for one in (right, *others):
            one.round(info.client, info.counted)
        np.testing.assert_allclose(state.params, right.w, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(state.aggregate, right.c, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state.memory.control, right.own, rtol=1e-4, atol=1e-5)
    for name, one in zip(wrong, others, strict=True):
        assert abs(one.w - right.w).max() > 1e-3, name


def test_what_momentum_does():
    """Added to the velocity, which starts from zero in each round, corrections settle, but not at the minimum; added to
    the gradient, option II divides `x - y_i` by too few steps, and at momentum 0.9 nothing settles."""
    minimum = (CURVES * CENTRES).sum(0) / CURVES.sum(0)
    runs = {of: Reference(of[0], inside=of[1]) for of in ((0.0, False), (0.9, False), (0.9, True))}
    for run in runs.values():
        for _ in range(80):
            run.round(range(N), [True] * N)
    plain, outside, inside = (abs(run.w - minimum).max() for run in runs.values())
    assert plain < 1e-6 and inside > 1e6
    assert 0.3 < outside < 0.5 and abs(runs[0.9, False].c).max() < 1e-6


def test_control_variates_have_one_mean():
    """c is the mean of all c_i, whoever is drawn or lost."""
    states, _ = rounds_of(usual(cohort_size=4, dropout=0.3), 3)
    assert np.abs(states[-1].aggregate).max() > 0.1
    np.testing.assert_allclose(states[-1].aggregate, states[-1].memory.control.mean(0), atol=1e-6)


def test_without_control_variates_it_is_the_plain_mean_of_updates():
    """In the first round, and where they are set to 0 before each one."""
    scaffold, plain = usual(), systems.compose(trained(), num_clients=N, mesh=None)
    blank, mean = (system.init(KEY, jnp.asarray(START), DATA) for system in (scaffold, plain))
    steps = [jax.jit(system.step) for system in (scaffold, plain)]
    for _ in range(3):
        after, _ = steps[0](KEY, blank._replace(params=mean.params, round=mean.round), DATA)
        mean, _ = steps[1](KEY, mean, DATA)
        np.testing.assert_allclose(after.params, mean.params, rtol=1e-6)
    assert abs(steps[0](KEY, after, DATA)[0].params - steps[1](KEY, mean, DATA)[0].params).max() > 1e-3


@pytest.mark.parametrize("local", [trained(num_steps=1, num_epochs=None), fedsgd(loss)])
def test_one_step_of_everybody_is_gradient_descent(local):
    """Corrections then have sum 0: `w <- w - eta mean_i g_i(w)`, in float64."""
    states, _ = rounds_of(made(local, server=optax.sgd(1.0 if local.steps.batch_size else RATE)), 4)
    w = START.astype(float)
    for state in states[1:]:
        w = w - RATE * (CURVES * (w - CENTRES)).mean(0)
        np.testing.assert_allclose(state.params, w, rtol=1e-5)
    slopes = CURVES * (np.asarray(states[-2].params) - CENTRES)
    np.testing.assert_allclose(states[-1].memory.control, slopes, rtol=1e-4, atol=1e-5)


A, B, STEPS, STEP = np.array([0.5, 4.0]), np.array([1.0, -2.0]), 20, 0.1
TWO = samples_of(B[:, None].astype(np.float32), A[:, None].astype(np.float32), [1, 1])


def end_of(system, rounds):
    def walk(state):
        return jax.lax.scan(lambda state, _: (system.step(KEY, state, TWO)[0], None), state, length=rounds)[0]

    return jax.jit(walk)(system.init(KEY, jnp.zeros(1), TWO))


def test_it_goes_to_the_minimum_and_fedavg_elsewhere():
    """`f_i = a_i (w - b_i)^2 / 2`: K steps go `s_i = 1 - (1 - eta a_i)^K` of the way to b_i, so FedAvg rests at
    `sum s_i b_i / sum s_i`; the minimum of the mean is `sum a_i b_i / sum a_i`."""
    local = local_sgd(loss, learning_rate=STEP, batch_size=1, num_steps=STEPS)
    way = 1 - (1 - STEP * A) ** STEPS
    biased, minimum = way @ B / way.sum(), A @ B / A.sum()
    assert abs(biased - minimum) > 0.5
    assert float(end_of(systems.fedavg(local, mesh=None), 400).params[0]) == pytest.approx(biased, abs=1e-5)
    for size in (None, 1):
        found = end_of(systems.scaffold(local, num_clients=2, mesh=None, cohort_size=size), 400)
        assert float(found.params[0]) == pytest.approx(minimum, abs=1e-4)
        np.testing.assert_allclose(found.memory.control[:, 0], A * (minimum - B), atol=1e-3)
        np.testing.assert_allclose(found.aggregate, 0, atol=1e-3)


def test_two_vectors_go_down_and_two_up():
    _, (info, *_) = rounds_of(usual(cohort_size=4, dropout=0.3), 1)
    assert (info.bits["model"].down == 2 * 32 * D).all()
    np.testing.assert_array_equal(info.bits["upload"].up, 2 * 32 * D * info.counted)


def test_a_run_records_no_vector():
    run = simulate(made(), KEY, jnp.asarray(START), DATA, rounds=2, progress=False)
    assert not [name for name in run.data_vars if "control" in str(name)]
    assert (run.down_bytes.sel(phase="model") == 2 * 4 * D).all()


def test_masks_change_no_more_than_rounding():
    """The sum of the pairs is opened, if enough clients answer; else c and all c_i stay as they were."""
    (*_, clear), _ = rounds_of(made(cohort_size=4), 2)
    masked = lambda leave, levels: made(cohort_size=4, secure=True, elide=True, leave=leave, levels=levels)
    step = jax.jit(lambda state, leave, levels: masked(leave, levels).step(KEY, state, DATA))
    first = masked(0.0, 1.0).init(KEY, jnp.asarray(START), DATA)
    fine, coarse = (step(step(first, 0.0, levels)[0], 0.0, levels) for levels in (2.0**20, 2.0))
    for name in ("params", "aggregate"):
        apart = [float(abs(getattr(found, name) - getattr(clear, name)).max()) for found in (fine[0], coarse[0])]
        assert 0 < apart[0] < 1e-5 and apart[1] > 1e-2
    assert (fine[1].bits["upload"].up >= 2 * 32 * D).all()
    after, info = step(first, 0.99, 2.0**20)
    assert int(info.status) == Status.NOT_RECOVERED and same_bits(after, first._replace(round=first.round + 1))


def test_floats_are_summed_without_bounds_if_asked():
    data = samples_of(1e6 + CENTRES, CURVES, COUNT)
    found = {
        exact: int(rounds_of(usual(**how), 1, data)[1][0].status)
        for exact, how in ((True, {}), (False, {"exact": False}))
    }
    assert found == {True: Status.FIELD_OVERFLOW, False: 0}


def test_whose_data_they_are_shows_in_masked_uploads_alone():
    """Clients 0 and 1 change places. Numbers are binary fractions, so that no sum is rounded."""
    centres = RNG.integers(-64, 65, (8, D)).astype(np.float32) / 16
    curves = 2.0 ** RNG.integers(0, 2, (8, D)).astype(np.float32)
    local = trained(learning_rate=0.25, num_epochs=1)
    system = made(local, num_clients=8, secure=True, neighbours=4, observe=whole)

    def seen(order):
        data = samples_of(centres[order], curves[order], np.full(8, BATCH))
        state, rounds = system.init(KEY, jnp.zeros(D), data), []
        for _ in range(3):
            state, info = step(KEY, state, data)
            rounds.append(info.observed)
        return state, rounds

    step = jax.jit(system.step)
    (after, views), (swapped, others) = seen(np.arange(8)), seen(np.array([1, 0, *range(2, 8)]))
    assert same_bits((after.params, after.aggregate), (swapped.params, swapped.aggregate)) and after.aggregate.any()
    for view, other in zip(views, others, strict=True):
        assert view.alive.all() and view.rows.value.any()
        assert not np.asarray(view.uploads != other.uploads)[2:].any()
        assert same_bits(view._replace(uploads=()), other._replace(uploads=()))
    assert np.asarray(views[0].uploads != others[0].uploads)[:2].any(1).all()


def whole(view):
    return view


def read_from_sums(count):
    """What two sums under masks give of the last client, if it alone takes another number of steps; and its update."""
    data = samples_of(CENTRES, CURVES, np.array(count))
    (_, before, _), (_, info) = rounds_of(usual(secure=True, elide=True, observe=whole), 2, data)
    updates, changes = np.split(np.asarray(info.observed.rows.value[0], float), 2)
    lengths = RATE * EPOCHS * -(-np.array(count) // BATCH)
    mean_steps = changes + N * np.asarray(before.aggregate, float)
    sent = np.asarray(field.to_signed(info.observed.uploads[-1, :D])) / 2.0**20  # in the clear, as masks are elided
    return updates - lengths[0] * mean_steps, (1 - lengths[0] / lengths[-1]) * sent


def test_who_takes_another_number_of_steps_than_all_others_is_read_from_both_sums():
    alone, update = read_from_sums([16] * (N - 1) + [7])
    np.testing.assert_allclose(alone, update, atol=2e-5)
    assert abs(update).min() > 1e-3
    np.testing.assert_allclose(read_from_sums([16] * N)[0], 0, atol=2e-5)  # equal steps: the second sum is the first


def two_rounds():
    return ledger.planned(made(), KEY, jnp.asarray(START), DATA, 2)


def test_the_ledger_says_for_whom_two_sums_are_one():
    notes = [entry.note for entry in ledger.ledger(made(secure=True), two_rounds(), DATA, delta=1e-5)]
    assert all("nothing else but" in note and f" {EQUAL_STEPS};" in note for note in notes)


NOISY = dict(sample_clip=1.0, gradient_noise=2.0, num_epochs=1, batch_size=1)


@pytest.mark.parametrize("secure", [False, True])
def test_the_ledger_has_no_guarantee_but_for_noisy_steps(secure):
    how = dict(secure=secure, elide=True)
    for entry in ledger.ledger(made(**how), two_rounds(), DATA, delta=1e-5):
        assert entry.proved.epsilon is None and "no noise is added" in entry.proved.why
    noisy = ledger.ledger(made(trained(**NOISY), **how), two_rounds(), DATA, delta=1e-5)
    assert {entry.view for entry in noisy if entry.proved.epsilon is not None} == {"everybody"}


def test_blocks_and_devices_change_no_bit():
    def run(block, mesh):
        return rounds_of(made(trained(0.9), cohort_size=4, dropout=0.3, block=block, mesh=mesh), 2)

    assert same_bits(run(3, None), run(1, mesh_of(2)))


def test_added_vectors_are_in_every_step():
    """Steps of flat losses go nowhere else, whatever their size depends on; zeros change no bit."""
    data, cohort = ClientData(jnp.zeros((3, 5, 2)), jnp.array([5, 0, 3])), cohort_of(3)
    added = jnp.array([[1.0, -2.0]] * 3)
    how = dict(learning_rate=lambda r: 0.1 / (1 + r), batch_size=2, momentum=0.5, carry_momentum=True)
    for duration, steps in ((dict(num_epochs=2), [6, 0, 4]), (dict(num_steps=3), [3, 0, 3])):
        local = local_sgd(lambda params, x: x @ params, **how, **duration)
        memory = local.init(3, jnp.zeros(2))._replace(rounds=jnp.array([0, 1, 3]))
        update, after, _, length = jax.jit(local.corrected)(KEY, memory, jnp.zeros(2), data, cohort, added)
        np.testing.assert_allclose(length, np.array([0.1, 0.05, 0.025]) * steps, rtol=1e-6)
        np.testing.assert_allclose(update, length[:, None] * added, rtol=1e-5)
        np.testing.assert_array_equal(after.rounds, [1, 2, 4])
        np.testing.assert_array_equal(after.velocity, 0)
    noisy = local_sgd(lambda params, x: x @ params, **how, num_steps=2, gradient_noise=0.1)
    given = KEY, noisy.init(3, jnp.zeros(2)), jnp.ones(2), data._replace(examples=jnp.ones((3, 5, 2))), cohort
    *same, _ = jax.jit(noisy.corrected)(*given, 0 * added)
    assert same_bits(tuple(same), jax.jit(noisy.apply.function)(*given))


def test_given_updates_are_one_step():
    rows, data = jnp.eye(3, 2), ClientData(jnp.zeros((3, 1)), jnp.array([1, 0, 4]))
    update, *_, length = sending(rows).corrected(KEY, (), jnp.zeros(2), data, cohort_of(3), jnp.ones((3, 2)))
    np.testing.assert_array_equal(update, [[2, 1], [0, 1], [1, 1]])
    np.testing.assert_array_equal(length, [1, 0, 1])


def test_parts_state_what_they_are():
    assert controlled(trained()).steps == trained().steps._replace(form="remembering", learning_rate=None)
    few = dict(secure=True, cohort_size=4)
    protocol = made(**few).release.masks
    assert protocol.quorum.group_size == 4 and protocol.quorum.threshold == 3 and made().release is None
    rule = _mean_and_control(4)
    rows = Received(jnp.array([[2.0, 4.0, 8.0, 12.0], [jnp.nan] * 4, [4.0, 2.0, 0.0, 4.0]]), jnp.array([1, 0, 2]))
    direction, control = rule.apply(KEY, jnp.ones(2), rows)
    np.testing.assert_array_equal(direction, [2, 2])
    np.testing.assert_array_equal(control, [3, 5])
    with pytest.raises(ValueError, match="num_clients must be the number of clients in data, 5"):
        made().init(KEY, START, samples_of(CENTRES[:5], CURVES[:5], COUNT[:5]))


def test_clients_without_samples_send_zeros():
    data = DATA._replace(count=np.where(np.arange(N) == 2, 0, COUNT).astype(np.int32))
    states, infos = rounds_of(usual(), 3, data)
    assert infos[0].counted.all() and (states[-1].memory.control[2] == 0).all()
    np.testing.assert_allclose(states[-1].aggregate, states[-1].memory.control.mean(0), atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            dict(local=Local(lambda n, params: (), lambda *rest: rest)),
            "local must be clients.local_sgd.*, got another$",
        ),
        (dict(local=bounded(trained(), clip=1.0)), "local must be clients.local_sgd.*, got another$"),
        (dict(local=normalized(trained())), "local must be clients.local_sgd.*, got another$"),
        (dict(local=controlled(trained())), "local must be clients.local_sgd.*, got another$"),
        (dict(cohort_size=N + 1), f"cohort_size must be at most num_clients = {N}, got {N + 1}"),
        (dict(cohort_size=0), "cohort_size must be"),
        (dict(num_clients=1, secure=True), "num_clients must be"),
        (dict(dropout=1.0), "dropout must be"),
        (dict(neighbours=2, secure=False), "neighbours must not be given"),
        (dict(leave=0.1, secure=False), "leave must be 0 with secure=False, got 0.1: nobody is asked for shares"),
        (dict(levels=64.0, secure=False), "levels must not be given without secure, got 64.0$"),
        (dict(secure=True, bind_model=True), "layers must not bind the model"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        made(**wrong)
