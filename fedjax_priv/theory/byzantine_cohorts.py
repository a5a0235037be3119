"""How many Byzantine clients a round has, if rounds draw uniform cohorts from a population."""

import numpy as np
from scipy import stats

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result

_MOST = 2**31  # SciPy does not come to an end with many more clients


def probability_of_more(population: int, num_byzantine: int, cohort_size: int, tolerated: int) -> Result:
    """How often does a round have more Byzantine clients than its rule tolerates?

    The upper tail of the hypergeometric law: cohorts are drawn without replacement.

    Args:
      population: number of all clients, N, from 1 to below 2**31.
      num_byzantine: number of Byzantine clients, F, from 0 to N.
      cohort_size: clients of a round, m, from 1 to N.
      tolerated: f >= 0, Byzantine rows that the rule tolerates.

    Raises:
      ValueError: an argument is not an integer in its range.

    Examples:
      >>> round(float(probability_of_more(100, 10, 20, 4)), 4)
      0.0255
    """
    _check(population, num_byzantine, cohort_size)
    _validate.integer(0, tolerated=tolerated)
    return stats.hypergeom.sf(tolerated, population, num_byzantine, cohort_size)


def tolerated_for(population: int, num_byzantine: int, cohort_size: int, rounds: int, risk: float) -> int:
    """Which f must a rule tolerate? The least f that some round exceeds with probability at most `risk`.

    Args:
      population: N.
      num_byzantine: F.
      cohort_size: m.
      rounds: drawn independently, >= 1.
      risk: in (0, 1).

    Raises:
      ValueError: an argument is out of its range, or a number of clients or rounds is not an integer.

    Examples:
      >>> print(tolerated_for(1000, 100, cohort_size=50, rounds=100, risk=0.01))  # 5 of 50 on average
      14
    """
    _check(population, num_byzantine, cohort_size)
    _validate.integer(rounds=rounds)
    _validate.real("(0, 1)", risk=risk)
    tail = stats.hypergeom.sf(np.arange(cohort_size + 1), population, num_byzantine, cohort_size)
    with np.errstate(divide="ignore"):
        some_round = -np.expm1(rounds * np.log1p(-np.minimum(tail, 1)))
    return int(np.argmax(some_round <= risk))


def _check(population: Numbers, num_byzantine: Numbers, cohort_size: Numbers) -> None:
    if _validate.integer(population=population) >= _MOST:
        _validate.fail("population", population, "an integer below 2**31")
    for at_least, (name, number) in enumerate({"num_byzantine": num_byzantine, "cohort_size": cohort_size}.items()):
        if _validate.integer(at_least, **{name: number}) > population:
            _validate.fail(name, number, f"an integer from {at_least} to population = {population}")
