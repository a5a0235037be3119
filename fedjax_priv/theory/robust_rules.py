"""Certificates of aggregation rules: kappa of (f, kappa)-robustness (Allouah et al. 2023, Definition 2).

A rule F of n rows is (f, kappa)-robust if for all rows and every set S of n - f of them
`||F(x) - mean_S||^2 <= kappa / (n - f) sum_S ||x_i - mean_S||^2`. All functions take f < n/2 and broadcast over arrays.
Values are upper bounds unless stated to be exact; no rule has a smaller kappa than `least_kappa`.
"""

from typing import Literal

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


def least_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`f / (n - 2f)`: no rule has a smaller kappa (Allouah et al. 2023).

    Args:
      num_rows: n.
      num_byzantine: f, at least 0 and below n/2.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(least_kappa(10, np.array([0, 1, 4])))
      [0.    0.125 2.   ]
    """
    n, f = _checked(num_rows, num_byzantine)
    return f / (n - 2 * f)


def trimmed_mean_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`f / (n - 2f)`, exact in any dimension: no rule is better. Arguments and errors are those of `least_kappa`.

    The worst Byzantine values are beyond all others. Then the error is a fixed linear combination c of honest order
    statistics. kappa is (n - f) times the squared norm of the projection of c on increasing sequences.

    Examples:
      >>> print(trimmed_mean_kappa(10, 2).round(3))
      0.333
    """
    return least_kappa(num_rows, num_byzantine)


def coordinate_median_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`(n - 1) / (n + 1 - 2f)` for odd n and `(n - 2) / (n + 2 - 2f)` for even n, exact in any dimension.

    The median of an even number of values is the mean of the two in the middle; with the lower of them, as of
    `coordinate_median("lower")`, it is `n / (n - 2f)`. Arguments and errors are those of `least_kappa`; the proof is
    that of `trimmed_mean_kappa`.

    Examples:
      >>> print(coordinate_median_kappa(10, 2))
      1.0
    """
    n, f = _checked(num_rows, num_byzantine)
    odd = n % 2
    return (n - 2 + odd) / (n + 2 - odd - 2 * f)


def geometric_median_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`(n - 1) / (n + 1 - 2f)` for odd n and `n / (n - 2f)` for even n, exact in any dimension for nu = 0.

    For even n some rows have many geometric medians; this is of the worst. With `k = ceil((n - 2f) / 2)` it is
    `(n - f - k) / k`, reached by k honest rows at one point, the others at another and Byzantine ones beyond the first.

    Proof: unit vectors to the median v from all rows add up to 0, so those from honest rows add up to f or less along
    v - c, for any point c. One is at least `sqrt(1 - t)` long there if the row is `sqrt(t) ||v - c||` from c, and never
    less than -1. So `sum_S ||x_i - c||^2 >= k ||v - c||^2`. Take c beyond the honest mean, seen from v, by `k / (n - f
    - k)` of its distance. Allouah et al. 2023 have `4 (1 + f / (n - 2f))^2`. Arguments and errors are those of
    `least_kappa`.

    Examples:
      >>> print(geometric_median_kappa(10, 2).round(3), geometric_median_kappa(11, 2).round(3))
      1.667 1.25
    """
    n, f = _checked(num_rows, num_byzantine)
    at_median = (n - 2 * f + 1) // 2
    return (n - f - at_median) / at_median


Scored = Literal["blanchard", "byzfl"]


def krum_kappa(num_rows: Numbers, num_byzantine: Numbers, neighbours: Scored = "blanchard") -> Result:
    """An upper bound for Krum with n - f - 1 nearest neighbours ("byzfl") or the original n - f - 2 ("blanchard").

    With h = n - f, and a the n - 2f honest rows or more among a row and its neighbours, or n - 2f - 1, it is
    `(sqrt(2 s h / a) + sqrt((h - a) / a))^2`, with s = 1 or `(h - 2) / (h - 1)`. It also holds for multi-Krum with any
    number of rows up to h. It is infinite for n = 2f + 1 and "blanchard": the f - 1 nearest neighbours of a Byzantine
    row are then the other Byzantine rows, so if they are all equal, they score 0 wherever they are.

    Proof: the least score is at most the mean score of honest rows in S, `2 s h` times their variance. So the row is at
    most the first root away from the mean of those a, and that from the mean of S by the second root. Allouah et al.
    2023 have `6 (n - f) / (n - 2f)` for "byzfl".

    Args:
      num_rows: n.
      num_byzantine: f, at least 0 and below n/2.
      neighbours: as in `aggregators.krum`.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(krum_kappa(10, 2, "byzfl").round(3), krum_kappa(10, 2).round(3), krum_kappa(5, 2))
      4.886 5.909 inf
    """
    score, off, known, _, _ = _of_scores(num_rows, num_byzantine, neighbours)
    return np.where(known, (np.sqrt(2 * score) + off) ** 2, np.inf)[()]


def multi_krum_kappa(num_rows: Numbers, num_byzantine: Numbers, neighbours: Scored = "blanchard") -> Result:
    """An upper bound for multi-Krum with n - f rows selected. Arguments and errors are those of `krum_kappa`.

    With h, a and s as there it is `(sqrt(f (f + h) s / a) + f sqrt((h - a) / (a h)) + sqrt(f (h - f) / h))^2 / h`, but
    infinite for n = 2f + 1 and "blanchard".

    Proof: b <= f Byzantine rows take the places of as many honest ones. In S the scores of these add up to at most
    `s (b + h)` times h times the variance, and those of the Byzantine rows to no more. The first two terms are how far
    the Byzantine rows are from the honest mean, and the last one is how far the rows that they replace are.

    Examples:
      >>> print(multi_krum_kappa(10, 2).round(3), multi_krum_kappa(10, 2, "byzfl").round(3))
      1.642 1.495
    """
    score, off, known, h, f = _of_scores(num_rows, num_byzantine, neighbours)
    error = np.sqrt(f * (f + h) * score) + f * off + np.sqrt(f * (h - f))
    return np.where(known, (error / h) ** 2, np.inf)[()]


def _of_scores(num_rows: Numbers, num_byzantine: Numbers, neighbours: str) -> tuple:
    """`s h / a`, the root of `(h - a) / a`, whether there is an a, and h and f."""
    n, f = _checked(num_rows, num_byzantine)
    fewer = _validate.choice({"blanchard": 1, "byzfl": 0}, neighbours=neighbours)
    h, shared = n - f, np.maximum(n - 2 * f - fewer, 1)
    return (1 - fewer / np.maximum(h - 1, 1)) * h / shared, np.sqrt((h - shared) / shared), n > 2 * f + fewer, h, f


def meamed_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`4 f / (n - f) (coordinate_median_kappa + 1)`, an upper bound. Arguments and errors are those of `least_kappa`.

    Each Byzantine value that counts is as near to the median as an honest one that does not, so the error is at most `2
    / (n - f)` times what f honest values or fewer are off the median. It is reached at n = 2f + 1 and n = 2f + 2, if f
    >= 1.

    Examples:
      >>> print(meamed_kappa(10, 2), meamed_kappa(8, 3))
      2.0 6.0
    """
    n, f = _checked(num_rows, num_byzantine)
    return 4 * f / (n - f) * (coordinate_median_kappa(num_rows, num_byzantine) + 1)


def smea_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`4 f / (n - 2f)`, exact in any dimension. Arguments and errors are those of `least_kappa`.

    The chosen rows share n - 2f or more with the honest ones. The mean of a shared part is off the mean of either set
    by at most `sqrt(f / (n - 2f))` times the root of its top eigenvalue, and that of the chosen set is not larger
    (Allouah et al. 2023, "On the privacy-robustness-utility trilemma", have the idea). Attained by n - 2f rows at 0, f
    honest ones at 1 and f others just above -1.

    Examples:
      >>> print(smea_kappa(10, 2).round(3))
      1.333
    """
    return 4 * least_kappa(num_rows, num_byzantine)


def mda_kappa(num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`(2 f^2 + 3 f + f^2 / (n - 2f - 1)) / (n - f)`, or `(5 f^2 + 3 f) / (n - f)` for n = 2f + 1: exact.

    It grows with n at a fixed fraction of Byzantine rows. Arguments and errors are those of `least_kappa`.

    Proof: let D be the honest rows that are left out, b <= f, C the others, and p and q the honest rows that are
    furthest apart, by r. Chosen Byzantine rows are r from each row of C at most, so from any mean of C. So the error is
    at most `b r` plus the distance of the sum of D from b times a mean of C, over n - f. If p is in D and q in C, take
    the mean of C without q; or else, or if q is all of C, that of C. What is left is the norm of a linear map, largest
    if all lies on a line. There it is attained: by honest rows at these coefficients, and Byzantine ones just within r.

    Examples:
      >>> print(mda_kappa(10, 2), round(float(mda_kappa(100, 20)), 2))
      1.85 10.83
    """
    n, f = _checked(num_rows, num_byzantine)
    others = n - 2 * f - 1
    rest = np.where(others > 0, f**2 / np.maximum(others, 1), 3 * f**2)
    return (2 * f**2 + 3 * f + rest) / (n - f)


def mixed_kappa(kappa: Numbers, num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`4 f / (n - f) (kappa + 1)`, an upper bound for a rule after nearest-neighbour mixing.

    With the trimmed mean it is exact, `4 f / (n - 2f)`. Allouah et al. 2023 have `8 f / (n - f) (kappa + 1)`.

    Proof: in the mean of honest row i, Byzantine rows k take the places of as many honest rows j. `(n - f)^2` times its
    squared distance to the honest mean is at most the sum of `||x_k - x_j||^2` over all these k and j. If k takes the
    place of j for i, and of i for j, it is no further from i and from j than they are apart; if only one of these, at
    most twice as far. So each k adds at most 4 times the sum of squared distances over all pairs of honest rows, and
    the mean over i is at most `4 f / (n - f)` times the honest variance.

    Args:
      kappa: of the rule alone, at least 0.
      num_rows: n.
      num_byzantine: f, at least 0 and below n/2.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> alone = krum_kappa(100, 5, "byzfl")
      >>> print(mixed_kappa(alone, 100, 5).round(3), alone.round(3))
      0.811 2.852
    """
    n, f = _checked(num_rows, num_byzantine)
    return 4 * f / (n - f) * (_validate.real("[0, inf)", kappa=kappa) + 1)


def arc_kappa(kappa: Numbers, num_rows: Numbers, num_byzantine: Numbers) -> Result:
    """`kappa + c / (n - f - c)`, an upper bound for a rule after `aggregators.arc`, which clips c rows.

    These are `c = floor(2 f (n - f) / n)`. If clipping c honest rows or fewer moves the honest mean by b, it lowers the
    honest variance by `(n - f - c) / c b^2` or more. The second term is at most `2 f / (n - 2f)`, which Allouah et al.
    2025 have. No such bound holds for clipping to a given norm. Arguments and errors are those of `mixed_kappa`.

    Examples:
      >>> print(round(float(arc_kappa(trimmed_mean_kappa(10, 2), 10, 2)), 3))  # 2.8 times as large
      0.933
    """
    n, f = _checked(num_rows, num_byzantine)
    clipped = 2 * f * (n - f) // n
    return _validate.real("[0, inf)", kappa=kappa) + clipped / (n - f - clipped)


def _checked(num_rows: Numbers, num_byzantine: Numbers) -> tuple[np.ndarray, np.ndarray]:
    n, f = _validate.integer(num_rows=num_rows), _validate.integer(0, num_byzantine=num_byzantine)
    if (2 * f >= n).any():
        _validate.fail("num_byzantine", num_byzantine, "below half of num_rows")
    return n, f
