"""What the runs cost in privacy: as the paper charges it, and as it can be proved; and the noise for an eps."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from experiments.cdp_fl.problem import Setting
from experiments.cdp_fl.training import Plan, rounds_taken
from fedjax_priv.theory import cdp_fl as theory


class Terms(NamedTuple):
    """What the functions of `theory.cdp_fl` take, in their order."""

    rounds_taken: int
    local_steps: int
    clip: float
    num_selected: int
    num_samples: int
    batch_size: int


def terms(setting: Setting, plan: Plan) -> Terms:
    """Of the devices that take part most often."""
    taken = rounds_taken(setting, plan.rounds)
    return Terms(taken, plan.local_steps, setting.clip, setting.num_selected, setting.num_train, plan.batch_size)


def paper(setting: Setting, plan: Plan, sigma: float) -> float:
    """Theorem 1; of DP-SGD, one step a round, the paper's formula with r for n, as its own argument gives."""
    of = terms(setting, plan)
    if plan.local_steps * plan.batch_size == setting.num_train:
        return float(theory.epsilon(*of, sigma, setting.delta))
    charged = theory.dp_sgd_epsilon(
        of.rounds_taken, of.clip, setting.num_devices, of.num_selected, of.batch_size, sigma, setting.delta
    )
    return float(charged.corrected)


def proved(setting: Setting, plan: Plan, sigma: float, adversary: str = "server") -> theory.ProvedEpsilon:
    """The smallest row of the table that applies."""
    rho = theory.proved_rho(*terms(setting, plan), sigma, adversary=adversary, lipschitz=setting.lipschitz)
    return theory.proved_epsilon(rho, setting.delta)


def amplified(setting: Setting, plan: Plan, sigma: float) -> float:
    """Of DP-SGD, whose batches are secret and drawn afresh each round."""
    of = terms(setting, plan)
    return float(
        theory.amplified_epsilon(
            of.rounds_taken, of.clip, of.num_selected, of.num_samples, of.batch_size, sigma, setting.delta
        )
    )


def sigma_for(epsilon: float, of_sigma: Callable[[float], float]) -> float:
    """The noise at which an eps that falls with it has a value."""
    excess = lambda log_sigma: np.log(of_sigma(np.exp(log_sigma)) / epsilon)
    low, high = -3.0, -2.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return float(np.exp(brentq(excess, low, high, xtol=1e-10)))


def describe(setting: Setting, plan: Plan, sigma: float) -> str:
    """Both figures of Algorithm 1, the proved one for each adversary."""
    by = {who: proved(setting, plan, sigma, who) for who in ("server", "device", "everybody")}
    found = ", ".join(f"{who} {one.epsilon:.3g} (row {int(one.row)})" for who, one in by.items())
    return f"sigma = {sigma:.4g}: eps of the paper {paper(setting, plan, sigma):.3g}, proved against {found}"
