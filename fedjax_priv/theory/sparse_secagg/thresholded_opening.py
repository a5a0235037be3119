"""What a server would learn from SparseSecAgg if a coordinate were opened only if enough survivors sent it.

Suimon, Koizumi, Takemasa, Hasegawa, 2025 (arXiv 2508.04285): members of a committee add masks that can be removed from
a coordinate's sum only if at least t survivors contributed, and only all at once. So the server reads only the sum of
all survivors at a coordinate. Colluding survivors subtract their own values; they are assumed to choose coordinates
like everybody else.

The laws are exact: they count the vertices of a random graph that have a neighbour.
"""

import numpy as np
from scipy.special import xlog1py

from fedjax_priv.theory import _validate
from fedjax_priv.theory._binomial import log_choose, pmf
from fedjax_priv.theory.sparse_secagg.selection import Setting, pair_probability, survivors

_MOST_CLIENTS = 2**11
"""The law of more takes minutes."""


def senders(num_clients: int, alpha: float) -> np.ndarray:
    """P[m of N users select a coordinate], m = 0..N: the law of the vertices of G(N, alpha / (N - 1)) with a neighbour.

    Vertices are added one by one. A new vertex is joined to some vertices without a neighbour, or only to others, or to
    none. All terms are positive, so nothing cancels.

    Examples:
      >>> print(senders(3, 1.0))  # no edge, one, or more of three with probability 1/2 each
      [0.125 0.    0.375 0.5  ]
    """
    num_clients = _validate.whole(at_least=2, at_most=_MOST_CLIENTS, num_clients=num_clients)
    edge = float(pair_probability(num_clients, _validate.number("(0, 1]", alpha=alpha)))
    count = np.arange(num_clients + 1)
    some = np.where(count[:, None] > count, _binomials(num_clients, edge)[count[:, None], count[:, None] - count], 0)
    lonely = np.eye(num_clients + 1)[0]  # P[so many have no neighbour yet]
    for others in range(num_clients):
        with_friends = np.maximum(others - count, 0)
        another = np.exp(xlog1py(count, -edge)) * -np.expm1(xlog1py(with_friends, -edge))
        nobody = lonely * np.exp(xlog1py(others, -edge))
        lonely = lonely @ some + lonely * another
        lonely[1:] += nobody[:-1]
    return lonely[::-1]


def opened_fraction(setting: Setting, threshold: int) -> float:
    """Which fraction of the coordinates is opened? P[X >= t] for X survivors that sent one.

    Examples:
      >>> print(round(opened_fraction(Setting(num_clients=100, alpha=0.1, dropout=0.3), threshold=3), 4))
      0.9145
    """
    return float(_arrived(setting)[_threshold(threshold) :].sum())


def kept_fraction(setting: Setting, threshold: int) -> float:
    """Which fraction of the values that survivors send is in an opened sum? q_t = E[X 1{X >= t}] / E[X].

    Sums divided by q_t are unbiased if coordinates are chosen independently of values.

    Examples:
      >>> print(round(kept_fraction(Setting(num_clients=100, alpha=0.1, dropout=0.3), threshold=3), 4))
      0.981
    """
    arrived = _arrived(setting)
    values = arrived * np.arange(len(arrived))
    return float(values[_threshold(threshold) :].sum() / values.sum())


def opened_sum_fraction(setting: Setting, threshold: int, size: int) -> float:
    """Which fraction of the values that honest survivors send is read as a sum of exactly `size` honest ones?

    `E[h 1{h = s, X >= t}] / E[h]` for h honest ones among the X survivors that sent a coordinate; the server and its
    colluders know the rest of the sum.

    Raises:
      ValueError: an argument outside its range, or a number of colluders that is no integer.

    Examples:
      >>> setting = Setting(num_clients=100, alpha=0.1, dropout=0.3, adversarial=0.33)
      >>> print(round(opened_sum_fraction(setting, threshold=3, size=1), 5))  # alone; today every second value
      0.00742
    """
    _, honest = _survivors(setting)
    if not np.isclose(honest, np.round(honest)):
        raise ValueError(f"adversarial must be a multiple of 1 / num_clients, got {setting.adversarial!r}")
    honest, n = round(honest), _validate.whole(num_clients=setting.num_clients)
    arrived, number = _arrived(setting), np.arange(n + 1)
    size = _validate.whole(size=size)
    possible = (number >= size) & (number - size <= n - honest) & (size <= honest)
    of_honest = np.zeros(n + 1)
    of_honest[possible] = _honest(size, honest, number[possible], n) if possible.any() else 0.0
    mean = (arrived * number).sum() * honest / n
    return float(size * (arrived * of_honest)[_threshold(threshold) :].sum() / mean)


def _honest(size: int, honest: int, number: np.ndarray, n: int) -> np.ndarray:
    """P[exactly `size` of so many users are honest]: the hypergeometric law."""
    return np.exp(log_choose(honest, size) + log_choose(n - honest, number - size) - log_choose(n, number))


def _threshold(threshold: int) -> int:
    return _validate.whole(threshold=threshold)


def _arrived(setting: Setting) -> np.ndarray:
    """P[x survivors sent a coordinate], x = 0..N."""
    survival, _ = _survivors(setting)
    sent = senders(_validate.whole(num_clients=setting.num_clients), float(setting.alpha))
    return sent @ _binomials(len(sent) - 1, survival)


def _survivors(setting: Setting) -> tuple[float, float]:
    """As `survivors`; raises ValueError if a field of the setting is an array."""
    for name, value in _validate.setting(Setting, setting=setting)._asdict().items():
        if np.ndim(value):
            _validate.fail(name, value, "one number here, no array")
    survival, honest = survivors(setting)
    return float(survival), float(honest)


def _binomials(most: int, probability: float) -> np.ndarray:
    """P[Bin(j, p) = k] in row j, column k."""
    trials, hits = np.indices((most + 1, most + 1))
    return np.where(hits <= trials, pmf(np.minimum(hits, trials), trials, probability), 0)
