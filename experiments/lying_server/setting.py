"""The setting of the card, and what all its parts train."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from experiments.problem import Task, load, model_of
from fedjax_priv import data, losses
from fedjax_priv.base import ClientData, Model
from fedjax_priv.losses import Loss

HIDDEN, LEVELS = "Dense_0", 2.0**20
SHOWN = 50
"""Coordinates that lists of survivors are tried on."""
LIED, HONEST = 0, 1
"""Rounds in which the server hands out dead models, or the model."""


class Config(NamedTuple):
    """The picture at one scale."""

    task: Task = Task("digits", "mlp64")
    num_clients: int = 30
    threshold: int = 21
    colluding: tuple[int, ...] = (0, 2, 4, 6, 8, 10)
    target: int = 1
    learning_rate: float = 0.1
    batch_size: int = 20
    num_steps: int = 3
    trials: int = 40  # of a detector, half of them with its image among the target's
    populations: tuple[int, ...] = (50, 400)  # of which cohorts are drawn that may refuse
    attempts: int = 40
    runs: int = 20
    seed: int = 0


COHORT, ENOUGH, LEAVE = 10, 8, 0.2
"""Of the rounds that may fail: clients drawn, those whose shares open a sum, and how many leave before they do."""


def network(config: Config) -> tuple[Model, Loss]:
    """The model and its loss."""
    model = model_of(config.task)
    return model, losses.softmax_cross_entropy(model)


def federated(task: Task, num_clients: int, seed: int) -> ClientData:
    """The training samples, IID."""
    return jax.tree.map(jnp.asarray, data.federate(load(task), num_clients, "iid", seed=seed))
