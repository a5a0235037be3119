"""Every rule from its definition, in float64 NumPy, on the rows present `[m, d]`, and the laws it keeps."""

import itertools
import math
import typing

import numpy as np
from scipy import optimize

from fedjax_priv import aggregators

F = 2
"""Byzantine rows in the cases below."""


def trimmed(x, f):
    return np.sort(x, 0)[f : len(x) - f].mean(0)


def weiszfeld(x, steps=5, nu=1e-5, start="mean"):
    v = x.mean(0) if start == "mean" else np.zeros(x.shape[1])
    for _ in range(steps):
        a = np.array([1 / max(nu, np.linalg.norm(row - v)) for row in x])
        v = (a[:, None] * x).sum(0) / a.sum()
    return v


def geometric_median(x, nu=0.0):
    """The least of the sum of Huber's function of the distances, by a general solver, in units of the spread."""
    centre = np.median(x, 0)
    unit = np.median(np.linalg.norm(x - centre, axis=1))
    if unit == 0:
        return centre
    x, nu = (x - centre) / unit, max(nu / unit, 1e-12)

    def total(v):
        r = np.linalg.norm(x - v, axis=1)
        value = np.where(r >= nu, r, r**2 / (2 * nu) + nu / 2).sum()
        return value, ((v - x) / np.maximum(r, nu)[:, None]).sum(0)

    solved = optimize.minimize(total, 0 * centre, jac=True, method="BFGS", options={"gtol": 1e-9})
    at_row = min(x, key=lambda row: total(row)[0])
    return centre + unit * (solved.x if solved.fun < total(at_row)[0] else at_row)


def krum_scores(x, counted):
    return np.array([sum(sorted(((x - row) ** 2).sum(1))[1 : counted + 1]) for row in x])


def krum(x, f=F, excess=2):
    return x[np.argmin(krum_scores(x, len(x) - f - excess))]


def multi_krum(x, f=F, excess=2, selected=None):
    best = np.argsort(krum_scores(x, len(x) - f - excess), kind="stable")
    return x[best[: selected or len(x) - f]].mean(0)


def centered_clipping(x, radius=0.5, steps=5, start=0.0):
    v = np.zeros(x.shape[1]) + start
    for _ in range(steps):
        v = v + np.mean([(row - v) * min(1, radius / max(np.linalg.norm(row - v), 1e-300)) for row in x], axis=0)
    return v


def mda(x, f=F):
    def diameter(subset):
        return max((np.linalg.norm(x[i] - x[j]) for i, j in itertools.combinations(subset, 2)), default=0.0)

    return x[list(min(itertools.combinations(range(len(x)), len(x) - f), key=diameter))].mean(0)


def monna(x, f=F):
    return x[np.argsort(((x - x[0]) ** 2).sum(1), kind="stable")[: len(x) - f]].mean(0)


def meamed(x, f=F):
    nearest = np.argsort(np.abs(x - np.median(x, 0)), 0, kind="stable")[: len(x) - f]
    return np.take_along_axis(x, nearest, 0).mean(0)


def top_pair(x, weights):
    mean = np.average(x, axis=0, weights=weights)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(x.T, aweights=weights, ddof=0)))
    return mean, values[-1], ((x - mean) @ vectors[:, -1]) ** 2


def caf(x, f=F, compared="kept", num_rows=None):
    """Of `num_rows` rows, those beyond `x` not finite."""
    c, least, best = np.ones(len(x)), math.inf, x.mean(0)
    while c.sum() > (num_rows or len(x)) - 2 * f:
        mean, value, tau = top_pair(x, c)
        if value < least:
            least, best = value, mean
        c = c * np.maximum(1 - tau / tau[(c > 0) | (compared == "all")].max(), 0)
    return best


def smea(x, f=F):
    def spread(subset):
        return np.linalg.eigvalsh(np.cov(x[list(subset)].T, ddof=0))[-1]

    return x[list(min(itertools.combinations(range(len(x)), len(x) - f), key=spread))].mean(0)


def norm_trimming(x, fraction=0.25):
    kept = math.ceil((1 - fraction) * len(x) - 1e-9)
    return x[np.argsort(np.linalg.norm(x, axis=1), kind="stable")[:kept]].mean(0)


def filter_l2(x, sigma=1.0, bound=1.0, squared=False, passes=math.inf, block=None):
    if block is not None:
        cuts = range(0, x.shape[1], block)
        return np.concatenate([filter_l2(x[:, i : i + block], sigma, bound, squared, passes) for i in cuts])
    c = np.ones(len(x))
    while True:
        mean, value, tau = top_pair(x, c)
        if (value**2 if squared else value) <= bound * sigma**2 or passes < 1:
            return mean
        lighter = c * np.maximum(1 - tau / tau[c > 0].max(), 0)
        if lighter.sum() < 1e-3 * c.sum():
            return mean
        c, passes = lighter, passes - 1


def bulyan(x, f=1):
    left, picked = list(range(len(x))), []
    while len(picked) < len(x) - 2 * f:
        squares = ((x[left][:, None] - x[left]) ** 2).sum(-1)
        counted = max(len(left) - f - 2, 0)
        picked.append(left.pop(int(np.sort(squares, 1)[:, 1 : counted + 1].sum(1).argmin())))
    return meamed(x[picked], 2 * f)


def dnc(x, f=F):
    centred = x - x.mean(0)
    along = centred @ np.linalg.svd(centred)[2][0]
    return x[np.argsort(along**2, kind="stable")[: len(x) - f]].mean(0)


def mean_shift(points):
    """As scikit-learn's, from every point; the label of each, -1 for none."""
    away = np.linalg.norm(points[:, None] - points, axis=-1)
    reach = 1.0001 * np.sort(away, 1)[:, max(len(points) // 2, 1) - 1].mean()
    centres = points
    for _ in range(301):
        inside = np.linalg.norm(centres[:, None] - points, axis=-1) <= reach
        centres = np.array([points[of].mean(0) for of in inside])
    stays = []
    for i in sorted(range(len(points)), key=lambda i: -inside[i].sum()):
        if all(np.linalg.norm(centres[i] - centres[j]) > reach for j in stays):
            stays.append(i)
    away = np.linalg.norm(points[:, None] - centres[stays], axis=-1)
    nearest = np.argmax(away <= 1.0001 * away.min(1, keepdims=True), 1)
    return np.where(away.min(1) <= reach, nearest, -1)


def sign_guard(x, part=slice(None)):
    length = np.linalg.norm(x, axis=1)
    middle = np.median(length)
    shares = np.stack([(np.sign(x[:, part]) == s).mean(1) for s in (1, 0, -1)], 1)
    label = mean_shift(shares / np.maximum(shares.max(0), 1e-9))
    largest = np.argmax([np.sum(label == i) for i in range(label.max() + 1)])
    kept = (label == largest) & (length >= 0.1 * middle) & (length <= 3 * middle)
    return clipped(x[kept], middle).mean(0) if kept.any() else np.full(x.shape[1], np.nan)


def fltrust(x):
    """The first row is the server's."""
    (reference, *rows), total, trusted = x, np.zeros(x.shape[1]), 0.0
    for row in rows:
        trust = max(0, row @ reference / np.linalg.norm(row) / np.linalg.norm(reference))
        total, trusted = total + trust * np.linalg.norm(reference) / np.linalg.norm(row) * row, trusted + trust
    return total / trusted if trusted else total


def sequential(x, order, radius, size):
    v = np.zeros(x.shape[1])
    for i in range(0, len(x), size):
        v = centered_clipping(x[order[i : i + size]], radius, 1, v)
    return v


def mixed(x, f=F):
    return np.array([x[np.argsort(((x - row) ** 2).sum(1), kind="stable")[: len(x) - f]].mean(0) for row in x])


def clipped(x, radius):
    return x * np.minimum(1, radius / np.linalg.norm(x, axis=1))[:, None]


def arc(x, f=F):
    longest = sorted(np.linalg.norm(x, axis=1))
    return clipped(x, longest[len(x) - 2 * f * (len(x) - f) // len(x) - 1])


def rounding(reference, x):
    """How far a reference moves with the last bit of float32 rows: no rule can be closer to it."""
    rng = np.random.default_rng(0)
    nudged = (x * (1 + 2.0**-23 * rng.choice([-1, 1], x.shape)) for _ in range(4))
    return max(np.abs(reference(other) - reference(x)).max() for other in nudged)


class Rule(typing.NamedTuple):
    """A rule, its reference, and its laws: Translation, Scaling by -4, Permutation, Hull of the honest rows."""

    made: typing.Any
    reference: typing.Callable
    keeps: str
    tolerates: typing.Callable  # of M rows


def half(m):
    return (m - 1) // 2 if m else 0


def at_most_f(m):
    return F if m > 2 * F else -1


def krum_tolerates(m):
    return -1 if m < 5 else 0 if m <= 6 else F


RULES = {
    "mean": Rule(aggregators.mean(), lambda x: x.mean(0), "TSP", lambda m: 0),
    "coordinate_median": Rule(aggregators.coordinate_median(), lambda x: np.median(x, 0), "TSPH", half),
    "coordinate_median, lower": Rule(
        aggregators.coordinate_median("lower"), lambda x: np.sort(x, 0)[(len(x) - 1) // 2], "TPH", half
    ),
    "trimmed_mean": Rule(aggregators.trimmed_mean(F), lambda x: trimmed(x, F), "TSPH", at_most_f),
    "trimmed_mean, fraction": Rule(
        aggregators.trimmed_mean(fraction=7 / 16), lambda x: trimmed(x, 7 * len(x) // 16), "TSPH",
        lambda m: 7 * m // 16,
    ),
    "geometric_median": Rule(aggregators.geometric_median(), geometric_median, "TSPH", half),
    "geometric_median, nu": Rule(
        aggregators.geometric_median(1.5), lambda x: geometric_median(x, 1.5), "TPH", half
    ),
    "weiszfeld": Rule(aggregators.weiszfeld(), weiszfeld, "TPH", half),
    "weiszfeld, nu": Rule(aggregators.weiszfeld(5, 2.5), lambda x: weiszfeld(x, 5, 2.5), "TPH", half),
    "weiszfeld, byzfl": Rule(
        aggregators.weiszfeld(3, 0.1, "zero"), lambda x: weiszfeld(x, 3, 0.1, "zero"), "PH", half
    ),
    "krum": Rule(aggregators.krum(F), krum, "TSPH", krum_tolerates),
    "krum, byzfl": Rule(
        aggregators.krum(F, neighbours="byzfl"), lambda x: krum(x, excess=1), "TSPH", at_most_f
    ),
    "multi_krum": Rule(aggregators.multi_krum(F), multi_krum, "TSPH", krum_tolerates),
    "multi_krum, byzfl": Rule(
        aggregators.multi_krum(F, selected=3, neighbours="byzfl"),
        lambda x: multi_krum(x, excess=1, selected=3), "TSPH", at_most_f,
    ),
    "centered_clipping": Rule(aggregators.centered_clipping(), centered_clipping, "P", half),
    "centered_clipping, zero": Rule(
        aggregators.centered_clipping(1.5, 2, "zero"), lambda x: centered_clipping(x, 1.5, 2), "P", half
    ),
    "mda": Rule(aggregators.mda(F), mda, "TSH", at_most_f),
    "monna": Rule(aggregators.monna(F), monna, "TSH", at_most_f),
    "meamed": Rule(aggregators.meamed(F), meamed, "TSPH", at_most_f),
    "caf": Rule(aggregators.caf(F), caf, "TSPH", at_most_f),
    "caf, byzfl": Rule(
        aggregators.caf(F, compared="all"), lambda x: caf(x, compared="all"), "TSP", lambda m: min(at_most_f(m), 1)
    ),
    "smea": Rule(aggregators.smea(F), smea, "TSPH", at_most_f),
    "norm_trimming": Rule(aggregators.norm_trimming(0.25), norm_trimming, "SPH", lambda m: m // 4),
    "filter_l2": Rule(aggregators.filter_l2(1.0, bound=1.0), filter_l2, "TPH", half),
    "filter_l2, authors": Rule(
        aggregators.filter_l2(0.5, bound=2.0, squared=True, fraction=0.2, block=3),
        lambda x: filter_l2(x, 0.5, 2.0, True, 2 * math.floor(0.2 * len(x)), 3), "TPH", lambda m: m // 5,
    ),
    "bulyan": Rule(aggregators.bulyan(1), bulyan, "TSH", lambda m: -1 if m < 5 else int(m >= 7)),
    "dnc": Rule(aggregators.dnc(F), dnc, "TSPH", at_most_f),
    "sign_guard": Rule(aggregators.sign_guard(1.0), sign_guard, "S", half),
    "fltrust": Rule(aggregators.fltrust(), fltrust, "S", lambda m: max(m - 1, 0)),
    "sequential_centered_clipping": Rule(  # one bucket
        aggregators.sequential_centered_clipping(0.8, size=9), lambda x: centered_clipping(x, 0.8, 1), "P", half
    ),
    "nearest_neighbour_mixing": Rule(
        aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(F), aggregators.coordinate_median()),
        lambda x: np.median(mixed(x), 0), "TSPH", at_most_f,
    ),
    "clipping": Rule(
        aggregators.pre_aggregated(aggregators.clipping(2.0), aggregators.mean()),
        lambda x: clipped(x, 2.0).mean(0), "P", lambda m: 0,
    ),
    "arc": Rule(
        aggregators.pre_aggregated(aggregators.arc(F), aggregators.mean()), lambda x: arc(x).mean(0), "SP",
        lambda m: 0 if m > 2 * F else -1,
    ),
    "arc, mixing": Rule(
        aggregators.pre_aggregated(
            aggregators.arc(F), aggregators.nearest_neighbour_mixing(F), aggregators.trimmed_mean(F)
        ),
        lambda x: trimmed(mixed(arc(x)), F), "SP", at_most_f,
    ),
}  # fmt: skip
COVERED_ELSEWHERE = {
    "one_of",
    "on_coordinates",
    "in_sketch",
    "from_host",
    "PreAggregator",
    "pre_aggregated",
    "bucketing",
}
