"""Eps of a row by three accountants, for a sample that is in the data or not, at delta = 1e-5.

What was printed up to 2021 is Renyi DP with the classic conversion, `min_a rdp(a) + log(1/delta) / (a - 1)`. The tight
conversion of Canonne, Kamath and Steinke 2020 is today's, and privacy-loss distributions, which are this package's, are
exact to four digits.
"""

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant

from experiments.private_training.printed import DELTA, POPULATION, Row
from fedjax_priv.theory.sampled_gaussian import Round, epsilon

CLASSIC, TIGHT, OURS = "RDP, classic conversion", "RDP, tight conversion", "ours"
ORDERS = (*np.round(np.arange(1.1, 11, 0.1), 1), *range(12, 64))
"""Those of Opacus and TensorFlow Privacy."""


def epsilons(row: Row) -> dict[str, float]:
    """Of a printed row, by accountant."""
    rate = row.batch / POPULATION
    accountant = RdpAccountant(list(ORDERS))
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(row.noise_multiplier)), row.steps)
    if row.statistics:
        accountant.compose(GaussianDpEvent(row.statistics), 2)
    # dp-accounting has the orders and their RDP in private fields only
    orders, rdp = np.asarray(accountant._orders), np.asarray(accountant._rdp)
    return {
        CLASSIC: float((rdp + np.log(1 / DELTA) / (orders - 1)).min()),
        TIGHT: float(accountant.get_epsilon(DELTA)),
        OURS: ours(row, POPULATION),
    }


def ours(row: Row, population: int) -> float:
    """By privacy-loss distributions, of so many samples."""
    rounds = [(Round(row.noise_multiplier, row.batch / population), row.steps)]
    return float(epsilon(DELTA, rounds + ([(Round(row.statistics), 2)] if row.statistics else [])))
