"""FedBuff: against a loop over its rounds, synchronous rounds, other rings, resumed runs, and its privacy."""

import functools
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from fedjax_priv import Keep, simulate
from fedjax_priv.clients import buffered, everyone
from fedjax_priv.layers import average, discounted_mean, plain, plain_field, plain_ring, stack
from fedjax_priv.ledger import epsilon_by_round, ledger, worst
from fedjax_priv.server_noise.sum_with_noise import FLOAT32_CAVEAT
from fedjax_priv.status import Status
from fedjax_priv.systems import fedbuff
from fedjax_priv.theory import gaussian
from helpers import Q, engine, refuses, remembering, rounds_of, same_bits, targets

KEY, N, D, K, M, ROUNDS = jax.random.key(9), 12, 8, 3, 9, 12
DATA = targets(N, D)
FIELD = plain_field()


def system_of(**how):
    usual = dict(num_clients=N, buffer_size=K, concurrency=M, block=2, mesh=None)
    return fedbuff(how.pop("local", remembering()), **{**usual, **how})


@functools.cache
def run(**how):
    return jax.device_get(rounds_of(system_of(**how), KEY, jnp.zeros(D), DATA, ROUNDS))


@pytest.mark.parametrize("how", [{}, {"normalize": "weights", "staleness_power": 1.0}], ids=["buffer", "weights"])
def test_against_a_loop(how):
    """Who came and how late is the run's; the rest is computed again, in float64."""
    states, infos = run(**how)
    power = how.get("staleness_power", 0.5)
    x, history = np.asarray(DATA.examples, float), [np.zeros(D)]
    for round, (who, late) in enumerate(zip(infos.client, infos.measured["staleness"], strict=True)):
        weight = (1.0 + late) ** -power
        update = np.array([history[round - tau] - x[i] for i, tau in zip(who, late, strict=True)])
        total = weight.sum() if how else K
        history.append(history[-1] - weight @ update / total)
    np.testing.assert_allclose(states.params, history[1:], atol=1e-4)
    assert infos.measured["staleness"].max() > 2


def test_every_flush_has_k_arrivals_and_a_time():
    states, infos = run()
    assert infos.counted.all() and infos.counted.size == K * ROUNDS
    assert states.memory[-1].sum() == K * ROUNDS
    time = infos.measured["virtual_time"]
    assert (time == time[:, :1]).all() and (np.diff(time[:, 0]) > 0).all()


def test_who_is_too_late_for_the_ring_is_left_out():
    """A ring of 15 models keeps everybody; one of 3 leaves out who is late."""
    states, infos = run()
    assert states.versions.shape[1] == 15
    short, late = run(max_staleness=2)
    assert (late.measured["staleness"] == infos.measured["staleness"]).all()
    assert (late.counted == (late.measured["staleness"] <= 2)).all()
    assert (late.counted == ~late.measured["too_stale"]).all() and not late.counted.all()
    assert not (late.bits["upload"].up[~late.counted] > 0).any()
    assert not same_bits(short.params, states.params)


def test_everyone_in_one_buffer_is_a_synchronous_round():
    states, infos = run(buffer_size=N, concurrency=None)
    mean = engine(cohort=everyone(), local=remembering(), layers=stack(average=average(), send=plain()))
    same, _ = rounds_of(mean, KEY, jnp.zeros(D), DATA, ROUNDS)
    assert same_bits(states.params, jax.device_get(same.params))
    assert not infos.measured["staleness"].any()
    assert not same_bits(states.params, run()[0].params)


def test_the_order_in_a_buffer_changes_no_bit():
    """A fixed-point sum: the cohort of every round, reversed."""
    draw = buffered(K, M, max_staleness=14)

    def reverse(*args):
        who, state = draw.apply(*args)
        return jax.tree.map(lambda a: a[::-1], who), state

    layers = stack(mean=discounted_mean(total=float(K)), send=plain())
    system = engine(cohort=draw._replace(apply=reverse), local=remembering(), layers=layers)
    states, _ = rounds_of(system, KEY, jnp.zeros(D), DATA, ROUNDS)
    assert same_bits(jax.device_get(states.params), run()[0].params)


def test_a_cohort_is_known_from_a_state_that_was_fetched():
    """NumPy arrays draw what those of JAX draw, in a buffer of everyone too."""
    system = system_of(concurrency=None)
    state = system.init(KEY, jnp.zeros(D), DATA)
    there, fetched = (system.draw(KEY, each.draw, each.round, DATA.count) for each in (state, jax.device_get(state)))
    assert same_bits(fetched, there)


def test_field_elements_add_to_the_same_mean():
    exact, _ = run()
    rounded, _ = run(secure_sum=FIELD)
    np.testing.assert_allclose(rounded.params, exact.params, atol=1e-4)
    assert not same_bits(rounded.params, exact.params)


def test_a_run_goes_on_with_its_jobs_under_way(tmp_path):
    """What a run keeps holds the jobs, their models and the clock: it is the run that nothing stopped."""
    _, whole = run()
    go = lambda **how: simulate(
        system_of(), KEY, jnp.zeros(D), DATA, rounds=ROUNDS, every=6, progress=False, **how,
    )  # fmt: skip
    stop = lambda record: record["round"] == 6 and os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        go(keep=Keep(tmp_path / "run"), log=stop)
    assert not (tmp_path / "run" / "result.nc").exists()
    resumed = go(keep=Keep(tmp_path / "run", resume=True))
    for name in ("staleness", "virtual_time"):
        np.testing.assert_array_equal(resumed[name], whole.measured[name])
    np.testing.assert_array_equal(resumed.client_id, whole.client)
    np.testing.assert_allclose(resumed.loss, whole.loss, rtol=1e-6)
    (device, _, server) = ledger(private(), resumed.drop_vars("mechanism"), DATA, delta=1e-5)
    assert worst(device.proved) and server.proved.epsilon is None


def private(**how):
    return system_of(**{**dict(clip=1.0, noise_multiplier=2.0), **how})


def test_float32_noise_of_the_server_is_a_caveat_and_without_noise_there_is_none():
    assert FLOAT32_CAVEAT in private().caveats and not system_of().caveats


def test_updates_are_clipped_and_noise_is_on_the_sum():
    """Noise of deviation z C / K on the mean; without it the direction is the mean of updates of norm C at most."""
    wide = targets(N, 2000)
    made = lambda z: private(clip=0.1, noise_multiplier=z)
    directions = jax.jit(lambda z: rounds_of(made(z), KEY, jnp.zeros(2000), wide, 2)[1].direction)
    clean, noisy = directions(0.0), directions(2.0)
    length = np.linalg.norm(clean, axis=1)
    assert (length <= 0.1 + 1e-6).all() and length.min() > 0.02
    noise = np.asarray(noisy - clean)[0] / (2.0 * 0.1 / K)
    assert stats.kstest(noise, "norm").pvalue > 1e-3
    assert stats.kstest(noise * 1.5, "norm").pvalue < 1e-6


def of_staleness(late, factor=None):
    """What a ledger reads of a run in which client 0 came every time, and client 1 once."""
    rounds, each = len(late), ("round", "client")
    client = np.array([[0, 1 if round == 0 else 2] for round in range(rounds)])
    drawn = {} if factor is None else {"factor": (each, np.stack([factor, np.full(rounds, 64)], 1))}
    return xr.Dataset(
        {
            "client_id": (each, client), "staleness": (each, np.stack([late, np.zeros(rounds, int)], 1)),
            "up_bytes": (("phase", *each), np.ones((1, rounds, 2))), **drawn,
        },
        {"phase": ["upload"], "round": np.arange(1, rounds + 1)}, {"num_params": D},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("late", "mu", "epsilon", "replacement"),
    [(np.zeros(10, int), 1.5811, 7.5113, 17.8566), (np.arange(10), 0.8557, 3.6580, 8.2645)],
)
def test_figures_of_ten_updates(late, mu, epsilon, replacement):
    """sigma = 2, delta = 1e-5: a stale update costs less; client 1 pays for one."""
    found = ledger(private(), of_staleness(late), DATA, delta=1e-5)
    of_clients = {entry.neighbours: np.asarray(entry.proved.epsilon) for entry in found if entry.view == "device"}
    assert gaussian.epsilon(1e-5, mu) == pytest.approx(epsilon, rel=1e-4)
    assert of_clients["zero-out"][0] == pytest.approx(epsilon, rel=2e-5)
    assert of_clients["replacement"][0] == pytest.approx(replacement, rel=2e-5)
    assert of_clients["zero-out"][1] == pytest.approx(float(gaussian.epsilon(1e-5, 0.5)))
    assert of_clients["zero-out"][5] == 0
    after = epsilon_by_round(private(), of_staleness(late), DATA, delta=1e-5)[0]
    assert after[-1] == pytest.approx(of_clients["zero-out"].max()) and (np.diff(after) > 0).all()


def of_client_0(system, run):
    """Eps by neighbours, and what the entries note."""
    found = [entry for entry in ledger(system, run, DATA, delta=1e-5) if entry.view == "device"]
    return {entry.neighbours: np.asarray(entry.proved.epsilon)[0] for entry in found}, [entry.note for entry in found]


def test_in_a_secure_sum_a_client_pays_by_the_factors_that_were_drawn():
    """Of 64: not by the s(tau) that they are near to; a lost update costs nothing."""
    late, factor = np.arange(10), np.array([64, 46, 36, 32, 29, 26, 24, 23, 21, 21])
    secure = private(secure_sum=FIELD, weight_levels=64)
    run = of_staleness(late, factor)
    epsilon, _ = of_client_0(secure, run)
    mu = np.sqrt((factor / 64.0) ** 2 @ np.ones(10)) / 2
    assert epsilon["zero-out"] == pytest.approx(float(gaussian.epsilon(1e-5, mu)), rel=1e-9)
    assert epsilon["replacement"] == pytest.approx(float(gaussian.epsilon(1e-5, 2 * mu)), rel=1e-9)
    assert epsilon["zero-out"] != pytest.approx(of_client_0(private(), run)[0]["zero-out"], rel=1e-3)
    lost = run.assign(up_bytes=run.up_bytes * (run["round"] > 1))
    less = float(gaussian.epsilon(1e-5, np.sqrt(mu**2 - 1 / 4)))
    assert of_client_0(secure, lost)[0]["zero-out"] == pytest.approx(less, rel=1e-9)


def test_who_stops_after_so_many_jobs_pays_no_more_than_was_promised():
    """Ten fresh updates at most: the figure that all of them would cost, whatever comes of the run."""
    epsilon, (zeros, others) = of_client_0(private(max_jobs=10), of_staleness(np.arange(10)))
    assert zeros == "promised before the run: eps 7.511, of 10 fresh updates" and "eps 17.86, of 10" in others
    assert epsilon["zero-out"] == pytest.approx(3.6580, rel=2e-5)
    assert of_client_0(private(), of_staleness(np.arange(10)))[1] == ["", ""]
    system = private(max_jobs=2, secure_sum=FIELD, weight_levels=8)
    run = simulate(system, KEY, jnp.zeros(D), DATA, rounds=12, every=12, progress=False)
    came = run.up_bytes.sel(phase="upload").values > 0
    assert np.bincount(run.client_id.values[came], minlength=N).tolist() == [2] * N
    assert run.stopped[-1].max() == N and run.unfilled[-1].all() and not run.status.any()
    (device, *_, server) = ledger(system, run, DATA, delta=1e-5)
    most = float(gaussian.epsilon(1e-5, np.sqrt(2) / 2))
    assert np.asarray(device.proved.epsilon).max() <= most and f"eps {most:.4g}, of 2" in device.note
    assert np.asarray(device.proved.epsilon).min() > float(gaussian.epsilon(1e-5, np.sqrt(2) / 8))
    assert "it sees every update" in server.proved.why  # an enclave stands for a sum that is hidden


def test_updates_are_in_the_ball_once_they_are_rounded():
    """In integers, so that a factor f adds at most f C to the sum. The control: clipped alone, they are longer."""
    wide, levels = targets(N, 2000), 2.0**8
    system = system_of(
        clip=0.1, noise_multiplier=1.0, secure_sum=FIELD, weight_levels=8, levels=levels,
        observe=lambda view: view.uploads,
    )  # fmt: skip
    rows = rounds_of(system, KEY, jnp.zeros(2000), wide, 2)[1].observed
    sent = ((np.asarray(rows).astype(np.int64) + Q // 2) % Q - Q // 2).astype(float)
    assert (np.square(sent).sum(-1) <= levels**2).all() and np.square(sent).sum(-1).min() > levels**2 / 2
    clipped = levels * np.asarray(wide.examples) / np.linalg.norm(wide.examples, axis=1, keepdims=True)
    rounded = np.floor(clipped + np.random.default_rng(0).random(clipped.shape))
    assert (np.square(rounded).sum(-1) > levels**2).all()


def test_without_noise_nothing_is_proved():
    (entry,) = ledger(private(noise_multiplier=0.0), of_staleness(np.arange(10)), DATA, delta=1e-5)
    assert entry.proved.epsilon is None and "no noise" in entry.proved.why


@pytest.mark.parametrize(
    ("how", "per_client"),
    [
        ({}, True),
        (dict(secure_sum=plain_field(), weight_levels=8), True),
        (dict(noise_multiplier=1.0, clip=1.0), True),
        (dict(max_jobs=3), True),
        (dict(concurrency=None), False),
    ],
)
def test_a_mean_time_that_is_traced_and_out_of_range_fails_the_round(how, per_client):
    """Also where the server adds noise to whatever comes, and where only the slowest client has no time."""
    data = targets(12, 5)

    @jax.jit
    def status(mean_time):
        one = system_of(mean_time=mean_time, **how)
        return one.step(jax.random.key(0), one.init(jax.random.key(0), jnp.zeros(5), data), data)[1].status

    times = lambda last: jnp.append(jnp.ones(11), last) if per_client else last
    assert int(status(times(1.0))) == Status.OK
    for bad in (-1.0, 0.0, np.inf):
        assert int(status(times(bad))) in (Status.NOT_FINITE, Status.NOT_RECOVERED)


def test_a_loss_that_is_traced_and_out_of_range_fails_a_round_of_noise():
    data = targets(12, 5)

    @jax.jit
    def status(dropout):
        one = system_of(dropout=dropout, noise_multiplier=1.0, clip=1.0)
        return one.step(jax.random.key(0), one.init(jax.random.key(0), jnp.zeros(5), data), data)[1].status

    assert [int(status(chance)) for chance in (0.1, 1.0, -0.1)] == [0, Status.NOT_FINITE, Status.NOT_FINITE]


test_bad_arguments = refuses(
    lambda how: system_of(**how),
    (dict(concurrency=11), "concurrency must be at most 10, as of 12 clients up to 2 are in the buffer, got 11"),
    *[
        (dict(concurrency=some, buffer_size=13), "buffer_size must be at most 12, the number of clients, got 13")
        for some in (None, 1)
    ],
    (dict(staleness_power=-1.0), "staleness_power must be a finite number >= 0, got -1.0"),
    (dict(noise_multiplier=1.0), "clip must be given with noise_multiplier, the unit of the noise, got None"),
    (
        dict(noise_multiplier=1.0, clip=1.0, normalize="weights"),
        "normalize must be 'buffer' with noise_multiplier, got 'weights': weights have no noise",
    ),
    (
        dict(noise_multiplier=1.0, clip=1.0, secure_sum=plain_field()),
        "weight_levels must be given with noise_multiplier and secure_sum: an update that is weighed",
    ),
    (dict(clip=0.0), "clip must be a finite number > 0, got 0.0"),
    (dict(noise_multiplier=-1.0, clip=1.0), "noise_multiplier must be a finite number >= 0, got -1.0"),
    (dict(buffer_size=0), "buffer_size must be an integer >= 1, got 0"),
    (dict(secure_sum=plain_ring(16)), "secure_sum must add modulo q = 4294967291, .* got one that adds modulo 65536"),
    (dict(weight_levels=8), "weight_levels must not be given without secure_sum, got 8"),
    (dict(max_jobs=0), "max_jobs must be an integer >= 1, got 0"),
    (
        dict(noise_multiplier=1.0, clip=9.0, secure_sum=FIELD, weight_levels=64, levels=2.0**24),
        "levels must be below 1.11848e\\+07, so that no sum of 3 weighed updates wraps, got 1.67772e\\+07",
    ),
    (dict(max_staleness=-1), "max_staleness must be an integer >= 0, got -1"),
    (dict(leave=0.5), "leave must be 0 with secure_sum=None, got 0.5: nobody is asked for shares"),
    (dict(mean_time=np.append(np.ones(11), -1.0)), r"mean_time must be a finite number > 0, got "),
    (dict(mean_time=np.nan), r"mean_time must be a finite number > 0, got nan"),
    (dict(mean_time=np.ones(11)), r"mean_time must be a number, or one per client; shape \(\) or \(12,\), got \(11,\)"),
    (dict(leave=0.5, secure_sum=FIELD), "leave must be 0 with a secure_sum in the clear, such as .*, got 0.5: nobody"),
)
