"""The same results as ByzFL, if it is installed, with its conventions as arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.attacks import alie, foe, infinite, mimic, optimal_alie, optimal_foe

byzfl = pytest.importorskip("byzfl")

N, D, F = 13, 40, 3
KEY = jax.random.key(0)


def trimmed_mean(rows):
    return jnp.sort(rows, axis=0)[F:-F].mean(0)


def average(rows):
    return rows.mean(0)


PAIRS = {
    "SignFlipping": (foe(1.0), lambda: byzfl.SignFlipping()),
    "InnerProductManipulation": (foe(2.0), lambda: byzfl.InnerProductManipulation()),
    "ALittleIsEnough": (alie(1.5, ddof=1, sign=1), lambda: byzfl.ALittleIsEnough()),
    "Mimic": (mimic(4), lambda: byzfl.Mimic(4)),
    "Inf": (infinite(), lambda: byzfl.Inf()),
    "Optimal_InnerProductManipulation, mean": (
        optimal_foe(average),
        lambda: byzfl.Optimal_InnerProductManipulation(byzfl.Average(), [], F),
    ),
    "Optimal_InnerProductManipulation, trimmed mean": (
        optimal_foe(trimmed_mean),
        lambda: byzfl.Optimal_InnerProductManipulation(byzfl.TrMean(F), [], F),
    ),
    "Optimal_InnerProductManipulation, trimmed mean, another search": (
        optimal_foe(trimmed_mean, evals=12, start=0.3, step=1.0, ratio=0.7),
        lambda: byzfl.Optimal_InnerProductManipulation(byzfl.TrMean(F), [], F, 12, 0.3, 1.0, 0.7),
    ),
    "Optimal_ALittleIsEnough, mean": (
        optimal_alie(average, ddof=1, sign=1),
        lambda: byzfl.Optimal_ALittleIsEnough(byzfl.Average(), [], F),
    ),
    "Optimal_ALittleIsEnough, trimmed mean": (
        optimal_alie(trimmed_mean, ddof=1, sign=1),
        lambda: byzfl.Optimal_ALittleIsEnough(byzfl.TrMean(F), [], F),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_to_byzfl(name):
    ours, theirs = PAIRS[name]
    ours, theirs = jax.jit(ours), theirs()
    for seed, byzantine in enumerate(([0, 1, 2], [12, 3, 7])):
        updates = np.random.default_rng(seed).normal(1, 3, size=(N, D)).astype(np.float32)
        honest = ~np.isin(np.arange(N), byzantine)
        rows = ours(KEY, jnp.asarray(updates), jnp.asarray(honest), ~jnp.asarray(honest))
        expected = theirs(updates[honest].astype(np.float64))
        np.testing.assert_allclose(rows[0], expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
