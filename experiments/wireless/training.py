"""Users, channel and runs of the figures in which a model is trained.

Runs that differ in participation, threshold, norm, noise or seed are one program.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

from experiments.problem import Task, load
from fedjax_priv import data, losses, metrics, models
from fedjax_priv.base import Algorithm, Model
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless

THRESHOLD = 2.0
"""h_th of channel-aware sampling."""
RECEIVER_NOISE = 1.0
"""N0."""


class Setting(NamedTuple):
    """Users and their training. The defaults are the paper's, but for hidden, batch_size, known_count and repeats."""

    dataset: Literal["digits", "mnist"] = "mnist"
    hidden: tuple[int, ...] = ()  # units of the hidden layer, if there is one
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


def model_of(setting: Setting) -> Model:
    side = {"digits": 8, "mnist": 28}[setting.dataset]
    return models.mlp((side, side, 1), 10, hidden=setting.hidden)


def num_params(setting: Setting) -> int:
    return models.num_params(jax.eval_shape(model_of(setting).init, jax.random.key(0)))


def snr_of(setting: Setting) -> np.ndarray:
    """`[K]`, in dB."""
    return np.repeat(setting.snr_db, setting.groups)


def algorithm(setting: Setting, **how: Any) -> Algorithm:
    """FedSGD with one mini-batch a user and round; `how` of `wireless`."""
    loss = losses.softmax_cross_entropy(model_of(setting))
    return wireless(
        local_sgd(loss, learning_rate=1.0, batch_size=setting.batch_size, num_steps=1),
        receiver_noise=RECEIVER_NOISE,
        snr_db=jnp.asarray(snr_of(setting), jnp.float32),
        known_count=setting.known_count,
        server=optax.adam(setting.learning_rate),
        **how,
    )


def run(setting: Setting, axes: Mapping[str, Sequence[float]], *, rounds: int, seed: int) -> xr.Dataset:
    """Train at every point of `axes`, numbers of `wireless`, with every seed.

    Returns:
      By axis and `seed`: `accuracy` `[iteration]`; `counted`, `gain`, `probability` (p_k) and `amplitude`
      `[round, client]`; and `failed` rounds.
    """
    dataset = load(Task(setting.dataset))
    model = model_of(setting)
    whole = sweep(
        functools.partial(algorithm, setting), {**axes, "seed": range(setting.repeats)},
        jax.random.key(seed), model.init, data.federate(dataset, setting.num_users, seed=seed),
        rounds=rounds, every=max(1, rounds // setting.evaluations), progress=False,
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    names = {"join_probability": "probability", "failed_rounds": "failed", "evaluation": "iteration"}
    kept = ["accuracy", "counted", "gain", "amplitude", "join_probability", "failed_rounds"]
    return whole[kept].rename(names).assign_attrs(num_params=num_params(setting))


def describe(setting: Setting) -> str:
    """What was trained, of which the paper leaves open the hidden layer, the batch, the estimate and the seeds."""
    layers = f"one hidden layer of {setting.hidden[0]}" if setting.hidden else "softmax regression"
    users = ", ".join(f"{n} at {snr:g} dB" for n, snr in zip(setting.groups, setting.snr_db, strict=True))
    divisor = "zeta R (known, eq. 9)" if setting.known_count else "m (unknown, eq. 10)"
    return (
        f"{setting.dataset}, {layers}, d = {num_params(setting):,}; K = {setting.num_users} users ({users}), equal "
        f"random shares, batches of {setting.batch_size}, no regulariser; divided by {divisor}; "
        f"{setting.repeats} seed(s)"
    )
