"""Figures of a run, against the accountants called by hand with what is known of it."""

import functools
import inspect
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from refusals import refused

from fedjax_priv import losses, models, simulate, systems
from fedjax_priv.aggregators import mean
from fedjax_priv.audit.by_release import PLANS
from fedjax_priv.base import ClientData
from fedjax_priv.channels import constant
from fedjax_priv.clients import local_sgd, scheduled
from fedjax_priv.layers import plain_field
from fedjax_priv.ledger import epsilon_by_round, ledger, show, worst
from fedjax_priv.ledger.by_release import ACCOUNTANTS
from fedjax_priv.systems import releases
from fedjax_priv.theory import cdp_fl, fedrep, gaussian, sparse_secagg, wireless

KEY = jax.random.key(3)
N, M, ROUNDS, DELTA = 6, 4, 3, 1e-4
RNG = np.random.default_rng(1)
DATA = ClientData(
    (jnp.asarray(RNG.normal(size=(N, M, 3)), jnp.float32), jnp.asarray(RNG.integers(0, 2, (N, M)), jnp.int32)),
    jnp.full(N, M, jnp.int32),
)
MODEL = models.softmax_regression((3,), 2)
SCHEDULE = np.array([[0, 1, 2], [0, 2, 3], [0, 1, 4]])
TAKEN = np.array([3, 2, 2, 1, 1, 0])
MEMBERS = {"num_clients": N, "cohort_size": 3, "cohort": scheduled(SCHEDULE)}
TRAINING = cdp_fl.Training(TAKEN, 2, clip=0.5, num_selected=3, num_samples=M, batch_size=2, sigma=0.3)


def local(**how):
    return local_sgd(losses.softmax_cross_entropy(MODEL), **{"learning_rate": 1.0, "batch_size": 2, **how})


def noisy(num_steps=2, **how):
    return local(num_steps=num_steps, **{"sample_clip": 0.5, "gradient_noise": 0.3, **how})


EVERYBODY = np.arange(N)


def made(client=EVERYBODY, p=1.0, gain=1.0, lost=0):
    """What a ledger reads of a run, by hand."""
    client = np.broadcast_to(client, (ROUNDS, np.shape(client)[-1]))
    each, counted = ("round", "client"), np.ones(client.shape, bool)
    counted[0, :lost] = False
    fill = lambda value: (each, np.full(client.shape, value, np.float32))
    variables = {
        "client_id": (each, client), "counted": (each, counted), "status": (("round",), np.zeros(ROUNDS, int)),
        "join_probability": fill(p), "gain": fill(gain), "up_bytes": (("phase", *each), 1 * counted[None]),
    }  # fmt: skip
    return xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": 8})


def entries(algorithm, run=None, **how):
    return ledger(algorithm, made() if run is None else run, DATA, delta=DELTA, **how)


def simulated(algorithm):
    return simulate(algorithm, KEY, MODEL.init(KEY), DATA, rounds=ROUNDS, progress=False)


@functools.cache
def concentrated(secure=True, colluding=0, steps=2, size=3, **noise):
    who = MEMBERS | {"cohort_size": size}
    algorithm = systems.cdp_fl(noisy(steps, **noise), **who, secure_sum=None if secure else plain_field())
    return entries(algorithm, made(SCHEDULE), colluding=colluding)


def test_a_run_as_it_is_made_has_what_a_ledger_reads():
    secure = systems.cdp_fl(noisy(), **MEMBERS, elide=True, mesh=None)
    by_hand, run = entries(secure, made(SCHEDULE)), entries(secure, simulated(secure))
    for a, b in zip(by_hand, run, strict=True):
        np.testing.assert_array_equal(a.proved.epsilon, b.proved.epsilon)
    air = systems.wireless(local(num_steps=1), participation=0.9, fading=constant(), mesh=None)
    by_hand, run = entries(air, made(p=0.9)), entries(air, simulated(air))
    assert worst(by_hand[0].proved) == worst(run[0].proved) > 0


@pytest.mark.parametrize(
    "changed", [{"clip": 5.0}, {"weigh": "expected"}, {"weigh": "survivors"}, {"num_byzantine": 1}], ids=str
)
def test_noise_of_steps_is_summed_only_where_every_update_is_in_the_sum_as_it_was_trained(changed):
    """Weights, clipping or an attacker may leave the noise of one client alone in the sum."""
    summed = lambda **how: [
        entry.view
        for entry in entries(systems.compose(noisy(), **MEMBERS, secure="enrolled", **how), made(SCHEDULE))
        if entry.proved.epsilon is not None
    ]
    assert summed() == ["server", "device", "everybody"]
    assert summed(**changed) == ["everybody"]


def test_concentrated_dp_by_client_and_adversary():
    server, device, coalition, everybody = concentrated(colluding=1)
    np.testing.assert_allclose(server.claimed.epsilon, cdp_fl.epsilon(TRAINING, DELTA))
    for entry in (device, coalition, everybody):
        assert entry.claimed.epsilon is None and "about the sum" in entry.claimed.why
    adversaries = {"server": server, "device": device, "everybody": everybody}
    for name, entry in adversaries.items():
        proved = cdp_fl.proved_epsilon(cdp_fl.proved_rho(TRAINING, adversary=name), DELTA)
        np.testing.assert_allclose(entry.proved.epsilon, proved.epsilon)
        assert proved.assumptions[0] in entry.proved.why
    assert worst(coalition.proved) == worst(device.proved) >= worst(server.proved) > worst(server.claimed)
    assert server.proved.epsilon[5] == 0  # which took part in no round
    for entry, same in zip(concentrated(colluding=1, size=None), (server, device, coalition, everybody), strict=True):
        np.testing.assert_array_equal(entry.proved.epsilon, same.proved.epsilon)  # three in a sum, of six at most


def test_without_secure_aggregation_uploads_are_seen_alone():
    (entry,) = concentrated(secure=False)
    np.testing.assert_allclose(entry.claimed.epsilon, cdp_fl.upload_epsilon(TRAINING, DELTA))
    row_one = np.sqrt(TAKEN) * 2 * 0.5 / 2 / 0.3  # each sample once a round: sensitivity 2G/gamma, noise sigma
    np.testing.assert_allclose(entry.proved.epsilon, gaussian.epsilon(DELTA, row_one), rtol=1e-6)


def test_every_type_of_release_has_an_accountant_and_a_plan_for_its_audit():
    types = {*typing.get_args(releases.Release)}
    made_here = {each for each in vars(releases).values() if getattr(each, "__module__", "") == releases.__name__}
    assert made_here - {releases.DistributedNoise, releases.Opening, releases.Participation} == types
    assert ACCOUNTANTS.keys() == PLANS.keys() == types | {type(None)}
    unknown = systems.fedavg(local(num_steps=1))._replace(release=releases.DistributedNoise(1, 1, 1, 1))
    (entry,) = entries(unknown)
    assert entry.claimed.epsilon is None is entry.proved.epsilon and "type DistributedNoise" in entry.proved.why


def test_no_theorem_no_number():
    (entry,) = concentrated(gradient_noise=0.0)
    assert entry.claimed.epsilon is None is entry.proved.epsilon and "no noise" in entry.proved.why
    (part, *_) = concentrated(steps=1)
    assert part.claimed.epsilon is None and "whole passes" in part.claimed.why and worst(part.proved) > 0
    partial, *_ = entries(systems.cdp_fl(noisy(1, batch_size=3, sample_clip=1.0, gradient_noise=1.0), num_clients=N))
    assert partial.claimed.epsilon is None and "a divisor of num_samples" in partial.claimed.why


def test_dp_sgd_has_its_own_figures():
    """Batches of half the samples, drawn afresh; of all of them, one Gaussian mechanism a round."""

    def found(size, **how):
        return entries(systems.dp_sgd(noisy(1, batch_size=size), **MEMBERS, **how), made(SCHEDULE), colluding=1)

    server, _, coalition, everybody = found(2)
    charged = cdp_fl.dp_sgd_epsilon(TRAINING, N, DELTA)
    np.testing.assert_allclose(server.claimed.epsilon, charged.printed)
    for entry, uploads in ((server, 3), (coalition, 2), (everybody, 1)):
        amplified = cdp_fl.amplified_epsilon(TRAINING._replace(rounds_taken=np.arange(4), num_selected=uploads), DELTA)
        np.testing.assert_allclose(entry.proved.epsilon, amplified[TAKEN])
        seen = "every upload is seen" if uploads == 1 else "only the sum is seen"
        assert entry.proved.why == f"batches are secret and drawn afresh each round; {seen}"
    (alone,) = found(M, secure_sum=plain_field())
    exact = gaussian.epsilon(DELTA, np.sqrt(TAKEN) * 2 * 0.5 / M / 0.3)
    np.testing.assert_allclose(alone.proved.epsilon, exact, rtol=1e-6)
    assert "row 0, 1" in alone.proved.why


def over_the_air(colluding=0, **how):
    usual = dict(clip=0.1, noise_variance=0.5, receiver_noise=1.0, participation=0.9)
    how = {**usual, **how}
    return entries(
        systems.wireless(local(num_steps=1), **how), made(p=how["participation"], gain=0.9), colluding=colluding
    )


def test_which_views_are_gaussian_mechanisms():
    """Whole batches and one step, or every step seen; on the air everybody sends."""
    views = lambda system: {one.view for one in entries(system, made(SCHEDULE), colluding=1) if one.gaussian}
    private = lambda steps, size: systems.cdp_fl(noisy(steps, batch_size=size), **MEMBERS)
    assert views(private(1, M)) == {"server", "device", "coalition", "everybody"}
    assert views(private(2, M)) == {"everybody"}
    assert views(private(2, 2)) == set()
    assert [one.gaussian for one in over_the_air(participation=1.0)] == [True]
    assert [one.gaussian for one in over_the_air()] == [False]
    assert [one.gaussian for one in over_the_air(participation=1.0, snr_db=3.0)] == [False]  # scaled by gradients


def test_over_the_air():
    server, with_users = over_the_air(colluding=2)
    every = wireless.Round(N, 0.9, clip=0.1, noise_variance=0.5, receiver_noise=1.0)
    for entry, size in ((server, N), (with_users, N - 2)):
        exact = wireless.rigorous_epsilon(every._replace(num_users=size), DELTA, rounds=ROUNDS)
        assert worst(entry.proved) == pytest.approx(exact, rel=1e-5)
    prime = 2 * np.exp(-2 * (0.9 * N) ** 2 / N) + 1e-5
    each = [of(every, 1e-5, prime) for of in (wireless.central_epsilon, wireless.central_delta)]
    assert with_users.claimed.epsilon is None and "a server that is alone" in with_users.claimed.why
    claimed = wireless.compose_heterogeneous(np.full(ROUNDS, each[0]), each[1], DELTA)
    assert (worst(server.claimed), server.claimed.delta) == pytest.approx((claimed.epsilon, claimed.delta), rel=1e-5)


def test_power_that_scales_noise_by_gradients_has_no_guarantee():
    (entry,) = over_the_air(snr_db=3.0)
    assert entry.proved.epsilon is None and "eq. 26" in entry.proved.why
    (bound,) = over_the_air(snr_db=-3.0, power_control="bound")
    (full,) = over_the_air(snr_db=20.0, power_control="signal")
    assert worst(bound.proved) > worst(full.proved) == pytest.approx(worst(over_the_air()[0].proved))


def test_orthogonal_links_are_seen_one_by_one():
    (entry,) = over_the_air(access="orthogonal")
    seen = wireless.known_set_epsilon(wireless.Round(1, 0.9, 0.1, 0.5, 1.0), DELTA, rounds=ROUNDS)
    assert worst(entry.proved) == pytest.approx(seen, rel=1e-5) and entry.claimed.epsilon is None
    assert worst(over_the_air()[0].proved) < worst(entry.proved)


USERS, BY_ROUND = np.array([0.2, 0.9, 0.4, 0.6, 0.3, 0.5]), np.array([[0.3], [0.8], [0.5]])


@pytest.mark.parametrize("p", [USERS, BY_ROUND, BY_ROUND * USERS, np.array(0.7)], ids=["user", "round", "both", "one"])
def test_each_user_and_round_has_its_own_probability(p):
    """A user that joins more often loses more, and on its own link it loses as much alone."""
    algorithm = systems.wireless(
        local(num_steps=1), clip=0.1, noise_variance=0.5, receiver_noise=1.0, access="multiple"
    )
    seen = np.float32(np.broadcast_to(p, (ROUNDS, N)))
    run = made().assign(join_probability=(("round", "client"), seen))
    about = wireless.Round(N, seen.astype(np.float64), clip=0.1, noise_variance=0.5, receiver_noise=1.0)
    for entry, size in zip(entries(algorithm, run, colluding=2), (N, N - 2), strict=True):
        part = about._replace(num_users=size, participation=about.participation[:, :size])
        assert worst(entry.proved) == pytest.approx(wireless.rigorous_epsilon(part, DELTA, rounds=ROUNDS), rel=1e-6)
    apart = entries(systems.wireless(local(num_steps=1), clip=0.1, noise_variance=0.5, access="orthogonal"), run)[0]
    most = about._replace(num_users=1, participation=seen.astype(np.float64).max(1, keepdims=True))
    assert worst(apart.proved) == pytest.approx(wireless.known_set_epsilon(most, DELTA, rounds=ROUNDS), rel=1e-6)


def test_links_of_their_own_with_limited_power_have_no_guarantee():
    for control in ("bound", "signal", "gradient"):
        (entry,) = over_the_air(access="orthogonal", snr_db=20.0, power_control=control)
        assert entry.proved.epsilon is None and "power" in entry.proved.why


def test_a_failed_round_on_the_air_is_charged_like_any_other():
    algorithm = systems.wireless(local(num_steps=1), clip=0.1, noise_variance=0.5, participation=0.9)
    run = made(p=0.9)
    failed = run.assign(status=run.status + 1, counted=run.counted & False)
    (whole,), (none,) = entries(algorithm, run), entries(algorithm, failed)
    assert worst(whole.proved) == worst(none.proved) > worst(entries(algorithm, run.isel(round=[0]))[0].proved) > 0
    assert worst(whole.claimed) == worst(none.claimed)


def test_a_probability_that_is_none_has_no_figure():
    (entry,) = entries(systems.wireless(local(num_steps=1)), made(p=np.nan))
    assert entry.claimed.epsilon is None is entry.proved.epsilon and "outside [0, 1]" in entry.proved.why


def test_rare_participation_has_no_theorem():
    (entry,) = over_the_air(participation=0.1)
    assert entry.claimed.epsilon is None and "does not exist" in entry.claimed.why and worst(entry.proved) > 0


def test_systems_without_noise_have_no_number():
    training, d = local(num_steps=1), 8
    secagg = systems.secagg(training, num_clients=N)
    plain, masked = entries(systems.fedavg(training)), entries(secagg)
    sparse = entries(systems.sparse_secagg(training, num_clients=N, alpha=0.5))
    (fewer,) = entries(secagg, made(lost=1), colluding=3)
    assert f"rounds of {N} clients, {N - 3 - 1} or more neither lost nor colluding" in fewer.note
    buffers = {"num_params": d, "k": 2 * N, "alpha": 0.4, "buffer_size": 2, "aggregate": mean()}
    found = entries(systems.fedrep(training, num_clients=N, **buffers))
    for entry in (*plain, *masked, *sparse, found[1]):
        assert entry.claimed.epsilon is None is entry.proved.epsilon and "no noise" in entry.proved.why
    assert f"{N} or more neither lost nor colluding" in masked[0].note
    assert f"T = {sparse_secagg.aggregated_honest_clients_limit(sparse_secagg.Setting(N, 0.5)):.1f}" in sparse[0].note
    assert worst(found[0].proved) == pytest.approx(fedrep.coordinate_epsilon(d, 2, 0.4))
    assert worst(found[0].claimed) == pytest.approx(fedrep.coordinate_epsilon_printed(d, 2, 0.4))


def test_it_is_shown(capsys):
    show(concentrated())
    shown = capsys.readouterr().out
    assert "Theorem 1" in shown and "eps" in shown


def numbered(*rounds):
    """Some rounds of a run, which together say less of a client than all of them."""
    return made().assign_coords(round=range(1, ROUNDS + 1)).sel(round=list(rounds))


test_bad_arguments = refused(
    ({"delta": 0.0}, r"delta must be a number in \(0, 1\), got 0.0"),
    ({"data": DATA._replace(count=DATA.count[:3])}, "data must hold all clients of the run, 0 to 5, got 3"),
    *(({"lipschitz": c}, "lipschitz must be a finite number >= 0") for c in (-1.0, np.nan)),
    ({"colluding": -1}, "colluding must be an integer >= 0, got -1"),
    ({"colluding": N}, f"colluding must be below the size of the cohort, {N}, got {N}"),
    ({"run": numbered(2, 3)}, "run must have rounds 1 to 2, got 2 from 2 to 3"),
    ({"run": numbered(1, 3)}, "run must have rounds 1 to 2, got 2 from 1 to 3"),
    by=lambda how: ledger(systems.fedavg(local(num_steps=1)), **{"run": made(), "data": DATA, "delta": DELTA, **how}),
)


STEP = local_sgd(lambda params, examples: examples, learning_rate=0.1, batch_size=1, num_steps=1)


@pytest.mark.parametrize(
    ("algorithm", "run", "message"),
    [
        (xr.Dataset(), None, r"algorithm must be an Algorithm, such as systems.dp_fedavg\(...\), got Dataset"),
        (systems.fedavg(STEP), STEP, r"run must be a Dataset, such as simulate\(...\), got Local"),
    ],
)
def test_arguments_in_another_order_are_refused(algorithm, run, message):
    for asked in (ledger, epsilon_by_round):
        with pytest.raises(ValueError, match=f"^{message}$"):
            inspect.unwrap(asked)(algorithm, run, None, delta=1e-5)  # pyright: ignore[reportArgumentType]


def test_a_run_is_not_shown_as_a_ledger():
    with pytest.raises(ValueError, match=r"^entries must be those of ledger\(...\), got Dataset$"):
        inspect.unwrap(show)(xr.Dataset({"loss": 1.0}))  # pyright: ignore[reportArgumentType]
