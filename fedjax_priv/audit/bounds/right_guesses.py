"""Eps from one run with many canaries, each included by its own coin."""

import numpy as np
from scipy import stats

from fedjax_priv import _validate
from fedjax_priv.audit.bounds import curve_guesses
from fedjax_priv.audit.bounds.guessing import checked_scores
from fedjax_priv.audit.bounds.many_runs import LowerBound, check_levels


def one_run(
    scores: np.ndarray,
    included: np.ndarray,
    *,
    guesses: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    gaussian: bool = False,
) -> LowerBound:
    """A lower bound on eps from one run with many canaries, each included by a fair coin.

    The r / 2 canaries with the highest scores are guessed to be in, and the r / 2 with the lowest to be out. At least v
    of these r guesses about m canaries are right with probability at most `P[Bin(r, e^eps / (1 + e^eps)) >= v]` plus a
    term in `m delta` (Steinke, Nasr, Jagielski 2023, Thm. 5.2).

    The bound is on eps of two inputs that differ in one coin. If a canary that is out sends nothing, this is eps of
    adding or removing it; if it sends the opposite, as in `client_crowd`, this is eps of replacing it.

    Args:
      scores: `[m]`, higher where a canary seems to be in.
      included: bool `[m]`, the coins.
      guesses: r, an even number up to m, chosen before the scores are seen.
      delta: in [0, 1); above 0 if `gaussian`, since a Gaussian mechanism has infinite eps at 0.
      confidence: of the bound, in (0, 1).
      gaussian: whether the mechanism is a Gaussian one without sampling. The bound then uses the whole trade-off curve
        (Mahloujifar, Melis, Chaudhuri 2024), is larger, and holds for no other mechanism.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> rng = np.random.default_rng(0)
      >>> included = rng.random(1000) < 0.5
      >>> bound = one_run(2 * included + rng.normal(size=1000), included, guesses=100)
      >>> print(round(float(bound.epsilon), 1))
      3.5
    """
    check_levels(delta, confidence, gaussian)
    _validate.integer(at_least=2, guesses=guesses)
    values, coins = checked_scores(1, scores=scores), np.asarray(included)
    if coins.dtype != bool or coins.shape != values.shape:
        raise ValueError(f"included must be a bool array of shape {values.shape}, got {coins.dtype} {coins.shape}")
    if guesses % 2 or guesses > values.size:
        raise ValueError(f"guesses must be an even number up to {values.size}, got {guesses}")
    order = np.argsort(values, kind="stable")
    half = guesses // 2
    right = int(coins[order[-half:]].sum() + (~coins[order[:half]]).sum())
    bound = curve_guesses.gaussian_epsilon if gaussian else _steinke
    epsilon, limit = (bound(found, guesses, values.size, delta, confidence) for found in (right, guesses))
    return LowerBound(epsilon, delta, confidence, f"{right} of {guesses} guesses right", limit)


def one_run_p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of at least `right` right guesses under (eps, delta) (Steinke, Nasr, Jagielski 2023).

    Args:
      right: v, at most `guesses`.
      guesses: r, at most `canaries`.
      canaries: m, each included by a fair coin.
      epsilon: >= 0.
      delta: in [0, 1].

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> print(f"{one_run_p_value(right=95, guesses=100, canaries=1000, epsilon=1.0, delta=0.0):.1e}")
      1.5e-08
    """
    _validate.integer(at_least=0, right=right, guesses=guesses, canaries=canaries)
    if not right <= guesses <= canaries:
        raise ValueError(f"right <= guesses <= canaries must hold, got {right}, {guesses}, {canaries}")
    _validate.non_negative(epsilon=epsilon)
    _validate.fraction(delta=delta)
    return _p_value(right, guesses, canaries, epsilon, delta)


def _p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    chance = 1 / (1 + np.exp(-epsilon))
    mass = np.cumsum(stats.binom.pmf(right - np.arange(1, right + 1), guesses, chance))
    most = float(np.max(mass / np.arange(1, right + 1), initial=0.0))
    return min(1.0, float(stats.binom.sf(right - 1, guesses, chance)) + 2 * canaries * delta * most)


def _steinke(right: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    tried = np.linspace(0, 20, 20_001)
    fits = lambda eps: _p_value(right, guesses, canaries, eps, delta) > 1 - confidence
    low, high = 0, tried.size - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(tried[middle]) else (middle + 1, high)
    return float(tried[max(low - 1, 0)])
