"""A repair: the same random coordinates for all users of a round, against SparseSecAgg at equal bytes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.claims import Claim, Source
from experiments.harness import COLOURS
from experiments.problem import Task, load
from experiments.sparse_secagg.training import ELIDED, Setting, clients_of, honest, local_of, model_of, rounds_to
from fedjax_priv import leakage, metrics, models
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import common_secagg, secagg, sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """The repair's alpha is p + 1/32: what SparseSecAgg spends on its bitmap, it spends on values."""

    setting: Setting
    target: float
    num_clients: int = 100
    rounds: int = 250
    repeats: int = 3
    every: int = 1
    bound: int = 2**14  # the attacker's guess of the largest value, in grid points
    seed: int = 0


SCALES = {
    "quick": Config(
        Setting("digits", model="mlp32", learning_rate=0.05, levels=2.0**16), target=0.85,
        num_clients=12, rounds=30, repeats=1,
    ),
    "cpu": Config(Setting(model="mlp64", levels=2.0**16), target=0.9, num_clients=50, rounds=30, repeats=1),
    "paper": Config(Setting(levels=2.0**16), target=0.97),
}  # fmt: skip
SYSTEMS = ("SecAgg", "SparseSecAgg", "common", "common, error feedback")
ATTACKED = SYSTEMS[1:3]


def run(config: Config) -> harness.Outcome:
    setting, model = config.setting, model_of(config.setting)
    dataset = load(Task(setting.dataset, samples=setting.samples))
    clients = clients_of(setting, dataset, config.num_clients, config.seed)
    observe = leakage.observe_privacy(honest(config.num_clients))
    result = sweep(
        lambda system: algorithm(config, system, elide=True, observe=observe),
        {"system": list(SYSTEMS), "seed": list(range(config.repeats))},
        jax.random.key(config.seed), model.init, clients, rounds=config.rounds, every=config.every, progress=False,
        over="clients", evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    kept = result[["accuracy", "honest_mean"]].drop_vars("client", errors="ignore")
    upload = result.up_bytes.sel(phase="upload", drop=True)
    kept["upload"] = upload.where(upload > 0).mean("client")  # of a survivor
    kept["read"] = _read(config, clients)
    caveats = [
        f"{setting.dataset}, IID, {setting.model}, d = {num_params(setting):,}, N = {config.num_clients}, "
        f"alpha = {setting.alpha}, theta = {setting.dropout}; {config.repeats} run(s)",
        f"{ELIDED}; the attack is on the first round of the whole protocol, with A = N/3 rounded colluders",
        "bands: minimum and maximum over runs",
    ]
    return harness.Outcome(figure(kept, caveats[0]), kept, claims(config, kept), caveats)


def num_params(setting: Setting) -> int:
    return models.num_params(jax.eval_shape(model_of(setting).init, jax.random.key(0)))


def algorithm(config: Config, system: str, *, elide: bool, observe: Callable[..., Any] | None = None) -> Algorithm:
    """One of `SYSTEMS`."""
    setting, local = config.setting, local_of(config.setting, model_of(config.setting))
    how: dict[str, Any] = dict(
        num_clients=config.num_clients, dropout=setting.dropout, levels=setting.levels, block=setting.block,
        elide=elide, observe=observe,
    )  # fmt: skip
    if system == "SecAgg":
        return secagg(local, **how)
    if system == "SparseSecAgg":
        return sparse_secagg(local, alpha=setting.alpha, **how)
    sent = float(theory.selection_probability(config.num_clients, setting.alpha)) + 1 / 32
    feedback = system.endswith("feedback")
    return common_secagg(local, num_params=num_params(setting), alpha=sent, error_feedback=feedback, **how)


def _read(config: Config, clients: ClientData) -> xr.DataArray:
    """Share of the honest survivors' values that the server and N/3 users read, `[attacked, size]`."""
    setting, key = config.setting, jax.random.key(config.seed)
    params = model_of(setting).init(key)
    shares = []
    for name in ATTACKED:
        system = algorithm(config, name, elide=False, observe=lambda view: view)
        state = system.init(key, params, clients)
        view = jax.jit(system.step)(key, state, clients)[1].observed
        protocol = leakage.secagg_protocol(group_size=config.num_clients)
        if name == "SparseSecAgg":
            protocol = leakage.sparse_protocol(alpha=setting.alpha, group_size=config.num_clients)
        member = ~honest(config.num_clients)
        colluders = leakage.colluders_of_round(protocol, key, view.public["mask"], member)
        reading = leakage.separate(view, protocol, bound=config.bound, colluders=colluders, max_size=2)
        shares.append(reading.share.value)
    return xr.DataArray(shares, {"attacked": list(ATTACKED), "size": [1, 2]})


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """Only the first is the paper's; the others are what the repair promises."""
    n, alpha, theta = config.num_clients, config.setting.alpha, config.setting.dropout
    gamma = round(n / 3) / n
    limit = theory.aggregated_honest_clients_limit(n, alpha, theta, gamma)
    alone, pairs = result.read.sel(attacked="SparseSecAgg").values
    repaired = result.read.sel(attacked="common").sum("size").item()
    upload, count = result.upload.mean(("seed", "round")), result.honest_mean.mean(("seed", "round"))
    of = lambda values, name: values.sel(system=name).item()
    return [
        Claim(
            "sums-over-t",
            "SparseSecAgg: the server learns sums over T honest users only", f"T = {limit:.2f} (Theorem 2)",
            f"{alone:.0%} read alone, {pairs:.0%} in pairs", bool(alone + pairs < 0.001),
            f"expected alone {float(theory.isolated_fraction(n, alpha, theta, gamma)):.0%}; mean X(l) "
            f"{of(count, 'SparseSecAgg'):.2f}",
        ),
        Claim(
            "repair-reads-nothing",
            "repair: the same attack reads nothing", "", f"{repaired:.2%}", bool(repaired < 0.001),
            f"sums over {of(count, 'common'):.1f} honest survivors, as SecAgg ({of(count, 'SecAgg'):.1f}); "
            "verdict: below 0.1%, what is tiny by chance", source=Source.OURS,
        ),
        Claim(
            "equal-bytes", "at equal bytes", "", f"{of(upload, 'common') / of(upload, 'SparseSecAgg'):.4f}",
            bool(abs(of(upload, "common") / of(upload, "SparseSecAgg") - 1) < 0.01),
            f"upload, repair / SparseSecAgg; {of(upload, 'SecAgg') / of(upload, 'common'):.2f} times less than SecAgg",
            source=Source.OURS,
        ),
        _as_accurate(config, result, "common"),
        _as_accurate(config, result, "common, error feedback"),
    ]  # fmt: skip


def _as_accurate(config: Config, result: xr.Dataset, name: str) -> Claim:
    last = lambda system: result.accuracy.sel(system=system).isel(evaluation=-1).mean("seed").item()
    rounds = rounds_to(result, config.target).mean("seed", skipna=False)
    reached = ", ".join(
        f"{system}: {rounds.sel(system=system).item():.3g}" for system in ("SecAgg", "SparseSecAgg", name)
    )
    return Claim(
        f"{name}: accuracy", f"{name}: as accurate by round as SparseSecAgg", "",
        f"{100 * (last(name) - last('SparseSecAgg')):+.1f} points",
        bool(last(name) > last("SparseSecAgg") - 0.01),
        f"after {config.rounds} rounds, verdict: at most 1 point less; rounds to {config.target:.0%}: {reached}",
        source=Source.OURS,
    )  # fmt: skip


def figure(result: xr.Dataset, title: str) -> Figure:
    picture = Figure(figsize=(12, 4.2), layout="constrained")
    by_round, by_bytes, read = picture.subplots(1, 3, width_ratios=(1, 1, 0.8))
    sent = np.insert(result.upload.mean("seed").cumsum("round").values / 1e6, 0, 0, axis=1)
    for i, system in enumerate(SYSTEMS):
        runs, places = result.accuracy.sel(system=system), result.evaluation.values
        for axes, x in ((by_round, places), (by_bytes, sent[i][places])):
            axes.plot(x, runs.mean("seed"), color=COLOURS[i], linewidth=1.6, label=system)
            axes.fill_between(x, runs.min("seed"), runs.max("seed"), color=COLOURS[i], alpha=0.2, linewidth=0)
            axes.grid(alpha=0.3)
    by_round.set(xlabel="round", ylabel="test accuracy", title="accuracy by round")
    by_bytes.set(xlabel="uploaded by a user so far (MB)", title="accuracy by upload", xscale="log")
    by_round.legend(frameon=False, fontsize=9)
    _bars(read, result.read)
    for axes in (by_round, by_bytes, read):
        axes.spines[["top", "right"]].set_visible(False)
    picture.suptitle(title, fontsize=10)
    return picture


def _bars(axes: Axes, read: xr.DataArray) -> None:
    places = np.arange(len(ATTACKED))
    for i, label in enumerate(("alone", "in a sum of two")):
        bars = axes.bar(places + 0.4 * i - 0.2, 100 * read.values[:, i], 0.36, color=COLOURS[i + 4], label=label)
        axes.bar_label(bars, fmt="%.2g%%", fontsize=9)
    axes.set_xticks(places, ATTACKED)
    axes.set(ylabel="of the values honest survivors sent (%)", title="read by server and N/3 users", ymargin=0.15)
    axes.legend(frameon=False, fontsize=9)
