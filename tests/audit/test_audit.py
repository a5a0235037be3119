"""The auditor, audited: from below on mechanisms whose eps is known, and above the claim of broken ones."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused
from scipy import stats

from fedjax_priv import losses, models
from fedjax_priv.aggregators import mean
from fedjax_priv.audit import (
    Canary,
    client_crowd,
    coalition,
    crowd_scores,
    direction_canary,
    label_canary,
    label_crowd,
    on_the_air,
    one_run,
    one_run_p_value,
    outsider,
    proposal,
    proposal_canary,
    sample_canary,
    scores,
    sending,
    server,
    two_worlds,
    uploads,
)
from fedjax_priv.audit.adversaries import stood_still, what_happened
from fedjax_priv.audit.by_release import PLANS
from fedjax_priv.audit.canaries import no_samples
from fedjax_priv.audit.whole_uploads import upload_of
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.base import ClientData, View
from fedjax_priv.channels import constant
from fedjax_priv.clients import fedsgd, local_sgd
from fedjax_priv.layers import consensus_sparsification, plain_field
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.systems import dp_sgd, fedavg, fedrep, wireless
from fedjax_priv.systems.releases import DistributedNoise, LocalNoise, Sum
from fedjax_priv.theory import cdp_fl as theory
from fedjax_priv.theory import gaussian
from fedjax_priv.theory.fedrep import coordinate_epsilon
from fedjax_priv.theory.wireless import Round, rigorous_epsilon

KEY = jax.random.key(21)
DELTA, TRIALS = 1e-3, 60_000


def gaussian_worlds(sensitivity, trials=TRIALS, seed=0):
    noise = np.random.default_rng(seed).normal(size=(2, trials))
    return noise[0] + sensitivity, noise[1]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_gaussian_mechanism_is_met_from_below(epsilon):
    """The exact sensitivity for this eps; the bound lies within a factor of 2.5."""
    grid = np.linspace(0.05, 3, 2000)
    sensitivity = grid[np.argmin(np.abs(gaussian.epsilon(DELTA, grid) - epsilon))]
    found = two_worlds(*gaussian_worlds(sensitivity), delta=DELTA)
    assert epsilon / 2.5 < found.epsilon < epsilon
    swapped = two_worlds(*gaussian_worlds(sensitivity)[::-1], delta=DELTA)
    assert epsilon / 2.5 < swapped.epsilon < epsilon
    broken = two_worlds(*gaussian_worlds(2 * sensitivity), delta=DELTA)  # half the noise
    assert broken.epsilon > epsilon


def test_bounds_hold_as_often_as_they_say():
    """Of 200 audits of a mechanism with eps = 0 at most 5% may be above it."""
    above = [two_worlds(*gaussian_worlds(0.0, 400, seed), confidence=0.95).epsilon > 0 for seed in range(200)]
    assert sum(above) <= stats.binom(200, 0.05).ppf(0.9999)


def test_worlds_that_never_meet():
    found = two_worlds(np.ones(1000), np.zeros(1000), confidence=0.9)
    low = 0.05 ** (1 / 500)  # Clopper and Pearson's where all of 500 are hits
    assert found.epsilon == pytest.approx(np.log(low / (1 - low)), rel=1e-6)
    assert found.why == "0 of 500 and 0 of 500 runs guessed wrong"
    assert found.limit == found.epsilon
    assert two_worlds(*gaussian_worlds(1.0, 1000), confidence=0.9).limit == found.limit


def randomised_response(epsilon, canaries, seed):
    rng = np.random.default_rng(seed)
    included = rng.random(canaries) < 0.5
    truth = rng.random(canaries) < 1 / (1 + np.exp(-epsilon))
    return np.where(truth == included, 1.0, 0.0) + 1e-3 * rng.random(canaries), included


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_run_of_randomised_response(epsilon):
    """The mechanism the theorem is tight for."""
    found = one_run(*randomised_response(epsilon, 4000, 0), guesses=4000)
    assert 0.75 * epsilon < found.epsilon < epsilon
    assert one_run(*randomised_response(2 * epsilon, 4000, 0), guesses=4000).epsilon > epsilon


def test_one_run_says_what_it_could_have_shown():
    right = np.repeat([0.0, 1.0], 50)
    found = one_run(right, right == 1, guesses=60)
    assert found.epsilon == found.limit == pytest.approx(np.log(1 / (0.05 ** (-1 / 60) - 1)), abs=2e-3)


@pytest.mark.parametrize(("right", "mass"), [(1, 1 / 8), (2, 3 / 8), (3, 3 / 8)])
def test_the_p_value_charges_twice_m_delta(right, mass):
    """Three guesses at eps 0, of masses 1/8, 3/8, 3/8, 1/8: times the largest mean of those just below v."""
    tail = stats.binom(3, 0.5).sf(right - 1)
    assert one_run_p_value(right, 3, 10, 0.0, 1e-3) == pytest.approx(tail + 2 * 10 * 1e-3 * mass, rel=1e-12)


def test_p_value_without_delta_is_a_binomial_tail_and_grows_with_delta():
    p = one_run_p_value(70, 100, 200, 0.4, 0.0)
    assert p == pytest.approx(stats.binom(100, np.exp(0.4) / (1 + np.exp(0.4))).sf(69))
    assert p < one_run_p_value(70, 100, 200, 0.4, 1e-5) < one_run_p_value(70, 100, 200, 0.4, 1e-3)
    assert one_run_p_value(0, 100, 200, 0.4, 0.0) == 1.0
    assert one_run_p_value(70, 100, 200, 0.4, 1.0) == 1.0


USERS, PARAMS, CLIP, NOISE, P, N0 = 5, 3, 1.0, 1.0, 0.8, 0.5


def audited(noise=NOISE):
    canary = direction_canary(KEY, USERS, PARAMS, 3.0 * CLIP)
    make = lambda local, observe: wireless(
        local, clip=CLIP, noise_variance=noise, receiver_noise=N0, participation=P, fading=constant(),
        observe=observe, mesh=None,
    )  # fmt: skip
    score = on_the_air(canary.toward, clip=CLIP, noise_variance=NOISE, receiver_noise=N0)
    key = jax.random.key(1)
    worlds = scores(make, canary, score, key, params=jnp.zeros(PARAMS), trials=20_000, at_once=1000)
    return two_worlds(*worlds, delta=DELTA).epsilon


def test_a_system_stands_its_audit_and_a_broken_one_does_not():
    """The claim is the exact figure of the channel; noise cut to a ninth is caught."""
    claimed = rigorous_epsilon(Round(USERS, P, CLIP, NOISE, N0), DELTA)
    assert claimed / 2.5 < audited() < claimed
    assert audited(noise=NOISE / 9) > claimed


DEVICES, SAMPLES, SIGMA = 2, 32, 1 / 16
RNG = np.random.default_rng(3)
MODEL = models.softmax_regression((3,), 2)
LOSS = losses.softmax_cross_entropy(MODEL)
X = jnp.asarray(0.1 * RNG.normal(size=(DEVICES, SAMPLES, 3)), jnp.float32).at[0, 0].set(jnp.array([5.0, 0.0, 0.0]))
Y = jnp.asarray(RNG.integers(0, 2, (DEVICES, SAMPLES)), jnp.int32)
START = MODEL.init(KEY)


def private(batch_size, cases, rounds=1):
    """Bounds of three adversaries of DP-SGD, whose client 0 has another label at its first sample, in each case.

    Noise, clip and number of samples are a part of the input, and trials take the cases in turn: all are one program.
    """

    def local(given):
        _, sigma, clip = given
        return local_sgd(
            LOSS, learning_rate=0.5, batch_size=batch_size, num_steps=1, sample_clip=clip, gradient_noise=sigma
        )

    make = lambda local, observe: dp_sgd(
        local, num_clients=DEVICES, secure_sum=plain_field(), observe=observe, mesh=None, block=DEVICES
    )
    data = ClientData((X, Y), jnp.full(DEVICES, SAMPLES, jnp.int32))
    label = label_canary(local((data, SIGMA, 1.0)), LOSS, data, 1 - int(Y[0, 0]))
    sigma, clip, count = (jnp.asarray(each) for each in zip(*cases, strict=True))
    each_client = jnp.broadcast_to(count[:, None], (len(cases), DEVICES))
    spread = lambda rows: jnp.broadcast_to(rows, (len(cases), *rows.shape))
    inputs = tuple(
        (ClientData(jax.tree.map(spread, world.examples), each_client), sigma, clip) for world in label.inputs
    )
    looks = [look(label.toward) for look in (server, outsider, functools.partial(coalition, colluding=1))]
    worlds = scores(
        make, Canary(inputs, local, lambda given: given[0], label.toward, len(cases)),
        lambda seen: jnp.stack([look(seen) for look in looks]), KEY, params=START, trials=3000 * len(cases),
        at_once=1000, rounds=rounds,
    )  # fmt: skip
    mine = np.arange(3000 * len(cases)) // 2 % len(cases)
    bound = lambda case, look: two_worlds(*(world[mine == case, look] for world in worlds), delta=DELTA).epsilon
    return [[bound(case, look) for look in range(3)] for case in range(len(cases))]


ROUNDS = 3


def exact(known):
    """Batches of all samples: a Gaussian mechanism with the noise of those who do not collude, three times."""
    return gaussian.epsilon(DELTA, np.sqrt(ROUNDS) * 2 / SAMPLES / SIGMA / np.sqrt(DEVICES - known))


def test_a_label_canary_meets_dp_sgd_from_below_and_a_third_of_the_noise_or_no_clipping_is_caught():
    cases = [(SIGMA, 1.0, SAMPLES), (SIGMA / 3, 1.0, SAMPLES), (SIGMA, 100.0, SAMPLES)]
    sound, quieter, longer = private(SAMPLES, cases, ROUNDS)
    for bound, known in zip(sound, (0, 0, 1), strict=True):
        assert exact(known) / 2.5 < bound < exact(known)
    assert min(quieter[0], longer[0]) > exact(0)


def test_batches_that_are_not_drawn_are_caught():
    """One sample of 32 in each batch; then the first one in all of them."""
    claimed = theory.amplified_epsilon(theory.Training(1, 1, 1.0, DEVICES, SAMPLES, 1, 2.0), DELTA)
    drawn, fixed = private(1, [(2.0, 1.0, SAMPLES), (2.0, 1.0, 1)])
    assert drawn[0] < claimed < fixed[0]


def proposed_by_rank(key, v, n, alpha, real=consensus_sparsification.propose):
    """True coordinates at the place of their rank, the random ones in between."""
    own, largest = real(key, v, n, alpha), jax.lax.top_k(jnp.abs(v), n)[1]
    true = jnp.isin(largest, own)
    random = own[jnp.argsort(jnp.isin(own, largest))]
    return jnp.where(true, largest, random[jnp.cumsum(~true) - 1])


def proposals_bound(d, n, alpha):
    """Nine of ten clients are lost once they have proposed, which hides nothing."""
    canary = proposal_canary(2, d, n)
    make = lambda local, observe: fedrep(
        local, num_clients=2, num_params=d, k=2 * n, alpha=alpha, aggregate=mean(), in_the_clear=True,
        dropout=0.9, observe=observe, mesh=None,
    )  # fmt: skip
    worlds = scores(make, canary, proposal(n), KEY, params=jnp.zeros(d), trials=16_000, at_once=4000)
    return two_worlds(*worlds).epsilon


def test_proposals_of_fedrep_are_met_from_below_and_contradicted_if_they_come_by_rank(monkeypatch):
    sizes = 20, 2, 0.5
    proved = coordinate_epsilon(*sizes)
    assert proved / 1.2 < proposals_bound(*sizes) < proved
    monkeypatch.setattr(consensus_sparsification, "propose", proposed_by_rank)
    assert proposals_bound(*sizes) > proved


def crowd_bound(norm):
    """Every one of 300 users is a canary, in one round without clipping to speak of; noise of variance 16."""
    crowd = client_crowd(KEY, 300, 3000, norm)
    make = lambda local, observe: wireless(
        local, clip=100.0, noise_variance=16 / 300, receiver_noise=0.0, fading=constant(), observe=observe, mesh=None,
        block=100,
    )  # fmt: skip
    found = crowd_scores(make, crowd, server(crowd.toward), KEY, params=jnp.zeros(3000))
    return one_run(found, crowd.included, guesses=200, delta=1e-5).epsilon


def test_one_run_with_many_canaries():
    """Updates of norm 1, as the exact figure wants them, do not contradict it, and updates of norm 6 do."""
    claimed = gaussian.epsilon(1e-5, 2 / 4)
    assert 0 < crowd_bound(1.0) < claimed
    assert crowd_bound(6.0) > claimed


@pytest.mark.parametrize(("opposite", "distance"), [(False, 1), (True, 2)])
def test_a_crowd_shows_the_eps_of_its_neighbours(opposite, distance):
    """1,000 clients send updates of norm 1 with noise of variance 1: mu is the distance of the two that a coin decides.

    Above it in less than 2.5% of runs. Opposite updates are above the figure of a client that takes part or not.
    """
    crowd, rng = client_crowd(KEY, 1000, 20, 1.0, opposite=opposite), np.random.default_rng(0)
    u = np.asarray(crowd.toward(None))
    noisy = lambda: ((np.asarray(crowd.given) + rng.normal(size=u.shape)) * u).sum(1)
    bounds = [one_run(noisy(), crowd.included, guesses=100, delta=1e-5, gaussian=True).epsilon for _ in range(20)]
    exact = gaussian.epsilon(1e-5, distance)
    assert max(bounds) < exact and np.mean(bounds) > 0.45 * exact
    assert (np.mean(bounds) > gaussian.epsilon(1e-5, 1)) == opposite


def test_every_label_can_be_a_canary():
    """Without noise all coins are read off one gradient; samples are orthogonal."""
    data = ClientData((jnp.eye(8)[None] * 3.0, jnp.zeros((1, 8), jnp.int32)), jnp.full(1, 8, jnp.int32))
    model = models.softmax_regression((8,), 2)
    loss = losses.softmax_cross_entropy(model)
    local = local_sgd(loss, learning_rate=1.0, batch_size=8, num_steps=1, sample_clip=1.0)
    crowd = label_crowd(KEY, local, loss, data, jnp.ones((1, 8), jnp.int32))
    found = crowd_scores(fedavg_of, crowd, uploads(crowd.toward), KEY, params=model.init(KEY))
    middle = (found[crowd.included].min() + found[~crowd.included].max()) / 2
    np.testing.assert_array_equal(found > middle, crowd.included)
    assert 0 < crowd.included.sum() < 8
    with pytest.raises(ValueError, match="data must have 8 samples of every client"):
        label_crowd(KEY, local, loss, data._replace(count=jnp.full(1, 7, jnp.int32)), jnp.ones((1, 8), jnp.int32))


def fedavg_of(local, observe):
    return fedavg(local, observe=observe, mesh=None)


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        (Sparse(jnp.array([[1.0, 2.0], [3.0, -4.0]]), jnp.array([[0, 2], [2, 1]])), [0.0, -4.0, 3.0]),
        (jnp.array([[0, 0, 0], [2, 2**32 - 5 - 7, 0]], jnp.uint32), [2.0, -7.0, 0.0]),
        (jnp.array([[0.0] * 4, [1.0, 2.0, 3.0, 0.25]]), [1.0, 2.0, 3.0]),  # and its weight
    ],
)
def test_an_upload_in_the_clear_is_read(sent, value):
    view = View(sent, (), (), (), (), ())
    np.testing.assert_array_equal(upload_of(view, 1, 3), value)


def test_each_view_subtracts_what_it_knows():
    """Three updates, of which client 0's is the canary."""
    updates, plan = jnp.array([[1.0], [10.0], [100.0]]), PLANS[LocalNoise]
    info = types.SimpleNamespace(counted=jnp.ones(3, bool), direction=updates.mean(0), status=jnp.int32(0))
    who = types.SimpleNamespace(client=jnp.arange(3))
    seen = Seen(jnp.zeros(1), jnp.zeros(1), info, updates, who, jnp.int32(0))
    read = lambda view: plan.readings(
        release=LocalNoise(secure=True, levels=1.0, max_terms=3), view=view, colluding=2, kind="label"
    )
    found = [[float(one(seen, jnp.ones(1))[0]) for one in read(view)] for view in ("server", "device", "everybody")]
    np.testing.assert_allclose(found[0], [111], rtol=1e-6)
    np.testing.assert_allclose(found[1:], [[11, 11 - 2 * 100], [1, 1 - 10]], rtol=1e-5)
    assert [float(one(seen, jnp.ones(1))[0]) for one in read("coalition")] == found[2]


def test_failures_and_counts_are_looked_at():
    """A round that fails, or counts nobody, or one client less, or leaves the model as it was."""

    def seen(status=0, counted=(True, True, True), after=1.0):
        info = types.SimpleNamespace(status=jnp.int32(status), counted=jnp.array(counted), measured={})
        models = {"w": jnp.zeros(2)}, {"w": jnp.array([0.0, after])}
        return Seen(*models, info, jnp.zeros((3, 2)), types.SimpleNamespace(), jnp.int32(0))

    cases = [{}, {"status": 4}, {"counted": (False, True, True)}, {"counted": (False, False, False), "after": 0.0}]
    found = [what_happened(seen(**case)).tolist() for case in cases]
    assert found == [[0, 3, 0], [1, 0, 1], [0, 2, 0], [0, 0, 1]]
    assert [float(stood_still(seen(after=after))) for after in (1.0, 0.0)] == [0.0, 1.0]


def test_a_round_that_one_client_makes_fail_is_caught():
    """Its upload is not finite, and the server gives up the round: no sum is seen, and all is told."""
    canary = Canary((jnp.array([[jnp.nan], [1.0]]), jnp.ones((2, 1))), sending, lambda given: no_samples(2), len)
    worlds = scores(fedavg_of, canary, what_happened, KEY, params=jnp.zeros(1), trials=400)
    assert two_worlds(*worlds).epsilon == two_worlds(*worlds).limit
    worlds = scores(fedavg_of, canary, server(lambda params: jnp.ones(1)), KEY, params=jnp.zeros(1), trials=400)
    assert np.isfinite(worlds.first).all()


def test_a_direction_canary_is_long_enough_to_be_clipped():
    """Updates are clipped after they are weighted by one over the number of clients."""
    noise = DistributedNoise(1.0, 8.0, 0.5, group_size=4)
    assert [PLANS[Sum].clip(Sum(noise), heard) for heard in (4, 8)] == [2.0, 4.0]
    assert PLANS[Sum].clip(Sum(), 4) is None


test_bad_arguments = refused(
    (lambda: two_worlds(np.array(["a"] * 4), np.zeros(9)), "first must be at least 4 finite scores, got could not"),
    (lambda: two_worlds(np.zeros(9), np.full(9, 1j)), "second must be at least 4 finite scores, got complex128 scores"),
    (lambda: two_worlds(np.array([[1], [1, 2], 1, 1], object), np.zeros(9)), "first must be at least 4 finite scores"),
    (lambda: two_worlds(np.zeros(3), np.zeros(9)), "first must be at least 4 finite scores, got"),
    (lambda: two_worlds(np.zeros(9), np.full(9, np.nan)), "second must be at least 4 finite scores, got"),
    (lambda: two_worlds(np.zeros(9), np.zeros(9), delta=1.0), r"delta must be a number in \[0, 1\), got 1.0"),
    (lambda: two_worlds(np.zeros(9), np.zeros(9), confidence=0.0), r"confidence must be a number in \(0, 1\)"),
    (lambda: one_run(np.zeros(9), np.zeros(9), guesses=2), "included must be a bool array"),
    (lambda: one_run(np.zeros(9), np.zeros(9, bool), guesses=3), "guesses must be an even number up to 9, got 3"),
    *((lambda case=case: one_run_p_value(*case[:5]), case[5]) for case in (
        (11, 10, 20, 1.0, 0.0, "right <= guesses <= canaries must hold, got 11, 10, 20"),
        (5, 10, 9, 1.0, 0.0, "right <= guesses <= canaries must hold, got 5, 10, 9"),
        (-1, 10, 20, 1.0, 0.0, "right must be an integer >= 0, got -1"),
        (5, 10, 20, float("nan"), 0.0, "epsilon must be a finite number >= 0, got nan"),
        (5, 10, 20, 1.0, -1.0, r"delta must be a number in \[0, 1\], got -1.0"),
    )),
    (lambda: one_run(np.zeros(9), np.zeros(9, bool), guesses=2, gaussian=True), r"delta must be a number in \(0, 1\)"),
    (lambda: two_worlds(np.ones(9), np.zeros(9), gaussian=True), r"delta must be a number in \(0, 1\), got 0.0"),
    (lambda: direction_canary(KEY, 0, 3, 1.0), "num_clients must be an integer >= 1, got 0"),
    (lambda: proposal_canary(2, 3, 3), "num_coordinates must be below num_params = 3, got 3"),
    (lambda: label_canary(fedsgd(LOSS), LOSS, ClientData((X, Y), jnp.full(DEVICES, SAMPLES)), 1, client=2),
     "data must have"),
    (lambda: label_canary(fedsgd(LOSS), LOSS, ClientData((X, Y), jnp.full(DEVICES, SAMPLES)), int(Y[1, 2]), client=1,
                          sample=2), "label must not be that of sample 2 of client 1, got"),
    (lambda: sample_canary(fedsgd(LOSS), LOSS, ClientData((X, Y), jnp.full(DEVICES, SAMPLES)),
                           (np.asarray(X[1, 0], np.float64), Y[1, 0]), client=1),
     "example must differ from sample 0 of client 1, which it replaces"),
    (lambda: label_crowd(KEY, fedsgd(LOSS), LOSS, ClientData((X, Y), jnp.full(DEVICES, SAMPLES)), Y.at[0].add(1)),
     "others must differ from the labels of data, got 32 of 64 that do not"),
    (lambda: scores(fedavg_of, direction_canary(KEY, 2, 3, 1.0), len, KEY, params=jnp.zeros(3), trials=3),
     "trials must be an integer >= 4, got 3"),
    (lambda: scores(fedavg_of, direction_canary(KEY, 2, 3, 1.0), len, KEY, params=jnp.zeros(3), trials=2**40),
     "trials must be at most 16777216, got 1099511627776"),
)  # fmt: skip
