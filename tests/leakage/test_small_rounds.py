"""Every coalition, survivors and answering clients of small rounds: what linear algebra reads is what ledgers say."""

import functools
import itertools

import numpy as np
import pytest
import xarray as xr
from scipy.sparse.csgraph import connected_components

from fedjax_priv.layers.secure_sum.circle import CONNECTED
from fedjax_priv.ledger import ledger
from fedjax_priv.systems import secagg
from helpers import targets, towards_target

N = 4
SUBSETS = [np.isin(np.arange(N), some) for size in range(N + 1) for some in itertools.combinations(range(N), size)]


def joined(neighbours):
    """Who is whose peer, on a circle in order; nobody its own."""
    away = abs(np.subtract.outer(np.arange(N), np.arange(N)))
    return (away > 0) & (np.minimum(away, N - away) <= (neighbours + 1) // 2)


def hidden_by(peers, threshold, colluding, alive, online):
    """The masks that are left on the uploads of honest survivors, `[uploads, masks]`: of each pair, and private ones.

    Survivors that answer open the seeds of survivors and the keys of the lost, if enough of their holders survived.
    Colluders bring shares of both.
    """
    holds = peers | np.eye(N, dtype=bool)
    answers = online & ((holds & alive).sum(1) >= threshold)
    opened, told = ((holds & who[:, None]).sum(0) for who in (answers | colluding, colluding))
    seed_known = np.where(alive, opened, told) >= threshold
    key_known = (np.where(alive, told, opened) >= threshold) | colluding
    pairs = [(i, j) for i, j in np.argwhere(np.triu(peers)) if not key_known[i] and not key_known[j]]
    masks = np.zeros((N, N + len(pairs)))
    masks[np.arange(N), np.arange(N)] = ~seed_known
    for place, (i, j) in enumerate(pairs):
        masks[i, N + place], masks[j, N + place] = 1, -1
    return masks[alive & ~colluding]


def reads(masks):
    """Whether an upload is read alone, and how many sums are."""
    return (~masks.any(1)).any(), len(masks) - np.linalg.matrix_rank(masks)


@functools.cache
def note_of(neighbours, threshold, came, colluding):
    masks = {} if neighbours == N - 1 else {"neighbours": neighbours}
    system = secagg(towards_target(), num_clients=N, threshold=threshold, **masks)
    sent, each = (np.arange(N) < came)[None], ("round", "client")
    variables = {
        "client_id": (each, np.arange(N)[None]), "counted": (each, sent),
        "up_bytes": (("phase", *each), sent[None] * 64.0),
    }  # fmt: skip
    run = xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": 3})
    *_, entry = ledger(system, run, targets(N, 3), delta=1e-5, colluding=colluding)
    return entry.note


@pytest.mark.parametrize(("neighbours", "threshold"), [(3, 2), (3, 3), (3, 4), (2, 2), (2, 3)])
def test_what_a_coalition_reads_is_what_the_ledger_says(neighbours, threshold):
    """With neighbours the graph of honest survivors must be connected, as the ledger says."""
    peers, ever_read, seen_hidden = joined(neighbours), set(), 0
    for colluding, alive in itertools.product(SUBSETS, SUBSETS):
        honest = alive & ~colluding
        if not honest.any():
            continue
        about = int(alive.sum()), int(colluding.sum())
        note = note_of(neighbours, threshold, *about)
        for online in SUBSETS:
            if (online & ~alive).any():
                continue
            alone, sums = reads(hidden_by(peers, threshold, colluding, alive, online))
            ever_read |= {about} if alone else set()
            connected = connected_components(peers[np.ix_(honest, honest)])[0] == 1
            if note.startswith("sums") and (CONNECTED not in note or connected):
                assert not alone and sums <= 1
                seen_hidden += 1
            assert not note.startswith("no sum") or sums == 0
    assert seen_hidden > 0 or threshold == N
    for about in itertools.product(range(1, N + 1), range(N)) if neighbours == N - 1 else ():
        assert about in ever_read or not note_of(neighbours, threshold, *about).startswith("single")


def test_a_client_is_read_by_all_its_neighbours_though_they_are_fewer_than_the_threshold():
    everybody = np.ones(N, bool)
    colluding = np.isin(np.arange(N), (0, 2))
    assert reads(hidden_by(joined(2), 3, colluding, everybody, everybody))[0]
    assert note_of(2, 3, N, 2).endswith("one is open, at least in part, to 2 colluders among its sender's neighbours")
    assert "3 colluders" not in note_of(2, 3, N, 1) and CONNECTED in note_of(2, 3, N, 1)
