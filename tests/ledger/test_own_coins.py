"""Coins over the air: each client composes the rounds of its own coin, against losses composed on a fine grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal, stats

from fedjax_priv import systems
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.channels import constant
from fedjax_priv.clients import cyclic_poisson, only_if, poisson, scheduled
from fedjax_priv.ledger import epsilon_by_round, ledger, planned, worst

N, D, L, N0, DELTA, KEY = 3, 2, 0.5, 0.3, 1e-4, jax.random.key(0)
P = np.array([[0.9, 0.1, 0.3], [0.2, 0.8, 0.1], [0.1, 0.2, 0.9], [0.7, 0.3, 0.2]])
STEP, FAR, Y = 2e-3, 30_000, np.linspace(-15, 15, 20_001)


def attained(eps, rounds):
    """delta at eps of `rounds`, pairs of laws `[views, y]` of one client's update and the other one."""
    total, apart = np.ones(1), 0
    for first, second in rounds:
        loss = np.rint(np.log(first / second) / STEP).astype(int) + FAR
        total = signal.fftconvolve(total, np.bincount(loss.ravel(), (first * (Y[1] - Y[0])).ravel(), 2 * FAR + 1))
        apart += FAR
    return total @ np.maximum(1 - np.exp(np.minimum(eps - STEP * (np.arange(total.size) - apart), 0)), 0)


def hidden(p, shift):
    """Received noise of deviation 1, moved by `shift` or by minus as much where a coin says so."""
    law = lambda mean: (1 - p) * stats.norm.pdf(Y) + p * stats.norm.pdf(Y, mean)
    return law(shift), law(-shift)


def link(p, shift):
    """The server sees whether the client sent."""
    law = lambda mean: np.stack([(1 - p) * stats.norm.pdf(Y), p * stats.norm.pdf(Y, mean)])
    return law(shift), law(-shift)


def air(**how):
    usual = dict(clip=L, noise_variance=0.0, receiver_noise=N0, fading=constant(), participation=0.5, mesh=None)
    return systems.wireless(sending(jnp.zeros((N, D))), **{**usual, **how})


def own_coins(system):
    run = planned(system, KEY, jnp.zeros(D), no_samples(N), rounds=len(P))
    run = run.assign(join_probability=(("round", "client"), P))
    return run, ledger(system, run, no_samples(N), delta=DELTA)[0].proved


@pytest.mark.parametrize(
    ("how", "of", "noise"),
    [({"known_count": False}, hidden, N0), ({"access": "orthogonal", "noise_variance": 0.2}, link, N0 + 0.2)],
    ids=["hidden count", "orthogonal"],
)
def test_the_worst_client_attains_the_figure_of_its_own_coins(how, of, noise):
    system = air(**how)
    run, found = own_coins(system)
    told = [attained(found.epsilon, [of(p, L / np.sqrt(noise)) for p in P[:, user]]) for user in range(N)]
    assert 0.95 * DELTA < max(told) < 1.01 * DELTA
    each_round = attained(found.epsilon, [of(p, L / np.sqrt(noise)) for p in P.max(1)])
    assert each_round > 3 * DELTA
    after = epsilon_by_round(system, run, no_samples(N), delta=DELTA)[0].values
    assert after[-1] == pytest.approx(found.epsilon, rel=1e-3)
    first = [attained(after[1], [of(p, L / np.sqrt(noise)) for p in P[:2, user]]) for user in range(N)]
    assert 0.95 * DELTA < max(first) < 1.01 * DELTA


def test_of_hidden_clients_the_strength_is_their_own_too():
    """Client 1 joins most, and arrives with a third of L."""
    power = (np.array([1.0, 1 / 3, 1.0]) * L) ** 2
    system = air(known_count=False, snr_db=10 * np.log10(power / D / N0))
    run = planned(system, KEY, jnp.zeros(D), no_samples(N), rounds=2)
    run = run.assign(join_probability=(("round", "client"), np.array([[0.3, 0.9, 0.2]] * 2)))
    eps = worst(ledger(system, run, no_samples(N), delta=DELTA)[0].proved)
    pairs = zip((0.3, 0.9, 0.2), np.sqrt(power / N0), strict=True)
    told = [attained(eps, [hidden(p, shift)] * 2) for p, shift in pairs]
    assert 0.95 * DELTA < max(told) < 1.01 * DELTA


CLIENTS, RATE = 60, 0.2


def filled(draw, rounds, **how):
    system = systems.compose(
        sending(jnp.zeros((CLIENTS, D))), num_clients=CLIENTS, private="local", clip=L, cohort=draw, mesh=None,
        **{"channel": "multiple_access", "noise_variance": 0.0, "receiver_noise": N0, **how},
    )  # fmt: skip
    run = planned(system, KEY, jnp.zeros(D), no_samples(CLIENTS), rounds=rounds)
    assert run.sizes["client"] < CLIENTS
    return system, run, ledger(system, run, no_samples(CLIENTS), delta=DELTA)[0].proved


def test_a_hidden_client_of_a_filled_cohort_tosses_its_own_coin():
    """Not one of a place, whose probability is larger."""
    _, run, found = filled(poisson(RATE), 2, known_count=False)
    told = attained(worst(found), [hidden(RATE, L / np.sqrt(N0))] * 2)
    assert 0.95 * DELTA < told < 1.01 * DELTA and run.join_probability.values.min() > 1.4 * RATE


def test_a_hidden_client_has_a_part_in_the_turns_of_its_group():
    """Three groups of 20, five rounds: two rounds of a client at most, in the last of which nothing is added."""
    system, run, found = filled(cyclic_poisson(RATE, 3), 5, known_count=False)
    told = attained(worst(found), [hidden(RATE, L / np.sqrt(N0))] * 2)
    assert 0.95 * DELTA < told < 1.01 * DELTA
    after = epsilon_by_round(system, run, no_samples(CLIENTS), delta=DELTA)[0].values
    assert after[0] == after[2] < after[3] == after[4] == pytest.approx(worst(found), rel=1e-3)


def test_a_client_whose_number_of_senders_is_known_pays_for_the_turns_of_its_group():
    """Three rounds of three groups are one round of each client: of 20 that toss coins, given how many send."""
    noise, floor = 0.2, 0.05
    _, _, found = filled(cyclic_poisson(RATE, 3), 3, noise_variance=noise, receiver_noise=floor)
    eps, senders = float(worst(found) or 0), np.arange(1, 21)
    share, s = senders / 20, 2 * L / np.sqrt(noise * senders + floor)
    raised = np.log1p(np.expm1(eps) / share)
    tail = np.exp(raised + stats.norm.logcdf(-s / 2 - raised / s))
    told = (stats.binom.pmf(senders, 20, RATE) * share) @ (stats.norm.cdf(s / 2 - raised / s) - tail)
    assert told == pytest.approx(DELTA, rel=1e-3)


def test_no_figure_where_secret_clients_differ_in_power():
    """Another client than those of the run may be the strongest."""
    power = np.where(np.arange(CLIENTS) == 0, 30.0, -20.0)
    for how in ({}, {"noise_variance": 0.1, "power_control": "bound"}):
        _, _, found = filled(poisson(RATE), 1, snr_db=power, **how)
        assert found.epsilon is None and "coins decide who is in the cohort" in found.why


def test_on_a_link_of_its_own_a_client_has_a_part_in_the_turns_of_its_group():
    system, run, found = filled(cyclic_poisson(RATE, 3), 5, channel="orthogonal", noise_variance=0.2)
    told = attained(worst(found), [link(RATE, L / np.sqrt(N0 + 0.2))] * 2)
    assert 0.95 * DELTA < told < 1.01 * DELTA
    after = epsilon_by_round(system, run, no_samples(CLIENTS), delta=DELTA)[0].values
    assert after[0] == after[2] < after[3] == after[4] == pytest.approx(worst(found), rel=1e-3)


@pytest.mark.parametrize("channel", ["multiple_access", "orthogonal"])
@pytest.mark.parametrize(
    "silent", [lambda client: client % 2 == 0, lambda client: client >= 1, lambda client: client < CLIENTS]
)
def test_no_figure_where_secret_clients_differ_in_their_chances(channel, silent):
    """Places of clients that cannot send, be it all of them, say nothing of those that are not in the cohort."""
    draw = only_if(poisson(RATE), lambda who: jnp.where(silent(who.client), 0.0, 1.0))
    _, _, found = filled(draw, 3, channel=channel, noise_variance=0.2)
    assert found.epsilon is None and "chances differ between clients" in found.why


@pytest.mark.parametrize("draw", [scheduled(np.array([[0, 1], [2, 3]])), cyclic_poisson(1.0, 3), poisson(0.999)])
def test_where_it_is_public_who_is_in_the_cohort_nobody_pays_for_silence(draw):
    """Of 60 coins that fall on one side so often the cohort has places for all."""
    system = systems.compose(
        sending(jnp.zeros((CLIENTS, D))), num_clients=CLIENTS, private="local", clip=L, noise_variance=0.2, mesh=None,
        channel="multiple_access", cohort=only_if(draw, lambda who: jnp.zeros_like(who.gain)),
    )  # fmt: skip
    run = planned(system, KEY, jnp.zeros(D), no_samples(CLIENTS), rounds=2)
    assert worst(ledger(system, run, no_samples(CLIENTS), delta=DELTA)[0].proved) == 0


@pytest.mark.parametrize(
    ("chances", "alike"), [([[0.3, 0.3], [0.2, 0.2]], True), ([[0.3, 0.3], [0, 0]], False), ([[0.3, 0]] * 2, False)]
)
@pytest.mark.parametrize("channel", ["multiple_access", "orthogonal"])
def test_places_of_a_filled_cohort_are_alike_in_each_round(chances, alike, channel):
    """A round in which no place can send may be one in which a client outside the cohort could."""
    system, run, _ = filled(poisson(RATE), 2, channel=channel, noise_variance=0.2)
    p = np.repeat(chances, run.sizes["client"] // 2, axis=1)
    run = run.assign(join_probability=(("round", "client"), p))
    found = ledger(system, run, no_samples(CLIENTS), delta=DELTA)[0].proved
    assert (found.epsilon is not None) == alike
