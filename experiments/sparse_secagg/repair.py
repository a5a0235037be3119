"""A repair: the same random coordinates for all users of a round, against SparseSecAgg at equal bytes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, controlled
from experiments.comparison import decided, gap
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome
from experiments.problem import load, model_of, num_params
from experiments.resuming import next_run
from experiments.sparse_secagg.training import ELIDED, Setting, clients_of, gamma, honest, local_of, rounds_to
from fedjax_priv import leakage, metrics
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import common_secagg, secagg, sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """The repair's alpha is p + 1/32: it spends on values what SparseSecAgg spends on its bitmap."""

    setting: Setting
    target: float
    num_clients: int = 100
    rounds: int = 250
    repeats: int = 3
    every: int = 1
    bound: int = 2**14  # the attacker's guess of the largest value, in grid points
    seed: int = 0


SYSTEMS = ("SecAgg", "SparseSecAgg", "common", "common, error feedback")
ATTACKED = SYSTEMS[1:3]


def run(config: Config) -> Outcome:
    setting, model, dataset = config.setting, model_of(config.setting.task), load(config.setting.task)
    clients = clients_of(setting, dataset, config.num_clients, config.seed)
    observe = leakage.observe_privacy(honest(config.num_clients))
    result = sweep(
        lambda system: algorithm(config, system, elide=True, observe=observe),
        {"system": list(SYSTEMS), "seed": list(range(config.repeats))},
        jax.random.key(config.seed), model.init, clients, rounds=config.rounds, every=config.every,
        keep=next_run(), progress=False, over="clients",
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    kept = result[["accuracy", "honest_mean"]].drop_vars("client", errors="ignore")
    upload = result.up_bytes.sel(phase="upload", drop=True)
    kept["upload"] = upload.where(upload > 0).mean("client")  # of a survivor
    kept["read"] = _read(config, clients)
    return judge(config, kept)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    setting = config.setting
    caveats = [
        f"{setting.task}; IID, N = {config.num_clients}, "
        f"alpha = {setting.alpha}, theta = {setting.dropout}; {config.repeats} run(s)",
        f"{ELIDED}; the first round of the whole protocol is attacked, with A = N/3 rounded colluders",
        BANDS,
    ]
    return Outcome(figure(result, caveats[0]), result, claims(config, result), caveats)


def algorithm(config: Config, system: str, *, elide: bool, observe: Callable[..., Any] | None = None) -> Algorithm:
    """One of `SYSTEMS`."""
    setting, local = config.setting, local_of(config.setting, model_of(config.setting.task))
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
    return common_secagg(local, num_params=num_params(setting.task), alpha=sent, error_feedback=feedback, **how)


def _read(config: Config, clients: ClientData) -> xr.DataArray:
    """Fraction of the honest survivors' values that the server and N/3 users read, `[attacked, size]`."""
    setting, key = config.setting, jax.random.key(config.seed)
    params, fractions = model_of(setting.task).init(key), []
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
        fractions.append(reading.fraction.value)
    return xr.DataArray(fractions, {"attacked": list(ATTACKED), "size": [1, 2]})


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """The first is the paper's; the others are what the repair promises."""
    n = config.num_clients
    setting = theory.Setting(n, config.setting.alpha, config.setting.dropout, gamma(n))
    limit = theory.aggregated_honest_clients_limit(setting)
    alone, pairs = result.read.sel(attacked="SparseSecAgg").values
    repaired = result.read.sel(attacked="common").sum("size").item()
    upload, count = result.upload.mean(("seed", "round")), result.honest_mean.mean(("seed", "round"))
    of = lambda values, name: values.sel(system=name).item()
    return [
        Claim(
            "sums-over-t", "SparseSecAgg: the server learns sums over T honest users only",
            f"T = {limit:.2f} (Theorem 2)", f"{alone:.0%} read alone, {pairs:.0%} in pairs",
            bool(alone + pairs < 0.001), "fewer than 0.1% alone or in pairs",
            f"expected alone {float(theory.isolated_fraction(setting)):.0%}; mean X(l) "
            f"{of(count, 'SparseSecAgg'):.2f}",
        ),
        controlled(
            Claim(
                "repair-reads-nothing", "repair: the same attack reads nothing", "", f"{repaired:.2%}",
                bool(repaired < 0.001), "below 0.1%, what is tiny by chance",
                f"sums over {of(count, 'common'):.1f} honest survivors, as SecAgg ({of(count, 'SecAgg'):.1f})",
                Source.OURS,
            ),
            bool(alone + pairs > 0.01), f"of SparseSecAgg it reads {alone + pairs:.0%}",
        ),
        Claim(
            "equal-bytes", "at equal bytes", "", f"{of(upload, 'common') / of(upload, 'SparseSecAgg'):.4f}",
            bool(abs(of(upload, "common") / of(upload, "SparseSecAgg") - 1) < 0.01), "within 1%",
            f"upload, repair / SparseSecAgg; {of(upload, 'SecAgg') / of(upload, 'common'):.2f} times less than SecAgg",
            Source.OURS,
        ),
        _as_accurate(config, result, "common"),
        _as_accurate(config, result, "common, error feedback"),
    ]  # fmt: skip


def _as_accurate(config: Config, result: xr.Dataset, name: str) -> Claim:
    last = lambda system: result.accuracy.sel(system=system, drop=True).isel(evaluation=-1)
    rounds = rounds_to(result, config.target).mean("seed", skipna=False)
    systems, ahead = ("SecAgg", "SparseSecAgg", name), gap(last(name), last("SparseSecAgg"))
    reached = ", ".join(f"{system}: {rounds.sel(system=system).item():.3g}" for system in systems)
    return Claim(
        f"{name}: accuracy", f"{name}: as accurate by round as SparseSecAgg", "", f"{ahead.text()} points",
        decided(ahead.at_least(0.01)), "at most 1 point less, 95% interval over seeds",
        f"after {config.rounds} rounds; rounds to {config.target:.0%}: {reached}", Source.OURS, Open.UNDECIDED,
    )  # fmt: skip


def figure(result: xr.Dataset, title: str) -> Figure:
    picture = Figure(figsize=(12, 4.2), layout="constrained")
    by_round, by_bytes, read = picture.subplots(1, 3, width_ratios=(1, 1, 0.8))
    sent = np.insert(result.upload.mean("seed").cumsum("round").values / 1e6, 0, 0, axis=1)
    for i, system in enumerate(SYSTEMS):
        runs = result.accuracy.sel(system=system)
        runs = runs.assign_coords(sent=("evaluation", sent[i][runs.evaluation.values]))
        band(by_round, runs, "evaluation", system, COLOURS[i])
        band(by_bytes, runs, "sent", "", COLOURS[i])
    finish(by_round, "accuracy by round", xlabel="round", ylabel="test accuracy")
    finish(by_bytes, "accuracy by upload", xlabel="uploaded by a user so far (MB)", xscale="log")
    places = np.arange(len(ATTACKED))
    for i, label in enumerate(("alone", "in a sum of two")):
        bars = read.bar(places + 0.4 * i - 0.2, 100 * result.read[:, i], 0.36, color=COLOURS[i + 4], label=label)
        read.bar_label(bars, fmt="%.2g%%", fontsize=9)
    finish(read, "read by server and N/3 users", ylabel="of the values honest survivors sent (%)", ymargin=0.15)
    read.set_xticks(places, ATTACKED)
    picture.suptitle(title, fontsize=10)
    return picture
