"""Figures over the air by level, by who sends, and where the receiver's noise is all there is; and their audits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from fedjax_priv import losses, models, systems
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.base import ClientData
from fedjax_priv.channels import constant
from fedjax_priv.clients import buffered, fedsgd, once_per_model, poisson
from fedjax_priv.layers import within_budget
from fedjax_priv.ledger import epsilon_by_round, ledger, planned, worst
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.theory import gaussian, sampled_gaussian, wireless
from helpers import towards_target

N, ROUNDS, DELTA = 5, 3, 1e-4
DATA = ClientData((jnp.zeros((N, 2, 3)), jnp.zeros((N, 2), jnp.int32)), jnp.full(N, 2, jnp.int32))
LOCAL = fedsgd(losses.softmax_cross_entropy(models.softmax_regression((3,), 2)))
GAIN = np.random.default_rng(0).uniform(0.5, 1.5, (ROUNDS, N)).astype(np.float32)
SENDS = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1], [1, 1, 1, 0, 1]], np.float32)
LEVEL = np.array([0.5, 0.8, 1.2])


def by_table(round, gain):
    return jnp.asarray(LEVEL, jnp.float32)[round]


def run_of(p):
    each = ("round", "client")
    client = np.broadcast_to(np.arange(N), (ROUNDS, N))
    values = {"client_id": client, "counted": client >= 0, "gain": GAIN,
              "join_probability": np.broadcast_to(np.float32(p), (ROUNDS, N))}  # fmt: skip
    return xr.Dataset(
        {**{name: (each, value) for name, value in values.items()}, "status": ("round", np.zeros(ROUNDS, int))},
        {"round": np.arange(1, ROUNDS + 1)}, {"num_params": 8},
    )  # fmt: skip


def entries(p=1.0, colluding=0, local=LOCAL, sat_out=None, **how):
    usual = dict(clip=0.5, noise_variance=0.0, receiver_noise=0.7, level=by_table)
    run = run_of(p) if sat_out is None else run_of(p).assign(sat_out=(("round", "client"), sat_out))
    return ledger(systems.wireless(local, **{**usual, **how}), run, DATA, delta=DELTA, colluding=colluding)


def gaussian_of(squares):
    return np.asarray(gaussian.epsilon(DELTA, np.sqrt(squares)))


def test_where_it_is_public_who_sends_each_user_has_one_gaussian_mechanism():
    replaced, stays = entries(SENDS)
    squares = (SENDS * (LEVEL**2 / 0.7)[:, None]).sum(0)  # (c L)^2 / N0 at 2L = 1
    np.testing.assert_allclose(replaced.proved.epsilon, gaussian_of(squares), rtol=1e-5)
    np.testing.assert_allclose(stays.proved.epsilon, gaussian_of(squares / 4), rtol=1e-5)
    assert (replaced.gaussian, stays.gaussian, stays.neighbours) == (True, True, "zero-out")
    (noisy,) = entries(SENDS, noise_variance=0.3)
    squares = SENDS / (0.3 * SENDS.sum(1) + 0.7 / LEVEL**2)[:, None]
    np.testing.assert_allclose(noisy.proved.epsilon, gaussian_of(squares.sum(0)), rtol=1e-5)
    after = epsilon_by_round(
        systems.wireless(LOCAL, clip=0.5, noise_variance=0.3, receiver_noise=0.7, level=by_table), run_of(SENDS), DATA,
        delta=DELTA,
    )  # fmt: skip
    np.testing.assert_allclose(after[0], gaussian_of(squares.cumsum(0).max(1)), rtol=1e-5)
    server, coalition = entries(SENDS, noise_variance=0.3, colluding=2)
    fewer = (SENDS[:, :3] / (0.3 * SENDS[:, :3].sum(1) + 0.7 / LEVEL**2)[:, None]).sum(0)
    np.testing.assert_allclose(coalition.proved.epsilon, gaussian_of(fewer), rtol=1e-5)
    assert worst(coalition.proved) > worst(server.proved)


def test_clients_that_train_no_model_twice_remember():
    """Their coins hide nobody; and a round in which one sat out has less noise than its probabilities say."""
    nobody, somebody = np.zeros((ROUNDS, N), bool), np.arange(ROUNDS * N).reshape(ROUNDS, N) == 7
    of = lambda sat_out, local: entries(0.6, noise_variance=0.4, local=local, sat_out=sat_out)[0].proved
    remembering, forgetting = of(nobody, once_per_model(LOCAL)), of(nobody, LOCAL)
    assert worst(forgetting) < worst(remembering) < np.inf and "remember" in remembering.why
    missing = of(somebody, once_per_model(LOCAL))
    assert missing.epsilon is None and "sat out" in missing.why
    assert once_per_model(LOCAL).steps == LOCAL.steps._replace(form="remembering")
    assert once_per_model(LOCAL._replace(apply=lambda *of: LOCAL.apply(*of))).steps is None


def test_a_level_is_less_noise_for_every_accountant():
    """N0 / c^2, whether coins are seen or not, and whatever limits power."""
    for how in (
        {"participation": 0.6}, {"access": "orthogonal"}, {"snr_db": -3.0, "power_control": "bound"},
        {"snr_db": 20.0, "power_control": "signal"},
    ):  # fmt: skip
        level = {"noise_variance": 0.4, "level": 0.8, **how}
        (found,), (same,) = entries(0.6, **level), entries(0.6, **level | {"level": 1.0, "receiver_noise": 0.7 / 0.64})
        assert worst(found.proved) == pytest.approx(worst(same.proved), rel=1e-5)
        (other,) = entries(0.6, **level | {"level": 1.0})
        assert worst(other.proved) > 1.01 * worst(found.proved)


def test_levels_of_each_round_where_coins_are_not_seen():
    (entry,) = entries(0.6, noise_variance=0.4)
    about = wireless.Round(N, np.float64(np.float32(0.6)), 0.5, 0.4, 0.7 / np.float32(LEVEL).astype(float) ** 2)
    assert worst(entry.proved) == pytest.approx(wireless.rigorous_epsilon(about, DELTA, rounds=ROUNDS), rel=1e-6)


def test_coins_of_which_even_the_number_is_unseen():
    """Poisson-sampled Gaussian mechanisms: replaced or not there; what clients remember ends it."""
    rounds = [(sampled_gaussian.Round(np.sqrt(0.7) / 0.5 / c, np.float32(0.3)), 1) for c in np.float32(LEVEL)]
    replaced, leaves = entries(0.3, known_count=False)
    for entry, how in ((replaced, "replacement"), (leaves, "add/remove")):
        assert worst(entry.proved) == pytest.approx(sampled_gaussian.epsilon(DELTA, rounds, how), rel=1e-5)
        assert (entry.neighbours, entry.gaussian) == (how, False)
    (counted,) = entries(0.3)
    (known,) = entries(0.3, known_count=False, local=LOCAL._replace(apply=lambda *of: LOCAL.apply(*of)))
    assert worst(leaves.proved) < worst(replaced.proved) < worst(counted.proved) < worst(known.proved)
    assert "remember" in known.proved.why
    after = epsilon_by_round(
        systems.wireless(LOCAL, clip=0.5, noise_variance=0.0, receiver_noise=0.7, level=by_table, known_count=False),
        run_of(0.3), DATA, delta=DELTA,
    )  # fmt: skip
    assert list(after.adversary.values) == ["server, replacement", "server, add/remove"]
    assert (after.diff("round") > 0).all() and float(after[0, -1]) == pytest.approx(worst(replaced.proved), rel=1e-5)


def test_of_hidden_senders_the_one_that_joins_most_counts():
    """In rounds of one level, that happen as often as they do; here the same client joins most in each."""
    found = entries(np.array([0.05, 0.3, 0.2, 0.1, 0.0]), level=0.8, known_count=False)
    one = sampled_gaussian.Round(np.sqrt(0.7) / 0.5 / np.float32(0.8), np.float32(0.3))
    for entry in found:
        exact = sampled_gaussian.epsilon(DELTA, [(one, ROUNDS)], entry.neighbours)
        assert worst(entry.proved) == pytest.approx(exact, rel=1e-5)


def test_colluding_users_leave_the_others_with_the_power_they_have():
    limit = {"snr_db": np.array([-12.0, -20.0, -6.0, -15.0, 0.0]), "colluding": 2}
    for noise, control in ((0.0, "gradient"), (0.3, "bound")):
        found = entries(SENDS, noise_variance=noise, power_control=control, **limit)
        server, coalition = (one for one in found if one.neighbours == "replacement")
        if noise:
            power = 8 * 0.7 * 10 ** (limit["snr_db"] / 10)
            a = np.minimum(1, GAIN * np.sqrt(power) / LEVEL[:, None] / np.sqrt(0.25 + 8 * noise))
            for who, size in ((server, N), (coalition, 3)):
                here = (SENDS * a**2)[:, :size]
                squares = here / (noise * here.sum(1) + 0.7 / LEVEL**2)[:, None]
                np.testing.assert_allclose(who.proved.epsilon, gaussian_of(squares.sum(0)), rtol=1e-5)
            assert (a < 1).sum() > 0
        else:  # noise of the receiver alone: nobody to leave
            np.testing.assert_allclose(coalition.proved.epsilon, server.proved.epsilon[:3], rtol=1e-6)


@pytest.mark.parametrize("control", ["gradient", "bound", "signal"])
def test_power_only_shortens_what_arrives_where_users_add_no_noise(control):
    """min(c L, h sqrt(P_k)), which no other data decide."""
    power = np.array([0.1, 0.02, 1.0, 0.05, 0.3])
    limit = {"snr_db": 10 * np.log10(power / 8 / 0.7), "power_control": control}
    found = entries(SENDS, **limit)[0].proved.epsilon
    reach = np.minimum(0.5 * LEVEL[:, None], GAIN * np.sqrt(power))
    np.testing.assert_allclose(found, gaussian_of((SENDS * (2 * reach) ** 2 / 0.7).sum(0)), rtol=1e-4)
    assert (found <= entries(SENDS)[0].proved.epsilon).all() and (found < entries(SENDS)[0].proved.epsilon).any()
    hidden = worst(entries(0.3, known_count=False, **limit)[0].proved)
    rounds = [(sampled_gaussian.Round(np.sqrt(0.7) / most, np.float32(0.3)), 1) for most in reach.max(1)]
    assert hidden == pytest.approx(sampled_gaussian.epsilon(DELTA, rounds, "replacement"), rel=1e-4)


@pytest.mark.parametrize("known_count", [True, False])
def test_a_round_in_which_nobody_may_send_costs_nothing_where_power_limits(known_count):
    """As if it had not been: every gain is below the truncation there."""
    p = 0.3 * np.float32([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 0, 1]])
    power, c = 8 * 0.7 * 10**-2.0, np.float32(LEVEL).astype(float)
    arrives = np.minimum(c * 0.5, np.sqrt(power) * np.where(p > 0, GAIN, 0).max(1))[[0, 2]] / 0.5
    assert (arrives < c[[0, 2]]).any()
    (found, *_) = entries(p, snr_db=-20.0, known_count=known_count)
    if known_count:
        about = wireless.Round(N, p[[0, 2]].astype(float), 0.5, 0.0, 0.7 / arrives**2)
        exact = wireless.rigorous_epsilon(about, DELTA, rounds=2)
    else:
        own = np.minimum(c[:, None] * 0.5, np.sqrt(power) * GAIN) * (p > 0)
        of = lambda k, rounds: [(sampled_gaussian.Round(0.7**0.5 / own[t, k], np.float32(0.3)), 1) for t in rounds]
        assert (own[:, 0] >= own[:, [1, 3, 4]].max(1))[[0, 2]].all() and own[0, 2] == 0  # 0 or 2 is the worst
        exact = max(sampled_gaussian.epsilon(DELTA, each, "replacement") for each in (of(0, (0, 2)), of(2, (2,))))
    assert worst(found.proved) == pytest.approx(exact, rel=1e-5)


def test_levels_with_a_memory_are_those_of_the_run():
    """Rounds after the end count nothing; a level that is missing where users could send has no figure."""
    budget = wireless.level_budget(1.0, DELTA, clip=0.5, receiver_noise=0.7)
    level = np.float32([0.9, 0.7, np.nan]) * np.float32(np.sqrt(budget / 1.3))
    there = np.array([[1.0], [1.0], [0.0]]) * np.ones(N)
    for p, how, exact in (
        (1.0, {}, gaussian_of(np.float64(level[:2]) @ level[:2] / 0.7)),
        (0.3, {"known_count": False}, sampled_gaussian.epsilon(
            DELTA, [(sampled_gaussian.Round(np.sqrt(0.7) / 0.5 / c, np.float32(0.3)), 1) for c in level[:2]],
            "replacement",
        )),
    ):  # fmt: skip
        system = systems.wireless(
            LOCAL, clip=0.5, noise_variance=0.0, receiver_noise=0.7, level=within_budget(by_table, budget), **how
        )
        run = run_of(p * there).assign(level=(("round", "client"), level[:, None] * np.ones(N, np.float32)))
        figures = ledger(system, run, DATA, delta=DELTA)
        assert worst(figures[0].proved) == pytest.approx(float(exact), rel=1e-4)
        assert float(exact) <= 1.0 or how
        none = ledger(system, run.assign(join_probability=run.join_probability * 0 + p), DATA, delta=DELTA)
        assert none[0].proved.epsilon is None and "a level is not a finite number" in none[0].proved.why


def test_no_figure_without_noise_or_level():
    for how, why in (
        ({"receiver_noise": 0.0}, "nobody adds noise"),
        ({"level": lambda round, gain: gain.min() - 10.0}, "a level is not a finite number above 0"),
        ({"noise_variance": 0.1, "snr_db": 3.0}, "eq. 26"),
    ):
        entry = entries(SENDS, **how)[0]
        assert entry.proved.epsilon is None and why in entry.proved.why


TOO_LOUD = "an update may arrive so strong that it fails the round"


def test_an_update_that_fails_the_round_is_hidden_by_no_noise():
    """Two updates of one norm, at a level with noise to match: one is beyond the sum's 2**15 at a coordinate."""
    loud = dict(clip=1.0, noise_variance=0.0, level=60_000.0, receiver_noise=3.6e11, fading=constant(), mesh=None)
    system = systems.wireless(towards_target(), **loud)
    for value, failed in ((jnp.full(8, 8**-0.5), False), (jnp.eye(8)[0], True)):
        data = ClientData(jnp.zeros((N, 8)).at[0].set(value), jnp.ones(N, jnp.int32))
        state = system.init(jax.random.key(0), jnp.zeros(8), data)
        assert (int(jax.jit(system.step)(jax.random.key(0), state, data)[1].status) != 0) == failed
    assert TOO_LOUD in entries(**loud)[0].proved.why


@pytest.mark.parametrize("how", [{"p": 1.0}, {"p": 0.5}, {"access": "orthogonal"}], ids=str)
def test_no_figure_where_an_update_or_its_noise_may_be_too_strong(how):
    """L = 1/2 reaches 2**15 at level 2**16; with noise of deviation 1/4, L and 12 of them do at 2**15 / 3.5."""
    for variance, most in ((0.0, 2**16), (1 / 16, 2**15 / 3.5)):
        none, figure = (entries(**how, noise_variance=variance, level=f * most)[0].proved for f in (1.0, 0.99))
        assert TOO_LOUD in none.why and figure.epsilon is not None
    if "access" not in how:  # power shortens what arrives
        assert entries(**how, level=2.0**16, snr_db=0.0)[0].proved.epsilon is not None


PLACES = np.array([[0, 2], [1, 4], [1, 2]])
HERE = np.array([[1, 1], [1, 1], [1, 0]])


def run_of_places():
    """A run whose cohorts are two clients of the population."""
    run, each = run_of(1.0).isel(client=slice(0, 2)), ("round", "client")
    return run.assign(client_id=(each, PLACES), join_probability=(each, HERE.astype(np.float32)))


def of_clients(squares, rounds=ROUNDS):
    """Eps of each client of the population, whatever its place in a round."""
    spent = np.zeros(N)
    for t, place in np.argwhere(HERE[:rounds] > 0):
        spent[PLACES[t, place]] += squares[t, place]
    return gaussian_of(spent)


def test_a_client_composes_over_its_places_in_the_cohorts():
    noise, gain = 0.3 * HERE.sum(1) + 0.7 / LEVEL**2, GAIN[:, :2].astype(float)
    make = lambda **how: systems.wireless(LOCAL, clip=0.5, receiver_noise=0.7, level=by_table, **how)
    of = lambda system, **how: ledger(system, run_of_places(), DATA, delta=DELTA, **how)
    noisy, squares = make(noise_variance=0.3), np.ones((ROUNDS, 2)) / noise[:, None]
    np.testing.assert_allclose(of(noisy)[0].proved.epsilon, of_clients(squares), rtol=1e-5)
    after = epsilon_by_round(noisy, run_of_places(), DATA, delta=DELTA)[0]
    np.testing.assert_allclose(after, [of_clients(squares, rounds).max() for rounds in (1, 2, 3)], rtol=1e-5)
    unlike = np.linspace(0.1, 0.9, N)
    squares = np.ones((ROUNDS, 2)) / ((HERE * unlike[PLACES]).sum(1) + 0.7 / LEVEL**2)[:, None]
    np.testing.assert_allclose(of(make(noise_variance=unlike))[0].proved.epsilon, of_clients(squares), rtol=1e-5)
    alone = np.ones((ROUNDS, 2)) / (0.3 + 0.7 / LEVEL**2)[:, None]  # whoever is in the second place adds no noise
    coalition = of(noisy, colluding=1)[1].proved.epsilon
    np.testing.assert_allclose(coalition, of_clients(alone), rtol=1e-5)
    snr_db = np.array([-32.0, -26.0, -35.0, 0.0, -29.0])
    limited = make(noise_variance=0.0, snr_db=snr_db, power_control="bound")
    power = (8 * 0.7 * 10 ** (snr_db / 10))[PLACES]
    a = np.minimum(1, gain * np.sqrt(power) / LEVEL[:, None] / 0.5)
    assert (a < 1).all()
    squares = a**2 * (LEVEL**2 / 0.7)[:, None]
    np.testing.assert_allclose(of(limited)[0].proved.epsilon, of_clients(squares), rtol=1e-5)


@pytest.mark.parametrize(
    "draw",
    [
        buffered(2, max_staleness=0, law="fixed", mean_time=np.array([0.01, 1.0, 1.3, 1.7, 1.9])),
        buffered(2, max_staleness=5, max_jobs=1),
        poisson(0.4, capacity=2),
    ],
    ids=["too stale", "unfilled", "full"],
)
def test_places_that_nobody_takes_send_no_noise(draw):
    rounds = 6
    system = systems.compose(
        LOCAL, num_clients=N, channel="multiple_access", private="local", clip=0.5, noise_variance=0.3,
        receiver_noise=0.01, cohort=draw, mesh=None,
    )  # fmt: skip
    start = models.softmax_regression((3,), 2).init(jax.random.key(0))
    run = simulate(system, jax.random.key(1), start, DATA, rounds=rounds, progress=False)
    sends, spent = run.energy.values > 0, np.zeros(N)
    assert not sends.all() and sends.any()
    for who, here in zip(run.client_id.values, sends, strict=True):
        spent[who[here]] += 1 / (0.3 * here.sum() + 0.01)
    for one in (run, planned(system, jax.random.key(1), start, DATA, rounds)):
        (entry,) = ledger(system, one, DATA, delta=DELTA)
        np.testing.assert_allclose(entry.proved.epsilon, gaussian_of(spent), rtol=1e-5)


def test_of_a_poisson_cohort_all_clients_toss_the_coins():
    """The figure holds for binomially many senders of all clients: fewer than the mean are likelier than by place."""
    clients, places, q, noise, delta = 60, 40, 0.2, 0.01, 1e-7
    run, each = run_of(1.0).isel(round=[0], client=[0] * places), ("round", "client")
    client, p = np.arange(places)[None], np.full((1, places), q * clients / places, np.float32)
    run = run.assign(client_id=(each, client), join_probability=(each, p))
    remembering = LOCAL._replace(apply=lambda *of: LOCAL.apply(*of))
    system = systems.wireless(remembering, clip=0.5, noise_variance=noise, receiver_noise=1e-3)
    data = no_samples(clients)
    eps = worst(ledger(system, run, data, delta=delta)[0].proved)
    senders = np.arange(1, clients + 1)
    chance = stats.binom.pmf(senders - 1, clients - 1, q) * q
    told = chance @ gaussian.delta(eps, 1 / np.sqrt(noise * senders + 1e-3))
    assert told == pytest.approx(delta, rel=1e-3)
    assert epsilon_by_round(system, run, data, delta=delta)[0, 0] == pytest.approx(eps, rel=1e-6)


def test_no_figure_where_a_gain_or_promised_noise_is_missing():
    """A round beyond the last that was recorded, and one in which nothing came of a user that joins for sure."""
    last = np.arange(ROUNDS)[:, None] == ROUNDS - 1
    beyond = run_of(1.0).assign(gain=(("round", "client"), np.where(last, np.nan, GAIN)))
    beyond = beyond.assign(status=("round", last[:, 0].astype(int)))
    make = lambda **how: systems.wireless(LOCAL, clip=0.5, receiver_noise=0.7, **how)
    (*_, entry) = ledger(make(noise_variance=0.0, snr_db=0.0), beyond, DATA, delta=DELTA)
    assert entry.proved.epsilon is None and "a gain is not finite" in entry.proved.why
    (*_, entry) = ledger(make(noise_variance=0.0), beyond, DATA, delta=DELTA)
    assert worst(entry.proved) > 0  # power limits nothing, and the round counts
    lost = run_of(1.0).assign(counted=(("round", "client"), np.arange(ROUNDS * N).reshape(ROUNDS, N) != 7))
    missing, alone = (ledger(make(noise_variance=v), lost, DATA, delta=DELTA)[0].proved for v in (0.3, 0.0))
    assert missing.epsilon is None and "did not send" in missing.why
    assert worst(alone) == worst(ledger(make(noise_variance=0.0), run_of(1.0), DATA, delta=DELTA)[0].proved)
    failed = lost.assign(status=("round", np.array([0, 8, 0])), counted=lost.counted & (lost["round"] != 2))
    assert worst(ledger(make(noise_variance=0.3), failed, DATA, delta=DELTA)[0].proved) > 0


TRIALS, C, L, N0, P = 40_000, 0.9, 0.7, 0.6, 0.3
S = C * L / np.sqrt(N0)


@jax.jit
def arrivals(sent, p, key):
    one = systems.wireless(
        sending(jnp.stack([sent, 0.0])[:, None]), clip=L, noise_variance=0.0, receiver_noise=N0, level=C,
        known_count=False, expected_count=1.0, participation=jnp.stack([p, 1.0]), fading=constant(0.8), mesh=None,
        block=2,
    )  # fmt: skip
    state = one.init(key, jnp.zeros(1), no_samples(2))
    step = lambda key: one.step(key, state, no_samples(2))[1].direction[0]
    return jax.lax.map(step, jax.random.split(key, TRIALS), batch_size=4000)


@functools.cache
def received(sent, participation):
    """What arrives in one round of the system, over its noise, for each of many keys."""
    found = arrivals(9 * sent, participation, jax.random.key(5 + int(2 * sent) + int(100 * participation)))
    return np.asarray(found) * C / np.sqrt(N0)


def divergence(first, second, eps, accept):
    """Lower and upper end of P[accept | first] - e^eps P[accept | second], at 99.9% (Clopper-Pearson)."""
    counts = [int(accept(y).sum()) for y in (first, second)]
    ends = [stats.binomtest(k, TRIALS).proportion_ci(0.9995) for k in counts]
    return ends[0].low - np.exp(eps) * ends[1].high, ends[0].high - np.exp(eps) * ends[1].low


def test_the_worst_pair_attains_the_figure_of_public_senders_and_breaks_half_of_it():
    """+L u against -L u; a figure that counts c L in place of 2 c L is contradicted."""
    for eps in (0.3, 1.0, 2.5):
        exact = gaussian.delta(eps, 2 * S)
        low, high = divergence(received(1.0, 1.0), received(-1.0, 1.0), eps, lambda y, e=eps: y > e / (2 * S))
        assert low <= exact <= high
        assert low > gaussian.delta(eps, S)


def test_the_worst_pair_attains_the_figure_of_hidden_senders():
    one = [(sampled_gaussian.Round(1 / S, P), 1)]
    y = np.linspace(-8, 8, 4001)
    law = lambda mean: (1 - P) * stats.norm.pdf(y) + P * stats.norm.pdf(y - mean)
    for eps in (0.1, 0.4):
        for second, how in ((-1.0, "replacement"), (0.0, "add/remove")):
            cut = y[np.argmax(law(S) > np.exp(eps) * law(second * S))]
            exact = sampled_gaussian.delta(eps, one, how)
            other = received(-1.0, P) if second else received(-1.0, 0.0)
            low, high = divergence(received(1.0, P), other, eps, lambda y, cut=cut: y > cut)
            assert low <= exact <= high
            if how == "replacement":
                assert low > sampled_gaussian.delta(eps, one, "add/remove")
