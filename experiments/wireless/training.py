"""Users, channel and runs of the figures for which a model is trained.

Runs that differ in participation, threshold, clip, noise or seed are one program.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

from experiments.problem import Task, load, model_of, num_params
from experiments.resuming import next_run
from fedjax_priv import data, losses, metrics
from fedjax_priv.base import Algorithm
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless

THRESHOLD = 2.0
"""h_th of channel-aware sampling."""
RECEIVER_NOISE = 1.0
"""N0."""


class Setting(NamedTuple):
    """Users and their training. The defaults are the paper's, except the batch size, the estimate and the repeats."""

    task: Task = Task("mnist")
    groups: tuple[int, ...] = (68, 66, 66)  # users of each SNR
    snr_db: tuple[float, ...] = (2.0, 10.0, 30.0)
    batch_size: int = 32
    learning_rate: float = 1e-3  # of Adam, at the server
    known_count: bool = False
    evaluations: int = 20
    repeats: int = 5

    @property
    def num_users(self) -> int:
        """K."""
        return sum(self.groups)


def snr_of(setting: Setting) -> np.ndarray:
    """`[K]`, in dB."""
    return np.repeat(setting.snr_db, setting.groups)


def algorithm(setting: Setting, **how: Any) -> Algorithm:
    """FedSGD, one mini-batch of each user a round; `how` is passed to `wireless`."""
    loss = losses.softmax_cross_entropy(model_of(setting.task))
    return wireless(
        local_sgd(loss, learning_rate=1.0, batch_size=setting.batch_size, num_steps=1),
        receiver_noise=RECEIVER_NOISE,
        snr_db=jnp.asarray(snr_of(setting), jnp.float32),
        known_count=setting.known_count,
        noise_drawn="as one",
        server=optax.adam(setting.learning_rate),
        **how,
    )


def run(setting: Setting, axes: Mapping[str, Sequence[float]], *, rounds: int, seed: int) -> xr.Dataset:
    """Train at every point of `axes`, arguments of `wireless`, with every seed.

    Returns:
      By axis and `seed`: `accuracy` `[iteration]`; `counted`, `gain`, `probability` (p_k) and `amplitude`
      `[round, client]`; and `failed` rounds.
    """
    dataset, model = load(setting.task), model_of(setting.task)
    whole = sweep(
        functools.partial(algorithm, setting), {**axes, "seed": range(setting.repeats)},
        jax.random.key(seed), model.init, data.federate(dataset, setting.num_users, seed=seed),
        rounds=rounds, every=max(1, rounds // setting.evaluations), keep=next_run(), progress=False,
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    names = {"join_probability": "probability", "failed_rounds": "failed", "evaluation": "iteration"}
    kept = ["accuracy", "counted", "gain", "amplitude", "join_probability", "failed_rounds"]
    return whole[kept].rename(names).assign_attrs(num_params=num_params(setting.task))


def describe(setting: Setting) -> str:
    """What was trained; the paper does not give the hidden layer, the batch, the estimate and the seeds."""
    users = ", ".join(f"{n} at {snr:g} dB" for n, snr in zip(setting.groups, setting.snr_db, strict=True))
    divisor = "zeta R (known, eq. 9)" if setting.known_count else "m (unknown, eq. 10)"
    return (
        f"{setting.task}; K = {setting.num_users} users ({users}), the data divided equally at random, batches of "
        f"{setting.batch_size}, no regulariser; divided by {divisor}; {setting.repeats} seed(s)"
    )


def failures(result: xr.Dataset) -> str:
    """A caveat."""
    return f"{int(result.failed.sum())} rounds of all runs failed and left the model unchanged"
