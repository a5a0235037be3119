"""Runs of the CDP-FL paper's figures: Algorithm 1, and DP-SGD, which is Algorithm 1 with one step a round.

Noise and repeats are traced numbers, so that all runs of a plan are one program. Masks are elided: the same
aggregates bit for bit.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from experiments.cdp_fl.problem import Problem, Setting, evaluation, loss_of, start
from experiments.resuming import next_run
from fedjax_priv.base import Algorithm
from fedjax_priv.clients import local_sgd, scheduled
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import cdp_fl

ELIDED = "masks were elided in the runs: the same aggregates bit for bit"
FINEST = 20
"""The quantizer has at most 2^20 grid points to a unit, and fewer where noise is large, so that sums do not wrap."""


class Plan(NamedTuple):
    """How long devices train."""

    rounds: int  # T
    local_steps: int  # tau
    batch_size: int  # gamma
    every: int = 1  # rounds between two evaluations


def passes(setting: Setting, rounds: int, local_steps: int, every: int = 1) -> Plan:
    """One pass over a device's samples a round, as Theorem 1 wants: gamma = m / tau."""
    return Plan(rounds, local_steps, setting.num_train // local_steps, every)


def schedule(setting: Setting, rounds: int, seed: int) -> np.ndarray:
    """Devices of each round, int `[rounds, r]`: those that took part least often so far, with ties broken at random.

    Devices' numbers of rounds differ by at most one, and the devices of any one round are a uniform draw.
    """
    rng, taken, table = np.random.default_rng(seed), np.zeros(setting.num_devices, int), []
    for _ in range(rounds):
        members = np.sort(np.lexsort((rng.random(len(taken)), taken))[: setting.num_selected])
        taken[members] += 1
        table.append(members)
    return np.array(table)


def rounds_taken(setting: Setting, rounds: int) -> int:
    """C, the rounds of the devices that take part most often."""
    return -(-rounds * setting.num_selected // setting.num_devices)


def algorithm(setting: Setting, plan: Plan, members: np.ndarray, sigma: Any) -> Algorithm:
    """A round of r devices with tau noisy steps each."""
    local = local_sgd(
        loss_of(setting), learning_rate=setting.rate, batch_size=plan.batch_size, num_steps=plan.local_steps,
        sample_clip=setting.clip, gradient_noise=sigma,
    )  # fmt: skip
    noise = jnp.maximum(setting.rate * jnp.asarray(sigma, jnp.float32), 1.0)
    return cdp_fl(
        local, num_clients=setting.num_devices, cohort_size=setting.num_selected, cohort=scheduled(members),
        levels=jnp.exp2(FINEST - jnp.ceil(jnp.log2(noise))), elide=True, block=2,
    )  # fmt: skip


def train(setting: Setting, plan: Plan, sigmas: Sequence[float], problem: Problem, seed: int) -> xr.Dataset:
    """Train at each noise, each repeat with its own start, batches and noise.

    Returns:
      `accuracy`, `training_loss` and `gradient_norm` `[sigma, seed, evaluation]`, `failed` rounds `[sigma, seed]`;
      `evaluation` counts local steps.
    """
    members = schedule(setting, plan.rounds, seed)
    whole = sweep(
        functools.partial(algorithm, setting, plan, members),
        {"sigma": [float(sigma) for sigma in sigmas], "seed": list(range(setting.repeats))},
        jax.random.key(seed), start(setting), problem.data, rounds=plan.rounds, every=plan.every,
        evaluate=evaluation(setting, problem), keep=next_run(), progress=False,
    )  # fmt: skip
    kept = whole[["accuracy", "training_loss", "gradient_norm"]].assign(failed=(whole.status != 0).sum("round"))
    return kept.rename(evaluation="step").assign_coords(step=whole.evaluation.values * plan.local_steps)
