"""What a server can open by telling clients different lists of survivors (the attacks of Bonawitz et al. 2017, sec. 6).

N users share their keys and seeds with threshold t; c of them collude and give the server all their shares. A client
opens one share for each user: of the user's seed if the user is on the client's list, else of the user's key. A client
refuses a list of fewer than t users.
"""

import numpy as np

from fedjax_priv.theory import _validate

_MOST_CLIENTS, _MOST_ATTEMPTS, _MOST_TERMS = 10_000, 10**6, 1e11  # more takes minutes, or more memory than there is


def opens_both(num_clients: int, threshold: int, colluding: int = 0) -> bool:
    """Can the server get both secrets of one user, and so read its update alone?

    It needs two disjoint sets of t - c honest users: possible if 2 t <= N + c.

    Examples:
      >>> opens_both(30, 16, colluding=2), opens_both(30, 16, colluding=1)
      (True, False)
    """
    _check(num_clients, threshold, colluding)
    return 2 * threshold <= num_clients + colluding


def smallest_sum(num_clients: int, threshold: int, colluding: int = 0) -> int:
    """Over how few honest users can the server read a sum, if clients do not compare their lists?

    `P = max(1, ceil(h - h (N - t) / (t - c)))` for h = N - c: each honest user outside P is missing from t - c of the h
    lists, and a list lacks at most N - t users.

    Examples:
      >>> smallest_sum(30, 16), smallest_sum(31, 16), smallest_sum(100, 67), smallest_sum(100, 67, colluding=33)
      (4, 2, 51, 2)
    """
    _check(num_clients, threshold, colluding)
    honest = num_clients - colluding
    return max(1, honest - honest * (num_clients - threshold) // (threshold - colluding))


def smallest_checked_sum(num_clients: int, threshold: int, colluding: int = 0) -> int:
    """Over how few honest users can the server read a sum, if clients open shares only for a list that t users signed?

    t - c, with one list of t users that contains all colluders; 1 if two lists can be signed.

    Examples:
      >>> smallest_checked_sum(30, 21, colluding=2), smallest_sum(30, 21, colluding=2)
      (19, 15)
    """
    return 1 if opens_both(num_clients, threshold, colluding) else threshold - colluding


def expected_successes(
    num_clients: int, cohort_size: int, threshold: int, attempts: int, *, loss: float = 0.0, refuse: bool = True
) -> float:
    """How many of `attempts` rounds succeed on average, if clients refuse to train the same model twice?

    In each attempt a cohort is drawn uniformly without replacement. Its clients that have not trained this model take
    part, and each of them is lost with probability `loss`. The attempt succeeds if at least `threshold` clients remain:
    the model changes, and nobody refuses the new one. Otherwise these clients sit out the next attempts too. A Markov
    chain on the number of clients that sit out, exact up to rounding.

    Args:
      num_clients: N, the population, at most 10,000.
      cohort_size: k, drawn in each attempt.
      threshold: t, clients that must remain at the end.
      attempts: rounds that the server tries, at most a million and 1e11 / N^2.
      loss: probability that a client which takes part is lost before the end.
      refuse: False: clients train the same model again.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> [round(expected_successes(30, 10, 8, 20, loss=0.2, refuse=refuse), 2) for refuse in (True, False)]
      [2.31, 13.56]
    """
    _validate.integer(cohort_size=cohort_size)
    _check(cohort_size, threshold, 0)
    _validate.integer(at_least=cohort_size, num_clients=num_clients)
    _validate.whole(at_least=1, at_most=_MOST_CLIENTS, num_clients=num_clients)
    _validate.whole(at_most=int(min(_MOST_ATTEMPTS, _MOST_TERMS / num_clients**2)), attempts=attempts)
    here = 1 - _validate.number("[0, 1]", loss=loss)
    refuse = _validate.flag(refuse=refuse)
    moves, success = _chain(num_clients, cohort_size, threshold, here, refuse)
    state, expected = np.eye(num_clients + 1)[0], 0.0
    for _ in range(attempts):
        expected += float(state @ success)
        state = state @ moves
    return expected


def _chain(n: int, cohort: int, threshold: int, here: float, refuse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Transition matrix `[n + 1, n + 1]` of the number of clients that sit out, and success probabilities `[n + 1]`."""
    from scipy import stats  # slow to import

    taking_part = np.arange(cohort + 1)
    succeeds = stats.binom.sf(threshold - 1, taking_part, here)
    moves, success = np.zeros((n + 1, n + 1)), np.zeros(n + 1)
    for out in range(n + 1):
        fresh = stats.hypergeom.pmf(taking_part, n, n - out, cohort)
        success[out] = fresh @ succeeds
        after = (out + taking_part) * refuse
        np.add.at(moves[out], after[fresh > 0], (fresh * (1 - succeeds))[fresh > 0])
        moves[out, 0] += success[out]
    return moves, success


def _check(num_clients: int, threshold: int, colluding: int) -> None:
    """Raises ValueError unless 0 <= c < t <= N."""
    _validate.integer(num_clients=num_clients)
    _validate.integer(threshold=threshold)
    _validate.integer(at_least=0, colluding=colluding)
    if not colluding < threshold <= num_clients:
        raise ValueError(f"threshold must be in ({colluding}, {num_clients}], got {threshold}")
