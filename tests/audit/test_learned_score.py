"""A learned score has seen half of the runs; on the others it is as good as it is on new ones, and no better."""

import numpy as np

from fedjax_priv.audit.learned_score import with_learned
from fedjax_priv.audit.worlds import Worlds

RUNS, COLUMNS, REPEATS = 100, 10, 200


def gaps(half):
    """Of the learned column between two worlds of one law, on the runs `half`, in standard deviations."""
    rng, found = np.random.default_rng(0), []
    for _ in range(REPEATS):
        worlds = Worlds(*(rng.normal(size=(RUNS, COLUMNS)) for _ in range(2)))
        first, second = (world[half, -1] for world in with_learned(worlds))
        found.append((first.mean() - second.mean()) / np.concatenate([first, second]).std())
    return np.array(found)


def test_a_learned_score_tells_nothing_where_there_is_nothing():
    """Those that learned it are the control: it seems to tell their worlds apart."""
    counted, learned_from = gaps(slice(1, None, 2)), gaps(slice(0, None, 2))
    error = counted.std(ddof=1) / np.sqrt(REPEATS)
    assert abs(counted.mean()) < 5 * error
    assert learned_from.mean() > 20 * error


def test_noise_that_columns_share_is_taken_out():
    """Neither column tells much alone, and their difference tells all."""
    rng = np.random.default_rng(1)
    shared = 3 * rng.normal(size=(2, RUNS, 1))
    first, second = shared + 0.05 * rng.normal(size=(2, RUNS, 2)) + np.array([[[1.0, 0.0]], [[0.0, 0.0]]])
    found = with_learned(Worlds(first, second))
    assert found.first[1::2, -1].min() > found.second[1::2, -1].max()
    alone = [first[1::2, 0].min() > second[1::2, 0].max(), first[1::2, 1].min() > second[1::2, 1].max()]
    assert not any(alone)
