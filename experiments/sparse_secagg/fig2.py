"""Fig. 2: how many selected coordinates two users have in common, rand-K and top-K, by round."""

from typing import Literal, NamedTuple

import jax
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.claims import Claim
from experiments.drawing import finish
from experiments.harness import Outcome
from experiments.problem import load, model_of, num_params
from experiments.resuming import next_run
from experiments.sparse_secagg.training import Setting, clients_of, local_of
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm
from fedjax_priv.leakage import observe_overlap, sparse_selections
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import sparse_fedavg


class Config(NamedTuple):
    """Plain federated learning without dropouts. Shards of non-IID data are not published: both readings."""

    setting: Setting = Setting(dropout=0.0)
    num_clients: int = 30
    fraction: float = 0.1  # K / d
    shards: tuple[int, ...] = (300, 60)
    rounds: int = 100
    seed: int = 0


LABEL = {"rand_k": "rand-K", "top_k": "top-K"}


def system(config: Config, sparsifier: Literal["rand_k", "top_k"]) -> Algorithm:
    model, d = model_of(config.setting.task), num_params(config.setting.task)
    return sparse_fedavg(
        local_of(config.setting, model), num_params=d, k=round(config.fraction * d), sparsifier=sparsifier,
        block=config.setting.block, observe=observe_overlap(lambda view: sparse_selections(view, d)),
    )  # fmt: skip


def partitions(config: Config) -> dict[str, Setting]:
    non_iid = {
        f"non-IID, {shards // config.num_clients} shards a user":
            config.setting._replace(partition="shards", num_shards=shards)
        for shards in config.shards
    }  # fmt: skip
    return {"IID": config.setting} | non_iid


def run(config: Config) -> Outcome:
    task, settings = config.setting.task, partitions(config)
    dataset = load(task)
    result = sweep(
        lambda sparsifier, partition: system(config, sparsifier),
        {"sparsifier": list(LABEL), "partition": list(settings)},
        jax.random.key(config.seed), model_of(task).init,
        lambda partition: clients_of(settings[partition], dataset, config.num_clients, config.seed),
        rounds=config.rounds, every=max(1, config.rounds // 10), keep=next_run(), progress=False,
    )[["overlap_mean", "overlap_std"]]  # fmt: skip
    return judge(config, result)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    task = config.setting.task
    caveats = [
        f"{task}, K = d / {1 / config.fraction:g}, N = {config.num_clients}; one run",
        "bands: standard deviation over pairs of users, of |U_i and U_j| / K",
    ]
    return Outcome(figure(config, result, caveats[0]), result, claims(config, result), caveats)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    mean, part = result.overlap_mean, config.fraction
    random, top = mean.sel(sparsifier="rand_k"), mean.sel(sparsifier="top_k")
    iid = top.sel(partition="IID").values
    other = top.sel(partition=[name for name in top.partition.values if name != "IID"])
    apart = other.mean("round").values
    return [
        Claim(
            "random", "rand-K: users share K/d of their coordinates", f"about {part:.0%}",
            f"{random.mean().item():.2%}", bool(abs(random.mean().item() / part - 1) < 0.02), "within 2% of K/d",
            "mean over rounds",
        ),
        Claim(
            "top-iid-start", "top-K, IID: starts about 30%", "30%", f"{iid[0]:.0%}", bool(0.2 <= iid[0] <= 0.4),
            "20 to 40%", f"first round, {config.setting.task.model}",
        ),
        Claim(
            "top-iid-end", "and falls to about 10%", "10%", f"{iid[-1]:.0%} after {len(iid)} rounds",
            bool(iid[-1] <= 0.15), "at most 15%", f"largest in round {int(iid.argmax()) + 1} ({iid.max():.0%})",
        ),
        Claim(
            "top-non-iid", "top-K, non-IID: about 12%", "12%", ", ".join(f"{value:.0%}" for value in apart),
            bool(((apart >= 0.08) & (apart <= 0.16)).any()), "8 to 16% for one of them",
            f"mean over rounds, {' and '.join(other.partition.values)}",
        ),
        Claim(
            "top-above-random", "top-K overlaps more than rand-K", "more",
            f"{float((top / random).min()):.2f}x or more", bool((top > random).all()), "in every round and partition",
        ),
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset, title: str) -> Figure:
    picture = Figure(figsize=(8, 4.8), layout="constrained")
    axes = picture.subplots()
    for colour, partition in zip(COLOURS, result.partition.values, strict=False):
        for sparsifier, style in (("top_k", "-"), ("rand_k", "--")):
            run = result.sel(partition=partition, sparsifier=sparsifier)
            x, mean, std = run["round"].values, run.overlap_mean.values, run.overlap_std.values
            axes.plot(x, mean, style, color=colour, linewidth=1.7, label=f"{LABEL[sparsifier]}, {partition}")
            axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(config.fraction, color="black", linewidth=0.8, linestyle=":", label="K / d")
    finish(axes, title, xlabel="round", ylabel="shared coordinates of two users / K", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return picture
