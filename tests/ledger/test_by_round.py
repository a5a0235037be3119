"""Eps after each round, against the theory called by hand for so many rounds."""

import functools
import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import losses, models, simulate, systems
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd, once_per_model
from fedjax_priv.data import Pool
from fedjax_priv.layers import plain_field, within_budget
from fedjax_priv.layers.noise_skellam import squared_norm_bound
from fedjax_priv.ledger import epsilon_by_round, ledger, noise_for, planned, rounds_within, worst
from fedjax_priv.ledger.budget import _entry
from fedjax_priv.ledger.prefixes import POINTS, by_prefix
from fedjax_priv.systems.releases import Sum
from fedjax_priv.theory import gaussian, sampled_gaussian, skellam, wireless
from fedjax_priv.theory.sampled_gaussian import Round

KEY, N, M, D, ROUNDS, DELTA = jax.random.key(1), 6, 4, 8, 5, 1e-5
MODEL = models.softmax_regression((3,), 2)
PARAMS = MODEL.init(KEY)
DATA = ClientData((jnp.zeros((N, M, 3)), jnp.zeros((N, M), jnp.int32)), jnp.full(N, M, jnp.int32))


def local(**how):
    return local_sgd(losses.softmax_cross_entropy(MODEL), learning_rate=1.0, batch_size=2, num_steps=1, **how)


def by_round(algorithm, rounds=ROUNDS, **how):
    return epsilon_by_round(algorithm, planned(algorithm, KEY, PARAMS, DATA, rounds), DATA, delta=DELTA, **how)


@functools.cache
def of_coins():
    """A system with coins, the plan of its rounds and their eps."""
    algorithm = private(sampling_rate=0.5)
    plan = planned(algorithm, KEY, PARAMS, DATA, ROUNDS)
    return algorithm, plan, epsilon_by_round(algorithm, plan, DATA, delta=DELTA)


def private(**how):
    return systems.dp_fedavg(local(), num_clients=N, noise_multiplier=1.5, **how)


def test_noise_of_the_server():
    *_, found = of_coins()
    assert found.dims == ("adversary", "round") and found.attrs["units"] == "1" and found.attrs["delta"] == DELTA
    assert found.adversary.values.tolist() == [
        "outsider, add/remove", "outsider, replacement", "device, zero-out", "device, replacement",
        "server, replacement",
    ]  # fmt: skip
    for done in (1, 3, 5):
        after = found.sel(round=done, adversary="outsider, add/remove").item()
        expected = sampled_gaussian.epsilon(DELTA, [(Round(1.5, 0.5), done)])
        assert expected * (1 - 1e-6) <= after <= expected * 1.003
    assert np.isnan(found.sel(adversary="server, replacement")).all()


def test_a_pool_says_as_much_as_arrays():
    """Of the clients' data only their numbers count, and nothing is fetched."""

    def fetch(ids):
        raise OSError("not asked for")

    algorithm, run, found = of_coins()
    pool = Pool(fetch, DATA.count.tolist())  # pyright: ignore
    assert ledger(algorithm, run, pool, delta=DELTA)[0].proved.epsilon > 0
    there = epsilon_by_round(algorithm, run, pool, delta=DELTA)
    np.testing.assert_array_equal(there, found)


def test_skellam_noise_in_a_secure_sum():
    levels, clip, variance = 16, 1.0, 4.0
    found = by_round(systems.secagg(local(), num_clients=N, clip=clip, noise_variance=variance, levels=levels))
    distance = 2 * np.sqrt(squared_norm_bound(levels * clip, D))
    one = skellam.rdp(distance, D, N * variance * levels**2)
    expected = [skellam.epsilon(number * one, DELTA) for number in range(1, ROUNDS + 1)]
    np.testing.assert_allclose(found.sel(adversary="server, replacement"), expected)


def test_noise_in_local_steps():
    found = by_round(systems.cdp_fl(local(sample_clip=0.5, gradient_noise=0.3), num_clients=N))
    moved = np.sqrt(np.arange(1, ROUNDS + 1)) * 2 * 0.5 / 2 / 0.3  # each sample at most once a round
    everybody = found.sel(adversary="everybody, replacement of a sample")
    np.testing.assert_allclose(everybody, gaussian.epsilon(DELTA, moved), rtol=1e-6)


def test_noise_on_the_air():
    found = by_round(systems.wireless(local(), clip=1.0, noise_variance=1.0, receiver_noise=0.5, participation=0.5))
    one = wireless.Round(N, 0.5, 1.0, 1.0, 0.5)
    expected = [wireless.rigorous_epsilon(one, DELTA, rounds=number) for number in range(1, ROUNDS + 1)]
    np.testing.assert_allclose(found.sel(adversary="server, replacement"), expected, rtol=3e-3)


def test_rounds_that_differ_are_composed_in_their_order():
    p = np.array([0.1, 0.1, 0.9, 0.1])[:, None]
    found = wireless.epsilon_by_round(wireless.Round(N, p, 1.0, 1.0), DELTA, rounds=4)
    for done in (1, 2, 3, 4):
        expected = wireless.rigorous_epsilon(wireless.Round(N, p[:done], 1.0, 1.0), DELTA, rounds=done)
        assert found[done - 1] == pytest.approx(expected, rel=3e-3)
    assert abs(found[2] - wireless.rigorous_epsilon(wireless.Round(N, 0.1, 1.0, 1.0), DELTA, rounds=3)) > 0.01


def test_no_noise_is_no_figure():
    assert np.isnan(by_round(systems.fedavg(local()))).all()


def test_eps_is_of_a_later_round_where_it_is_not_computed():
    asked = []
    found = by_prefix(2 * POINTS + 1, lambda number: asked.append(number) or float(number))
    assert len(asked) <= POINTS and asked[-1] == 2 * POINTS + 1
    assert (found >= np.arange(1, 2 * POINTS + 2)).all() and found[-1] == 2 * POINTS + 1


def test_the_plan_of_a_run_is_what_happens():
    algorithm = private(sampling_rate=0.5, dropout=0.3, mesh=None)
    plan = planned(algorithm, KEY, PARAMS, DATA, ROUNDS)
    run = simulate(algorithm, KEY, PARAMS, DATA, rounds=ROUNDS, progress=False)
    np.testing.assert_array_equal(plan.client_id, run.client_id)
    np.testing.assert_array_equal(plan.counted, run.counted)
    np.testing.assert_array_equal(plan.up_bytes[0] > 0, run.up_bytes.sel(phase="upload") > 0)
    assert plan.attrs["num_params"] == run.attrs["num_params"]
    for before, after in zip(*(ledger(algorithm, each, DATA, delta=DELTA) for each in (plan, run)), strict=True):
        assert worst(before.proved) == worst(after.proved)


def buffered(noise_multiplier=2.0):
    """Times of jobs are fixed, and factors of updates are drawn."""
    return systems.secure_fedbuff(
        local(), num_clients=N, num_params=D, buffer_size=2, clip=1.0, noise_multiplier=noise_multiplier,
        normalize="buffer", weight_levels=4, elide=True, mesh=None,
        job_law="fixed", mean_time=np.array([1, 1.3, 3.1, 7.7, 2, 5], np.float32),
    )  # fmt: skip


ONLY_SOME_TELL = {
    "factor": buffered(),
    "level": systems.wireless(
        local(),
        clip=1.0,
        noise_variance=1.0,
        receiver_noise=0.5,
        participation=0.5,
        level=within_budget(0.6, 1.2),
        mesh=None,
    ),
}


@pytest.mark.parametrize("name", ONLY_SOME_TELL)
def test_a_plan_has_what_only_some_draws_know(name):
    algorithm = ONLY_SOME_TELL[name]
    run = simulate(algorithm, KEY, PARAMS, DATA, rounds=ROUNDS, progress=False)
    plan = planned(algorithm, KEY, PARAMS, DATA, ROUNDS)
    np.testing.assert_array_equal(plan[name], run[name])
    assert len(set(plan[name].values.ravel().tolist())) > 1
    for before, after in zip(*(ledger(algorithm, each, DATA, delta=DELTA) for each in (plan, run)), strict=True):
        assert worst(before.proved) == worst(after.proved)


def weights_of(run):
    """The most that any client pays after each round, of factors of at most 4, times z squared."""
    taken = (run.up_bytes.sel(phase="upload") > 0).values
    spent = [(run.factor.values / 4) ** 2 * taken * (run.client_id.values == who) for who in range(N)]
    return np.sum(spent, axis=2).cumsum(1).max(0)


def test_a_budget_of_buffers_is_that_of_the_factors_that_will_be_drawn():
    spent = weights_of(planned(buffered(), KEY, PARAMS, DATA, 8))
    after = gaussian.epsilon(DELTA, np.sqrt(spent) / 2)
    assert spent[4] < spent[7]
    last = int(np.flatnonzero(spent == spent[4])[-1]) + 1
    assert rounds_within(buffered(), KEY, PARAMS, DATA, float(after[4]) * (1 + 1e-6), delta=DELTA, most=8) == last
    z = noise_for(buffered, KEY, PARAMS, DATA, 2.0, delta=DELTA, rounds=8)
    assert 2 * (1 - 1e-4) < gaussian.epsilon(DELTA, np.sqrt(spent[-1]) / z) <= 2


def test_a_run_ends_at_the_last_round_within_its_budget():
    algorithm = private()
    after = by_round(algorithm, 8).sel(adversary="outsider, add/remove").values
    budget = (after[4] + after[5]) / 2
    assert rounds_within(algorithm, KEY, PARAMS, DATA, float(budget), delta=DELTA, most=8) == 5
    assert rounds_within(algorithm, KEY, PARAMS, DATA, float(budget), delta=DELTA, most=3) == 3


def test_a_budget_of_a_pool_is_that_of_its_arrays():
    """Only the samples of the first client are fetched, for their shapes."""

    def fetch(ids):
        assert ids.tolist() == [0]
        return jax.tree.map(lambda a: np.asarray(a)[ids], DATA.examples)

    make = lambda z: systems.dp_fedavg(local(), num_clients=N, noise_multiplier=z)
    given, pool = (KEY, PARAMS), Pool(fetch, np.asarray(DATA.count))
    eps = float(worst(ledger(make(1.0), planned(make(1.0), *given, DATA, 2), DATA, delta=DELTA)[0].proved))
    assert rounds_within(make(1.0), *given, pool, eps, delta=DELTA, most=5) == 2
    noises = [noise_for(make, *given, data, 2.0, delta=DELTA, rounds=3) for data in (pool, DATA)]
    assert noises[0] == noises[1]
    with pytest.raises(ValueError, match=f"^count must be .* {M}"):
        rounds_within(make(1.0), *given, pool._replace(count=2 * pool.count), 1.0, delta=DELTA, most=5)


def test_the_name_of_an_adversary_is_no_choice():
    with pytest.raises(ValueError, match=r"^chosen must be a function of 1 argument, such as against\("):
        inspect.unwrap(_entry)([], "outsider")  # pyright: ignore[reportArgumentType]


def test_noise_for_a_budget():
    z = noise_for(
        lambda z: systems.dp_fedavg(local(), num_clients=N, noise_multiplier=z),
        KEY, PARAMS, DATA, 2.0, delta=DELTA, rounds=4,
    )  # fmt: skip
    assert 2 * (1 - 1e-4) < gaussian.epsilon(DELTA, 2 / z) <= 2
    levels = 256
    variance = noise_for(
        lambda v: systems.secagg(local(), num_clients=N, clip=1.0, noise_variance=v, levels=levels),
        KEY, PARAMS, DATA, 3.0, delta=DELTA, rounds=2,
    )  # fmt: skip
    distance = 2 * np.sqrt(squared_norm_bound(levels * 1.0, D))
    expected = skellam.variance_for_epsilon(3.0, DELTA, distance=distance, num_coordinates=D, rounds=2)
    assert variance * N * levels**2 == pytest.approx(expected, rel=1e-4)


def test_a_budget_counts_the_noise_that_lost_uploads_take_along():
    make = lambda v: systems.secagg(
        local(), num_clients=N, clip=1.0, noise_variance=v, levels=256, dropout=0.4, threshold=2, elide=True, mesh=None
    )
    enough = noise_for(make, KEY, PARAMS, DATA, 3.0, delta=DELTA, rounds=2)
    run = simulate(make(enough), KEY, PARAMS, DATA, rounds=2, progress=False)
    assert (run.up_bytes.sel(phase="upload") == 0).any()
    assert 3 * (1 - 1e-4) < worst(ledger(make(enough), run, DATA, delta=DELTA)[0].proved) <= 3


def test_noise_for_a_budget_that_keeps_clients_from_sending():
    """With "signal" a client must have power for its noise: more noise, fewer senders, and less noise in the sum."""
    make = lambda noise: systems.wireless(
        local(), clip=0.1, noise_variance=noise, receiver_noise=0.01, snr_db=15.0, power_control="signal"
    )
    spent = lambda noise, at: float(worst(ledger(make(noise), plan(at), DATA, delta=DELTA)[0].proved))
    plan = functools.cache(lambda noise: planned(make(noise), KEY, PARAMS, DATA, 6))
    target = 3.0
    for start in (1e-3, 0.2):
        found = noise_for(make, KEY, PARAMS, DATA, target, delta=DELTA, rounds=6, start=start)
        assert target * (1 - 1e-3) < spent(found, found) <= target
    senders = [float((plan(noise).join_probability > 0).sum()) for noise in (1e-3, found)]
    assert senders[1] < senders[0]
    assert spent(0.9 * found, 1e-3) < target  # the control: with all who send at little noise, less would do


def adaptive(z):
    """Below 2 the noise on the clip's bits is less than what the round has in all."""
    return systems.dp_fedavg(local(), num_clients=N, noise_multiplier=z, clip_quantile=0.5, count_noise=1.0)


@pytest.mark.parametrize("start", [0.5, 1.7])
def test_the_search_for_noise_ends_at_the_most_that_is_allowed(start):
    given = KEY, PARAMS, DATA
    for z in (1.7, 1.99):
        found = noise_for(adaptive, *given, float(gaussian.epsilon(DELTA, 1 / z)), delta=DELTA, rounds=1, start=start)
        assert z * (1 - 1e-9) <= found <= z * (1 + 1e-4)
    with pytest.raises(
        ValueError, match=r"^epsilon must be at least 1.\d+, of the most noise that is allowed, 2 \(count_"
    ):
        noise_for(adaptive, *given, 1.0, delta=DELTA, rounds=1, start=start)
    with pytest.raises(ValueError, match=r"^count_noise must be above"):
        noise_for(adaptive, *given, 1.0, delta=DELTA, rounds=1, start=2.5)


def grid(z: float, bits: int = 5, **how):
    """Noise of less than half a grid point, such as z = 1 of 4 bits, has no figure."""
    return systems.distributed_dp_fedavg(
        local(**how), num_clients=N, num_params=D, noise_multiplier=z, noise="discrete_gaussian", bits=bits
    )


def first_of_grid(z):
    """Eps of one round against the server; infinite where there is none."""
    eps = worst(ledger(grid(z), planned(grid(1.0), KEY, PARAMS, DATA, 1), DATA, delta=1e-2)[0].proved)
    return np.inf if eps is None else eps


@pytest.mark.parametrize(("eps", "start"), [(4.0, 0.3), (20.0, 0.4), (1e3, 4.0)])
def test_a_noise_of_which_nothing_is_proved_is_too_little(eps, start):
    """Steps of samples have a figure that is small at every noise, and is not what the budget is about."""
    make = lambda z: grid(z, sample_clip=1.0, gradient_noise=1e3)
    z = noise_for(make, KEY, PARAMS, DATA, eps, delta=1e-2, rounds=1, start=start)
    assert first_of_grid(z) <= eps < first_of_grid(z * (1 - 1e-4))
    release = make(z).release
    assert isinstance(release, Sum) and release.noise is not None
    assert (release.noise.noise_variance < 0.2501) == (eps == 1e3)


def test_the_least_noise_is_found_below_a_rise_of_eps_too():
    """On a grid this fine much noise makes updates too long, so that the noise of one client counts, not of six.

    Compared with a walk over noises. The control: beyond the rise eps is met again, with 2.4 times the noise.
    """
    make = lambda sigma: systems.cdp_fl(local(sample_clip=1.0, gradient_noise=sigma), num_clients=N, levels=2.0**24)
    plan = planned(make(1.0), KEY, PARAMS, DATA, 3)

    @functools.cache
    def spent(sigma):
        return worst(ledger(make(sigma), plan, DATA, delta=DELTA)[0].proved) or np.inf

    noises = [float(sigma) for sigma in np.geomspace(0.2, 20, 30)]
    (rise,) = [place for place, pair in enumerate(itertools.pairwise(map(spent, noises))) if pair[0] < pair[1]]
    for target, starts in ((1.02 * spent(noises[rise]), (0.5, 30.0)), (1.5 * spent(noises[rise]), (30.0,))):
        first = next(place for place, sigma in enumerate(noises) if spent(sigma) <= target)
        assert first <= rise and spent(noises[rise + 1]) > target > spent(noises[-1])
        for start in starts:
            found = noise_for(make, KEY, PARAMS, DATA, target, delta=DELTA, rounds=3, start=start)
            assert noises[first - 1] < found <= noises[first]
            assert spent(found) <= target < spent(found * (1 - 1e-4))


def distributed(local_training, **how):
    return systems.secagg(local_training, num_clients=N, clip=1.0, noise_variance=0.1, levels=2.0**8, mesh=None, **how)


ONCE = once_per_model(local())
NOBODY_KNOWS = r"^algorithm must not have local training once_per_model\(\.\.\.\) where noise of others counts: who"


def test_who_sits_out_is_planned_only_where_no_noise_of_theirs_counts():
    """With `once_per_model` a run may have fewer who add noise than its plan, and so a larger eps."""
    safe = systems.robajol(ONCE, num_clients=N, num_params=D), systems.dp_fedavg(ONCE, num_clients=N)
    alone = distributed(ONCE, secure_sum=plain_field())  # each upload is read with its own noise alone
    for system in (*safe, alone, distributed(local())):
        assert planned(system, KEY, PARAMS, DATA, 2).sizes["round"] == 2
    noisy = once_per_model(local(sample_clip=1.0, gradient_noise=1.0))
    for system in (
        distributed(ONCE), systems.wireless(ONCE), systems.blind_wireless(ONCE), systems.cdp_fl(noisy, num_clients=N)
    ):  # fmt: skip
        with pytest.raises(ValueError, match=NOBODY_KNOWS):
            planned(system, KEY, PARAMS, DATA, 2)


test_refused = refused(
    (
        lambda: noise_for(grid, KEY, PARAMS, DATA, 1e30, delta=DELTA, rounds=1),
        r"epsilon must be at most 1e\+06, got 1e\+30",
    ),
    (
        lambda: noise_for(lambda z: grid(min(z, 1.0), bits=4), KEY, PARAMS, DATA, 1.0, delta=DELTA, rounds=1),
        "epsilon must be for a system with a proved figure: noise of less than half a grid point",
    ),
    (
        lambda: rounds_within(private(), KEY, PARAMS, DATA, 0.1, delta=DELTA, most=3),
        "epsilon must allow a round, whose eps is 2.753 at delta 1e-05, got 0.1",
    ),
    (
        lambda: rounds_within(systems.fedavg(local()), KEY, PARAMS, DATA, 1.0, delta=DELTA, most=3),
        "epsilon must be for a system with a proved figure: no noise is added by the system",
    ),
    (
        lambda: rounds_within(
            systems.fedrep(local(), num_clients=N, num_params=D, alpha=0.5), KEY, PARAMS, DATA, 1.0, delta=DELTA, most=3
        ),
        "epsilon must be for a system with a proved figure: no noise is added by the system",
    ),
    (lambda: rounds_within(private(), KEY, PARAMS, DATA, -1.0, delta=DELTA, most=3), "epsilon must be"),
    (
        lambda: rounds_within(private(), KEY, PARAMS, DATA, 1.0, delta=DELTA, most=0),
        "most must be an integer >= 1, got 0",
    ),
    (
        lambda: planned(private(), jax.random.PRNGKey(0), PARAMS, DATA, 1),
        "key must be one typed key, .* got an old-style",
    ),
    (
        lambda: inspect.unwrap(planned)(private, KEY, PARAMS, DATA, 1),
        "algorithm must be an Algorithm, such as .*, got private, which may",
    ),
    *(
        (
            functools.partial(
                inspect.unwrap(noise_for), make, KEY, PARAMS, DATA, 1.0, delta=DELTA, rounds=1, start=start
            ),
            message,
        )
        for make, start, message in (
            (private(), 1.0, r"make must be a function of \(noise\), got Algorithm$"),
            (lambda z: grid(z), -1.0, "start must be a finite number > 0, got -1.0$"),
        )
    ),
    (lambda: planned(private()._replace(draw=None), KEY, PARAMS, DATA, 1), "algorithm must have a draw"),
)
