"""Fig. 2: how many selected coordinates two users have in common, rand-K and top-K, by round."""

import functools
from typing import Literal, NamedTuple

import jax
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments import harness
from experiments.claims import Claim
from experiments.harness import COLOURS
from experiments.problem import Task, load
from experiments.sparse_secagg.training import Setting, clients_of, local_of, model_of
from fedjax_priv import data, models
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.leakage import observe_overlap, sparse_selections
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import sparse_fedavg


class Config(NamedTuple):
    """Plain federated learning, nobody drops out. Shards of the non-IID case are not published: both readings."""

    setting: Setting = Setting(dropout=0.0)
    num_clients: int = 30
    fraction: float = 0.1  # K / d
    shards: tuple[int, ...] = (300, 60)
    rounds: int = 100
    seed: int = 0


SCALES = {
    "quick": Config(Setting("digits", model="mlp32", learning_rate=0.05, batch_size=10), 10, shards=(20,), rounds=10),
    "cpu": Config(Setting(model="mlp64"), rounds=20),
    "paper": Config(),
}
LABEL = {"rand_k": "rand-K", "top_k": "top-K"}


def system(config: Config, sparsifier: Literal["rand_k", "top_k"]) -> Algorithm:
    model = model_of(config.setting)
    d = models.num_params(jax.eval_shape(model.init, jax.random.key(0)))
    return sparse_fedavg(
        local_of(config.setting, model), num_params=d, k=round(config.fraction * d), sparsifier=sparsifier,
        block=config.setting.block, observe=observe_overlap(lambda view: sparse_selections(view, d)),
    )  # fmt: skip


def partitions(config: Config) -> dict[str, Setting]:
    non_iid = {
        f"non-IID, {shards // config.num_clients} shards a user": config.setting._replace(
            partition="shards", num_shards=shards
        )
        for shards in config.shards
    }
    return {"IID": config.setting} | non_iid


def run(config: Config) -> harness.Outcome:
    dataset, settings = load(Task(config.setting.dataset, samples=config.setting.samples)), partitions(config)
    result = sweep(
        functools.partial(_system, config),
        {"sparsifier": list(LABEL), "partition": list(settings)},
        jax.random.key(config.seed), model_of(config.setting).init,
        functools.partial(_clients, config, dataset, settings),
        rounds=config.rounds, every=config.rounds, progress=False,
    )[["overlap_mean", "overlap_std"]]  # fmt: skip
    d = models.num_params(jax.eval_shape(model_of(config.setting).init, jax.random.key(0)))
    setting, share = config.setting, 1 / config.fraction
    caveats = [
        f"{setting.dataset}, {setting.model}, d = {d:,}, K = d / {share:g}, N = {config.num_clients}; one run",
        "bands: standard deviation over pairs of users, of |U_i and U_j| / K",
    ]
    return harness.Outcome(figure(config, result, caveats[0]), result, claims(config, result), caveats)


def _system(config: Config, sparsifier: Literal["rand_k", "top_k"], partition: str) -> Algorithm:
    del partition
    return system(config, sparsifier)


def _clients(config: Config, dataset: data.Dataset, settings: dict[str, Setting], partition: str) -> ClientData:
    return clients_of(settings[partition], dataset, config.num_clients, config.seed)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    mean, share = result.overlap_mean, config.fraction
    random, top = mean.sel(sparsifier="rand_k"), mean.sel(sparsifier="top_k")
    iid = top.sel(partition="IID").values
    other = top.sel(partition=[name for name in top.partition.values if name != "IID"])
    apart = other.mean("round").values
    return [
        Claim(
            "random", "rand-K: users share K/d of their coordinates", f"about {share:.0%}",
            f"{random.mean().item():.2%}",
            bool(abs(random.mean().item() / share - 1) < 0.02), "mean over rounds; verdict: within 2% of K/d",
        ),
        Claim(
            "top-iid-start", "top-K, IID: starts about 30%", "30%", f"{iid[0]:.0%}", bool(0.2 <= iid[0] <= 0.4),
            f"first round, {config.setting.model}; verdict: 20 to 40%",
        ),
        Claim(
            "top-iid-end",
            "and falls to about 10%", "10%", f"{iid[-1]:.0%} after {len(iid)} rounds", bool(iid[-1] <= 0.15),
            f"verdict: at most 15%; largest in round {int(iid.argmax()) + 1} ({iid.max():.0%})",
        ),
        Claim(
            "top-non-iid", "top-K, non-IID: about 12%", "12%", ", ".join(f"{value:.0%}" for value in apart),
            bool(((apart >= 0.08) & (apart <= 0.16)).any()),
            f"mean over rounds, {' and '.join(other.partition.values)}; verdict: 8 to 16% for one of them",
        ),
        Claim(
            "top-above-random",
            "top-K overlaps more than rand-K", "more", f"{float((top / random).min()):.2f}x or more",
            bool((top > random).all()), "every round and partition",
        ),
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset, title: str) -> Figure:
    picture = Figure(figsize=(8, 4.8), layout="constrained")
    axes = picture.subplots()
    for i, partition in enumerate(result.partition.values):
        for sparsifier, line in (("top_k", "-"), ("rand_k", "--")):
            run = result.sel(partition=partition, sparsifier=sparsifier)
            x, mean, std = run["round"].values, run.overlap_mean.values, run.overlap_std.values
            axes.plot(x, mean, line, color=COLOURS[i], linewidth=1.7, label=f"{LABEL[sparsifier]}, {partition}")
            axes.fill_between(x, mean - std, mean + std, color=COLOURS[i], alpha=0.15, linewidth=0)
    axes.axhline(config.fraction, color="black", linewidth=0.8, linestyle=":", label="K / d")
    axes.set(xlabel="round", ylabel="shared coordinates of two users / K", ylim=(0, None))
    axes.set_title(title, fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=9)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return picture
