"""What several sums of one model tell together: against the rank of all sums, and read from a run."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.sparse.csgraph import connected_components

from fedjax_priv import simulate
from fedjax_priv.base import ClientData
from fedjax_priv.clients import buffered
from fedjax_priv.layers.secure_sum import bound_masks
from fedjax_priv.ledger import ledger
from fedjax_priv.ledger.sums_of_one_model import NOTE, sums_of_one_model
from fedjax_priv.runs.failures import EveryRoundFailed
from fedjax_priv.status import Status
from fedjax_priv.systems import thresholded_secagg
from helpers import targets, towards_target

N, ROUNDS, SIZE = 5, 6, 2
FAILED = int(Status.FIELD_OVERFLOW)


@functools.cache
def drawn():
    """Clients and staleness `[seeds, rounds, 2]` of asynchronous rounds with slots, and of rounds of everybody."""

    def run(draw, key):
        def one(jobs, t):
            who, jobs = draw.apply(jax.random.fold_in(key, t), jobs, t, jnp.ones(N, jnp.int32))
            return jobs, (who.client, who.staleness)

        return jax.lax.scan(one, draw.init(key, N), jnp.arange(ROUNDS))[1]

    draws = buffered(SIZE, 3, max_staleness=9), buffered(SIZE, max_staleness=9)
    runs = [jax.jit(jax.vmap(functools.partial(run, draw)))(jax.random.split(jax.random.key(0), 60)) for draw in draws]
    return [np.concatenate(parts) for parts in zip(*runs, strict=True)]


def tells_more(rows):
    """Whether sums `[k, unknowns]` tell more than one sum over each set of unknowns that sums connect."""
    meets = (rows != 0).astype(int)
    label = connected_components(meets @ meets.T, directed=False)[0] if len(rows) else 0
    return np.linalg.matrix_rank(rows) > label if len(rows) else False


def test_updates_of_stale_models_are_unknowns_of_these_and_their_factors_differ():
    """An unknown is a client and the bits of a model. The ledger notes all that tell more, and no others."""
    noted = 0
    for seed, (client, staleness) in enumerate(zip(*drawn(), strict=True)):
        status = np.random.default_rng(seed).choice([0, FAILED], ROUNDS, p=[0.7, 0.3])
        model, unknown, rows = 0, {}, np.zeros((ROUNDS, N * ROUNDS))
        bits = [model := model + (before == 0) for before in [1, *status[:-1]]]
        for t, place in np.ndindex(client.shape):
            old = staleness[t, place]
            about = int(client[t, place]), bits[t - old]
            rows[t, unknown.setdefault(about, len(unknown))] = 64 / np.sqrt(1 + old) + np.pi * t * (old > 0)
        each = ("round", "client")
        run = xr.Dataset({"status": ("round", status), "client_id": (each, client), "staleness": (each, staleness)})
        came = np.zeros((ROUNDS, N))
        came[np.arange(ROUNDS)[:, None], client] = 1
        note = sums_of_one_model(run, came, np.ones(ROUNDS, bool), changing=False)
        again = (np.count_nonzero(rows, axis=0) > 1).any()
        assert (note == NOTE) == again and (again or not tells_more(rows))
        noted += again
    assert 20 < noted < 100


@pytest.mark.parametrize("seed", range(30))
def test_rounds_of_one_model_are_noted_exactly_if_their_sums_tell_more(seed):
    rng = np.random.default_rng(seed)
    came, status = rng.random((4, N)) < rng.choice([0.2, 0.9]), rng.choice([0, 1, FAILED], 4)
    rows, model = np.zeros((4, N * 4)), 0
    for t in range(4):
        opened = status[t] != 1 and came[t].sum() > 1
        rows[t, model * N : (model + 1) * N] = came[t] * opened
        model += status[t] == 0
    run = xr.Dataset({"status": ("round", status)})
    note = sums_of_one_model(run, came, came.sum(1) > 1, changing=False)
    assert (note == NOTE) == tells_more(rows[rows.any(1)])


def test_the_same_clients_choose_other_coordinates_and_single_values_are_read():
    """Every sum that is opened is of three clients or more. Two attempts differ by one client at some coordinates."""
    n, d, attempts = 8, 20, 6
    examples = targets(n, d).examples.at[0, :10].set(-1e7)  # client 0 reports it: rounds fail
    data = ClientData(examples, jnp.ones(n, jnp.int32))
    system = thresholded_secagg(
        towards_target(), num_clients=n, num_params=d, alpha=0.6, threshold=3, committee=4, quorum=3, mesh=None,
        observe=lambda view: {
            "sum": view.rows.value.reshape(-1),
            "sent": bound_masks.sent(view.header["mask"].located, d).reshape(-1).astype(jnp.int32),
        },
    )  # fmt: skip
    with pytest.warns(EveryRoundFailed):
        run = simulate(system, jax.random.key(0), jnp.zeros(d), data, rounds=attempts)
    sent = run["sent"].values.reshape(attempts, n, d)
    number = sent.sum(1)
    share = (number * (number >= 3)).sum(1) / number.sum(1)  # by which the server scales sums up
    total = run["sum"].values * (n * 0.6 * share)[:, None]
    read = [
        (total[one, at] - total[other, at], float(examples[more.argmax(), at]))
        for one, other in itertools.permutations(range(attempts), 2)
        for at in range(10, d)
        if (more := sent[one, :, at] - sent[other, :, at]).min() == 0 and more.sum() == 1
        if number[other, at] >= 3
    ]
    found, true = np.array(read).T
    assert len(read) > 5
    np.testing.assert_allclose(found, -true, rtol=0, atol=2e-3)
    *_, entry = ledger(system, run, data, delta=1e-5)
    assert NOTE in entry.note


def test_models_from_before_the_run_are_others():
    """Two rounds of the same client; the second round's update is of a model that is older than the run."""
    each = ("round", "client")
    noted = []
    for older in (2, 1, 0):
        about = {"client_id": (each, [[0], [0]]), "staleness": (each, [[0], [older]])}
        run = xr.Dataset({"status": ("round", [FAILED, 0]), **about})
        noted.append(sums_of_one_model(run, np.eye(1, 3).repeat(2, 0), np.ones(2, bool), changing=False) == NOTE)
    assert noted == [False, True, True]
