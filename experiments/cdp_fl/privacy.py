"""What the runs cost in privacy: as the paper charges it, and as it can be proved; and the noise for an eps."""

from collections.abc import Callable
from typing import cast

import numpy as np
from scipy.optimize import brentq

from experiments.cdp_fl.problem import Setting
from experiments.cdp_fl.training import Plan, rounds_taken
from fedjax_priv.theory import cdp_fl as theory
from fedjax_priv.theory.cdp_fl.proved import Adversary


def terms(setting: Setting, plan: Plan, sigma: float, *, alone: bool = False) -> theory.Training:
    """Of the devices that take part most often; `alone`: every upload is seen, as without secure aggregation."""
    taken, summed = rounds_taken(setting, plan.rounds), 1 if alone else setting.num_selected
    return theory.Training(taken, plan.local_steps, setting.clip, summed, setting.num_train, plan.batch_size, sigma)


def paper(setting: Setting, plan: Plan, sigma: float, *, alone: bool = False) -> float:
    """Theorem 1; of DP-SGD, one step a round, the paper's formula with r for n, as its own argument gives."""
    if plan.local_steps * plan.batch_size == setting.num_train:
        return float(theory.epsilon(terms(setting, plan, sigma, alone=alone), setting.delta))
    return float(charged_dp_sgd(setting, plan, sigma).corrected)


def charged_dp_sgd(setting: Setting, plan: Plan, sigma: float) -> theory.DpSgdEpsilon:
    """The paper's figures of its baseline."""
    return theory.dp_sgd_epsilon(terms(setting, plan, sigma), setting.num_devices, setting.delta)


def proved(setting: Setting, plan: Plan, sigma: float, *, alone: bool = False) -> float:
    """Against the server; the smallest row of the table that applies."""
    return float(proved_row(setting, plan, sigma, alone=alone).epsilon)


def proved_row(
    setting: Setting, plan: Plan, sigma: float, *, adversary: Adversary = "server", alone: bool = False
) -> theory.ProvedEpsilon:
    """With the row it is from."""
    of = terms(setting, plan, sigma, alone=alone)
    rho = theory.proved_rho(of, adversary=adversary, lipschitz=setting.lipschitz)
    return theory.proved_epsilon(rho, setting.delta)


def amplified(setting: Setting, plan: Plan, sigma: float) -> float:
    """Of DP-SGD, whose batches are secret and drawn afresh each round."""
    return float(theory.amplified_epsilon(terms(setting, plan, sigma), setting.delta))


def sigma_for(epsilon: float, of_sigma: Callable[[float], float]) -> float:
    """The noise at which an eps that falls with it has a value."""
    excess = lambda log_sigma: of_sigma(np.exp(log_sigma)) - epsilon
    low, high = -3.0, -2.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return float(np.exp(cast(float, brentq(excess, low, high, xtol=1e-10))))


def describe(setting: Setting, plan: Plan, sigma: float) -> str:
    """Both figures of Algorithm 1, the proved one for each adversary."""
    by = {who: proved_row(setting, plan, sigma, adversary=who) for who in ("server", "device", "everybody")}
    found = ", ".join(f"{who} {one.epsilon:.3g} (row {int(one.row)})" for who, one in by.items())
    return f"sigma = {sigma:.4g}: eps of the paper {paper(setting, plan, sigma):.3g}, proved against {found}"


def describe_dp_sgd(setting: Setting, plan: Plan, sigma: float) -> str:
    """The paper's figures of the baseline, and what is proved against the server."""
    charged = charged_dp_sgd(setting, plan, sigma)
    return (
        f"sigma = {sigma:.4g}: eps of the paper {charged.corrected:.3g} ({charged.printed:.3g} with n as printed), "
        f"proved against the server {amplified(setting, plan, sigma):.3g} with amplification"
    )
