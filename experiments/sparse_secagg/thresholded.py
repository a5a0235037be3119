"""Thresholded opening: every user keeps its own coordinates, and a committee opens those that enough users sent."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.special import stdtrit  # scipy.stats takes a second to import

from experiments.claims import Claim, Open, Source, told_apart
from experiments.comparison import CHANCE, IN_LAW, decided, gap
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome
from experiments.problem import load, model_of, num_params
from experiments.resuming import next_run
from experiments.sparse_secagg.training import ELIDED, Setting, adversaries, clients_of, gamma, honest, local_of
from fedjax_priv import leakage, metrics
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, View
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import common_secagg, sparse_secagg, thresholded_secagg
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """All systems send about as much; common coordinates spend on values what others spend on a bitmap."""

    setting: Setting
    num_clients: int = 100
    threshold: int = 3
    committee: int = 10
    quorum: int = 4  # members that suffice; with 6, one round in seven fails for members that are lost
    rounds: int = 250
    repeats: int = 3
    every: int = 1
    coordinates: int = 100_000  # independent ones, of which it is simulated what is read of SparseSecAgg
    seed: int = 0


SYSTEMS = ("SparseSecAgg", "common", "thresholded", "thresholded, top-K")
READ = (SYSTEMS[0], *SYSTEMS[2:])
SIZES = ("alone", "in a sum of two", "in a sum of three")


def run(config: Config) -> Outcome:
    setting, model, dataset = config.setting, model_of(config.setting.task), load(config.setting.task)
    clients = clients_of(setting, dataset, config.num_clients, config.seed)
    result = sweep(
        lambda system: algorithm(config, system),
        {"system": list(SYSTEMS), "seed": list(range(config.repeats))},
        jax.random.key(config.seed), model.init, clients, rounds=config.rounds, every=config.every,
        keep=next_run(), progress=False, over="clients",
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    kept = result[["accuracy"]].drop_vars("client", errors="ignore")
    upload = result.up_bytes.sel(phase="upload", drop=True)
    kept["upload"] = upload.where(upload > 0).mean("client")  # of a survivor
    for name, link in (("up", result.up_bytes), ("down", result.down_bytes)):
        kept[f"most_{name}"] = link.sum("phase").max(("client", "round", "seed"))  # a member of the committee's
    kept["read"] = _read(config, result)
    kept["failed"] = (result.status != 0).mean("round")
    return judge(config, kept)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    setting = config.setting
    caveats = [
        f"{setting.task}; IID, N = {config.num_clients}, alpha = {setting.alpha}, theta = {setting.dropout}, "
        f"t = {config.threshold}, C = {config.committee}, of which {config.quorum} suffice; {config.repeats} run(s)",
        f"{ELIDED}; A = N/3 rounded colluders, which follow the protocol; of SparseSecAgg it is simulated what is read",
        "fewer members of the committee collude than suffice",
        BANDS,
    ]
    return Outcome(figure(result, caveats[0]), result, claims(config, result), caveats)


def algorithm(config: Config, system: str) -> Algorithm:
    """One of `SYSTEMS`."""
    setting, local = config.setting, local_of(config.setting, model_of(config.setting.task))
    how: dict[str, Any] = dict(
        num_clients=config.num_clients, dropout=setting.dropout, levels=setting.levels, block=setting.block,
        elide=True,
    )  # fmt: skip
    if system == "SparseSecAgg":
        return sparse_secagg(local, alpha=setting.alpha, **how)
    sent, d = float(theory.selection_probability(config.num_clients, setting.alpha)), num_params(setting.task)
    if system == "common":
        return common_secagg(local, num_params=d, alpha=sent + 1 / 32, **how)
    how |= dict(threshold=config.threshold, committee=config.committee, quorum=config.quorum, observe=observe(config))
    if system == "thresholded":
        return thresholded_secagg(local, num_params=d, alpha=setting.alpha, select="pairs", **how)
    return thresholded_secagg(local, num_params=d, alpha=sent, select="top_k", **how)


def observe(config: Config) -> Callable[[View], dict[str, jax.Array]]:
    """Values that honest survivors sent in a round, and those that the server and N/3 users read in sums of 1, 2, 3."""

    def count(view: View) -> dict[str, jax.Array]:
        opened = leakage.opened_honest(view, honest(config.num_clients), threshold=config.threshold)
        return {"sent": opened.sent} | {f"read_{size}": size * (opened.honest == size).sum() for size in (1, 2, 3)}

    return count


def _read(config: Config, result: xr.Dataset) -> xr.DataArray:
    """Which fraction of honest survivors' values the server and N/3 users read, with its error."""
    n, setting = config.num_clients, config.setting
    drawn = leakage.sample_components(
        config.coordinates, num_clients=n, num_adversaries=adversaries(n), alpha=setting.alpha,
        dropout=setting.dropout, seed=config.seed,
    )  # fmt: skip
    rows = result.sel(system=list(READ[1:])).stack(row=("seed", "round"))
    read = np.stack([rows[f"read_{size}"].transpose("system", "row") for size in (1, 2, 3)], -1)
    ours = [
        leakage.ratio(part, sent) for part, sent in zip(read, rows.sent.transpose("system", "row").values, strict=True)
    ]
    found = np.array([[part.value, part.error] for part in (drawn.fraction, *ours)])
    where = {"attacked": list(READ), "figure": ["value", "standard error"], "size": [1, 2, 3]}
    return xr.DataArray(found, where, ("attacked", "figure", "size"))


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """What thresholded opening promises; SparseSecAgg is the control of the first."""
    n, setting = config.num_clients, config.setting
    law = theory.Setting(n, setting.alpha, setting.dropout, gamma(n))
    expected = [theory.opened_sum_fraction(law, config.threshold, size) for size in (1, 2, 3)]
    read, error = result.read.sel(attacked="thresholded").values
    other = [theory.opened_sum_fraction(law, config.threshold + 1, size) for size in (1, 2, 3)]
    near = error * stdtrit(result.sizes["round"] * result.sizes["seed"] - 1, 1 - CHANCE / 6)  # three fractions
    sparse = result.read.sel(attacked="SparseSecAgg", figure="value").values
    upload, last = result.upload.mean(("seed", "round")), result.accuracy.isel(evaluation=-1, drop=True)
    of = lambda values, name: values.sel(system=name).item()
    ratio = of(upload, "thresholded") / of(upload, "SparseSecAgg")
    ahead = gap(last, last.sel(system="SparseSecAgg", drop=True))
    return [
        Claim(
            "hardly-alone", "thresholded: fewer values are read alone or in pairs than of SparseSecAgg", "",
            f"{read[:2].sum():.1%}", bool(5 * read[:2].sum() < sparse[:2].sum()), "a fifth at most",
            f"of SparseSecAgg {sparse[:2].sum():.0%}; A = {adversaries(n)} colluders that follow the protocol",
            Source.OURS,
        ),
        told_apart(
            Claim(
                "law", "thresholded: values read alone, in 2 and in 3 are as many as in theory",
                ", ".join(f"{part:.2%}" for part in expected), ", ".join(f"{part:.2%}" for part in read),
                bool((np.abs(read - expected) < near).all()), f"over rounds {IN_LAW}", "", Source.OURS,
            ),
            bool((np.abs(read - other) > near).any()),
            f"of a threshold of {config.threshold + 1} they would be {', '.join(f'{part:.2%}' for part in other)}",
        ),
        Claim(
            "bytes", "thresholded: a user uploads as much as with SparseSecAgg", "", f"{ratio:.3f}",
            bool(abs(ratio - 1) < 0.1), "within 10%: shares of seeds are more",
            f"most of a user, a member of the committee: {of(result.most_up, 'thresholded') / 1e3:.0f} kB up and "
            f"{of(result.most_down, 'thresholded') / 1e3:.0f} kB down a round, the model included", Source.OURS,
        ),
        *(
            Claim(
                f"{name}: accuracy", f"{name}: as accurate as SparseSecAgg", "",
                f"{ahead.sel(system=name).text()} points",
                decided(ahead.sel(system=name).at_least(0.02)), "at most 2 points less, 95% interval over seeds",
                f"after {config.rounds} rounds, of which {of(result.failed.mean('seed'), name):.0%} failed; common "
                f"coordinates {ahead.sel(system='common').text()}", Source.OURS, Open.UNDECIDED,
            )
            for name in SYSTEMS[2:]
        ),
    ]  # fmt: skip


def figure(result: xr.Dataset, title: str) -> Figure:
    picture = Figure(figsize=(12, 4.2), layout="constrained")
    by_round, by_bytes, read = picture.subplots(1, 3, width_ratios=(0.85, 1, 1))
    for i, system in enumerate(SYSTEMS):
        band(by_round, result.accuracy.sel(system=system), "evaluation", system, COLOURS[i])
    finish(by_round, "accuracy by round", xlabel="round", ylabel="test accuracy")
    places = np.arange(len(SYSTEMS))
    for i, (name, label) in enumerate((("most_up", "sent"), ("most_down", "received"))):
        bars = by_bytes.bar(places + 0.4 * i - 0.2, result[name] / 1e3, 0.36, color=COLOURS[i + 4], label=label)
        by_bytes.bar_label(bars, fmt="%.3g", fontsize=8)
    finish(by_bytes, "most of any user in a round", ylabel="kB, in all phases", ymargin=0.15)
    for i, label in enumerate(SIZES):
        colour = (*COLOURS[4:], COLOURS[2])[i]
        bars = read.bar(np.arange(3) + 0.28 * i - 0.28, 100 * result.read[:, 0, i], 0.26, color=colour, label=label)
        read.bar_label(bars, fmt="%.2g", fontsize=8)
    finish(read, "read by server and N/3 users", ylabel="of the values honest survivors sent (%)", ymargin=0.15)
    for axes, names in ((by_bytes, SYSTEMS), (read, READ)):
        labels = [name.replace(", ", ",\n").replace("SparseSec", "Sparse\nSec") for name in names]
        axes.set_xticks(np.arange(len(names)), labels, fontsize=8)
    picture.suptitle(title, fontsize=10)
    return picture
