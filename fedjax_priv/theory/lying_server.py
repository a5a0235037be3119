"""What a server can open that tells clients different lists of survivors (the attacks of Bonawitz et al. 2017, sec. 6).

N users share their keys and seeds with threshold t; c of them collude and give the server all their shares. A client
opens one share of each user, of its seed if it is on the client's list and else of its key, and refuses lists of fewer
than t users.
"""

from fedjax_priv.theory import _validate


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
    """Over how few honest users can it read a sum, if clients open nothing but for a list that t users signed?

    One list of t users with all colluders among them; one user, if two lists can be signed.

    Examples:
      >>> smallest_checked_sum(30, 21, colluding=2), smallest_sum(30, 21, colluding=2)
      (19, 15)
    """
    return 1 if opens_both(num_clients, threshold, colluding) else threshold - colluding


def _check(num_clients: int, threshold: int, colluding: int) -> None:
    """Raises ValueError unless 0 <= c < t <= N."""
    _validate.integer(num_clients=num_clients)
    _validate.integer(threshold=threshold)
    _validate.integer(at_least=0, colluding=colluding)
    if not colluding < threshold <= num_clients:
        raise ValueError(f"threshold must be in ({colluding}, {num_clients}], got {threshold}")
