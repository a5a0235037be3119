"""DP-FedAvg with noise that is correlated over rounds: what an observer of the rounds sees, failures, resuming."""

import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.linalg
import xarray as xr
from refusals import refused

from fedjax_priv import simulate
from fedjax_priv.base import Local
from fedjax_priv.runs.records.run_writer import Keep
from fedjax_priv.server_noise import banded, banded_inverse, buffered, noisy_sum, tree
from fedjax_priv.status import Status
from fedjax_priv.systems import dp_fedavg
from fedjax_priv.theory import correlated_noise as cn
from helpers import engine, rounds_of, targets, towards_target

KEY = jax.random.key(21)
N, D, ROUNDS = 8, 600, 12
CLIP, Z = 0.5, 2.0
DATA = targets(N, D)
BANDS = cn.square_root(4)
SILENT = Local(lambda n, params: (), lambda key, m, params, data, who: (0 * data.examples, m, data.examples[:, 0]))
STILL = optax.stateless(lambda updates, params: jax.tree.map(lambda u: 0.0 * u, updates))
INVERSE = cn.inverse_square_root(3)
NOISES = {
    "banded": (banded(BANDS), BANDS),
    "banded inverse": (
        banded_inverse(cn.inverse_square_root(3)),
        cn.column_of_inverse(cn.inverse_square_root(3), ROUNDS),
    ),
    "buffered": (buffered([0.3, 0.2], [0.95, 0.5]), cn.buffered_column([0.3, 0.2], [0.95, 0.5], ROUNDS)),
}


def made(local=SILENT, **how):
    given = {"num_clients": N, "clip": CLIP, "noise_multiplier": Z, "mesh": None, "server": STILL}
    return dp_fedavg(local, **given | how)


def matrix(column):
    column = np.pad(column[:ROUNDS], (0, ROUNDS - len(column[:ROUNDS])))
    return scipy.linalg.toeplitz(column, np.zeros(ROUNDS))


def whiteness(seeds):
    """The largest distance of the rows' covariance from the identity, in standard errors."""
    return np.abs(seeds @ seeds.T / D - np.eye(len(seeds))).max() * np.sqrt(D)


@pytest.mark.parametrize("name", NOISES)
def test_c_times_what_is_released_is_white(name):
    """At clients that send 0, in cohorts whose clients stay away for 3 rounds; the control multiplies by nothing."""
    noise, column = NOISES[name]
    infos = rounds_of(made(noise=noise, cohort_size=2, separation=4), KEY, jnp.zeros(D), DATA, ROUNDS)[1]
    released = np.asarray(infos.direction, np.float64) * 2 / (Z * CLIP)
    assert not np.asarray(infos.status).any()
    assert whiteness(matrix(column) @ released) < 6 < 9 < whiteness(released)
    client = np.asarray(infos.client)
    assert all(not set(client[t]) & set(client[t + 1 : t + 4].ravel()) for t in range(ROUNDS))


@pytest.mark.parametrize("reduced", [False, True])
def test_sums_of_a_tree_have_the_error_of_its_theory(reduced):
    infos = rounds_of(made(noise=tree(8, variance_reduced=reduced)), KEY, jnp.zeros(D), DATA, ROUNDS)[1]
    sums = np.cumsum(np.asarray(infos.direction, np.float64) * N / (Z * CLIP), 0)
    expected = cn.tree_error(ROUNDS, 8, reduced) ** 2
    assert np.abs(np.square(sums).mean(1) / expected - 1).max() < 5 * np.sqrt(2 / D)


def attempts(factors, make):
    """Directions and status of attempts one after the other, each with a server that multiplies by its own number."""
    step = jax.jit(lambda by, state: make(optax.stateless(lambda u, _: by * u)).step(KEY, state, DATA))
    state, directions, status = make(STILL).init(KEY, jnp.zeros(D), DATA), [], []
    for by in factors:
        state, info = step(by, state)
        directions.append(np.asarray(info.direction))
        status.append(int(info.status))
    return np.array(directions), status


def test_a_failed_round_uses_up_its_row():
    """It shows its direction, as one that succeeds does: the attempt after it has the next row of the same noise."""
    make = lambda server: made(noise=banded(BANDS), server=server)
    failing, status = attempts([0.0, np.nan, 0.0, 0.0], make)
    assert status == [0, Status.NOT_FINITE, 0, 0]
    assert np.array_equal(failing, attempts([0.0] * 4, make)[0])


def test_control_noise_that_stands_still_in_a_failed_round():
    """Its row comes again: the difference of the two attempts is that of two sums, here of zeros, in the clear."""
    noisy = noisy_sum(banded_inverse([1.0, -0.5]), 1.0)

    def forgetful(key, state, received):
        direction, state = noisy.apply(key, state, received)
        return direction, state.counted

    def failed_or_not(rule):
        make = lambda server: engine(local=SILENT, aggregate=rule, server=server)
        return attempts([0.0, np.nan, 0.0], make)[0]

    shown, right = failed_or_not(noisy._replace(apply=forgetful)), failed_or_not(noisy)
    assert np.array_equal(shown[1], shown[2]) and np.array_equal(shown[:2], right[:2])
    assert np.square(right[1] - right[2]).mean() > 1


def run(**how):
    system = made(towards_target(), noise=banded(BANDS), cohort_size=2, separation=4, server=optax.sgd(0.5))
    return simulate(system, KEY, jnp.zeros(D), DATA, rounds=4, progress=False, **how)


def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path):
    stop = lambda record: record["round"] == 2 and os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        run(keep=Keep(tmp_path / "a"), log=stop)
    bare = lambda result: result.drop_attrs().drop_vars("seconds")
    xr.testing.assert_identical(bare(run(keep=Keep(tmp_path / "a", resume=True))), bare(run()))


test_bad_separations = refused(
    ({"sampling_rate": 0.5, "separation": 2}, "noise must have at most separation = 2 bands with sampling_rate, got 4"),
    ({"cohort_size": 4, "separation": 3}, "separation must be at most 2, the rounds that 8 clients last for"),
    ({"sampling_rate": 0.5, "separation": 3}, "num_clients must be a multiple of separation = 3, got 8"),
    by=lambda how: made(noise=banded(BANDS), **how),
)  # fmt: skip
