"""Training with SecAgg and SparseSecAgg to a target accuracy, for Fig. 3, 5 and 6.

Curves and bytes come from runs with elided masks, which have the same aggregates bit for bit and the same messages. The
time that masks take is measured in a few rounds of the whole protocol.
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import xarray as xr

from experiments.problem import Task, load, model_of, num_params
from experiments.resuming import next_run
from experiments.sparse_secagg.protocol import SYSTEMS
from fedjax_priv import data, losses, metrics
from fedjax_priv.analysis import wall_clock
from fedjax_priv.base import Algorithm, ClientData, Local, Model
from fedjax_priv.clients import local_sgd
from fedjax_priv.leakage import observe_privacy
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.runs.sweep import sweep

UPLOAD = [("upload", "up")]
ELIDED = "masks were elided in the runs of accuracy and bytes: the same aggregates and messages"


class Setting(NamedTuple):
    """Data, model and local training. The defaults are the paper's, except `levels`, which it does not publish."""

    task: Task = Task("mnist", "cnn")
    partition: Literal["iid", "shards"] = "iid"
    num_shards: int = 300
    alpha: float = 0.1
    dropout: float = 0.3
    epochs: int = 5
    batch_size: int = 28
    momentum: float = 0.5
    learning_rate: float = 0.01
    levels: float = 2.0**20
    block: int = 5


class Config(NamedTuple):
    """A comparison at one scale."""

    setting: Setting
    target: float  # test accuracy
    num_clients: tuple[int, ...] = (25, 50, 75, 100)
    rounds: tuple[int, ...] = (100, 150, 200, 250)  # for each N
    every: int = 1  # rounds between evaluations
    repeats: int = 3
    timed_rounds: int = 3  # of the whole protocol; 0: masks are taken to cost no time
    bandwidth: float = 1e8  # bits a second on a user's link
    seed: int = 0


def local_of(setting: Setting, model: Model) -> Local:
    return local_sgd(
        losses.softmax_cross_entropy(model),
        learning_rate=setting.learning_rate,
        batch_size=setting.batch_size,
        num_epochs=setting.epochs,
        momentum=setting.momentum,
    )


def clients_of(setting: Setting, dataset: data.Dataset, num_clients: int, seed: int) -> ClientData:
    if setting.partition == "iid":
        return data.federate(dataset, num_clients, seed=seed)
    return data.federate(dataset, num_clients, "shards", seed=seed, num_shards=setting.num_shards)


def honest(num_clients: int) -> jax.Array:
    """Which users are honest `[N]`: all except the last N/3, rounded; users are drawn alike, so any would do."""
    return jnp.arange(num_clients) < num_clients - adversaries(num_clients)


def adversaries(num_clients: int) -> int:
    """A = N/3, rounded."""
    return round(num_clients / 3)


def gamma(num_clients: int) -> float:
    """A / N."""
    return adversaries(num_clients) / num_clients


def algorithm(setting: Setting, local: Local, num_clients: int, system: str, *, elide: bool) -> Algorithm:
    """One of `SYSTEMS`; its privacy is observed if masks are elided."""
    more: dict[str, Any] = {"alpha": setting.alpha} if system == "SparseSecAgg" else {}
    if elide:
        more["observe"] = observe_privacy(honest(num_clients))
    return SYSTEMS[system](
        local, num_clients=num_clients, dropout=setting.dropout, levels=setting.levels, block=setting.block,
        elide=elide, **more,
    )  # fmt: skip


def compare(config: Config, systems: Sequence[str] = tuple(SYSTEMS)) -> xr.Dataset:
    """Run the systems at every N.

    Returns:
      With dimensions `num_clients`, `system`, `seed`, `round` and `evaluation`, NaN after the last round of an N:
      `accuracy`; `upload`, bytes of all users in a round, and `largest_upload`, of one user; `revealed`, of survivors,
      and `revealed_all`; `seconds_upload` and `seconds_all`, modelled time of a round.
    """
    task = config.setting.task
    dataset, model = load(task), model_of(task)
    parts = [
        _one(config, systems, model, dataset, *size) for size in zip(config.num_clients, config.rounds, strict=True)
    ]
    result = cast(xr.Dataset, xr.concat(parts, xr.Variable("num_clients", list(config.num_clients)), join="outer"))
    return result.assign_attrs(num_params=num_params(task))


def _one(
    config: Config, systems: Sequence[str], model: Model, dataset: data.Dataset, num_clients: int, rounds: int
) -> xr.Dataset:
    local = local_of(config.setting, model)
    clients = clients_of(config.setting, dataset, num_clients, config.seed)
    make = functools.partial(algorithm, config.setting, local, num_clients)
    key = jax.random.key(config.seed)
    run = sweep(
        functools.partial(make, elide=True),
        {"system": list(systems), "seed": list(range(config.repeats))},
        key, model.init, clients, rounds=rounds, every=config.every, keep=next_run(), progress=False, over="clients",
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    parts = []
    for system in systems:
        one, whole = run.sel(system=system), None
        if config.timed_rounds:
            secure = make(system, elide=False)
            whole = simulate(
                secure, key, model.init(key), clients, rounds=config.timed_rounds, keep=next_run(), progress=False
            )
        parts.append(_summary(config, one, _seconds(one if whole is None else whole)))
    return cast(xr.Dataset, xr.concat(parts, "system", join="outer"))


def _seconds(run: xr.Dataset) -> float:
    """Of a round, the median."""
    return float(run.seconds.diff("evaluation").median()) / float(run.evaluation.diff("evaluation")[0])


def _summary(config: Config, run: xr.Dataset, whole: float) -> xr.Dataset:
    """What is kept of the runs of one system; a round of its whole protocol takes `whole` seconds here."""
    user, server = compute_seconds(run.sizes["client"], config.setting.dropout, whole, _seconds(run))
    clock = functools.partial(wall_clock.run_seconds, run, compute_seconds=user, bandwidth=config.bandwidth)
    upload = run.up_bytes.sel(phase="upload", drop=True)
    kept = xr.Dataset({
        "accuracy": run.accuracy,
        "upload": upload.sum("client"),
        "largest_upload": upload.max("client"),
        "revealed": run.revealed,
        "revealed_all": run.revealed_all,
        "failed": (run.status > 0).astype(float),
        "seconds_upload": clock(messages=UPLOAD) + server,
        "seconds_all": clock() + server,
    })  # fmt: skip
    return kept.drop_vars(["client"], errors="ignore")


def compute_seconds(num_clients: int, dropout: float, whole: float, elided: float) -> tuple[float, float]:
    """Seconds that a user and the server compute in a round, each on a machine like this one.

    Users train and mask at the same time; the server removes masks alone. Here all of it runs on one machine, in
    `whole` seconds, or `elided` seconds without masks. The time of masks is divided by the words each side expands:
    N (N-1) + N for users, theta (1-theta) N^2 + (1-theta) N for the server.
    """
    users = num_clients**2
    server = (1 - dropout) * num_clients * (dropout * num_clients + 1)
    masks = max(whole - elided, 0.0)
    return (elided + masks * users / (users + server)) / num_clients, masks * server / (users + server)


def rounds_to(result: xr.Dataset, target: float) -> xr.DataArray:
    """Rounds until the accuracy first reaches the target; NaN if it does not."""
    return result.evaluation.where(result.accuracy >= target).min("evaluation")


def total_to(result: xr.Dataset, variable: str, target: float) -> xr.DataArray:
    """Sum of a variable over the rounds until the target; NaN if it is not reached."""
    rounds = rounds_to(result, target)
    return result[variable].where(result["round"] <= rounds).sum("round").where(rounds.notnull())
