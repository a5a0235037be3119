"""Table I: upload of a user in a round, SecAgg against SparseSecAgg, a model as large as the paper's for CIFAR-10."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim
from experiments.comparison import as_printed
from experiments.drawing import finish
from experiments.harness import Outcome, span
from experiments.resuming import next_run
from experiments.sparse_secagg.protocol import SYSTEMS, idle, nothing
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """Updates of zeros and elided masks: sizes depend on neither."""

    num_clients: tuple[int, ...] = (25, 50, 75, 100)
    num_params: int = 165_354
    alpha: float = 0.1
    dropout: float = 0.3
    rounds: int = 100
    seed: int = 0


DIGITS = "to the printed digits, at every N"
RATIO, DENSE, SPARSE = "8.2", "0.66", "0.082"
"""Printed: SecAgg's upload over SparseSecAgg's, and the two in MB."""


def run(config: Config) -> Outcome:
    parts = [
        xr.concat([_sizes(config, n, name) for name in SYSTEMS], "system", join="outer") for n in config.num_clients
    ]
    result = xr.concat(parts, xr.Variable("num_clients", list(config.num_clients)), join="outer")
    result = result.assign_coords(system=list(SYSTEMS))
    caveats = [
        f"d = {config.num_params:,}, alpha = {config.alpha}, theta = {config.dropout}, {config.rounds} rounds",
        "keys and Shamir shares as simulated, without the encryption of shares; masks were elided: the same messages",
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def _sizes(config: Config, num_clients: int, name: str) -> xr.Dataset:
    more: dict[str, Any] = {"alpha": config.alpha} if name == "SparseSecAgg" else {}
    system = SYSTEMS[name](idle(config.num_params), num_clients=num_clients, dropout=config.dropout, elide=True, **more)
    run = simulate(
        system, jax.random.key(config.seed), jnp.zeros(config.num_params), nothing(num_clients),
        rounds=config.rounds, keep=next_run(), progress=False,
    )  # fmt: skip
    return xr.Dataset({
        "largest_upload": run.up_bytes.sel(phase="upload", drop=True).max(),
        "up": run.up_bytes.mean(("round", "client")),
        "down": run.down_bytes.mean(("round", "client")),
    })  # fmt: skip


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    dense, sparse = (result.largest_upload.sel(system=name).values for name in SYSTEMS)
    n, d = np.array(config.num_clients), config.num_params
    ratio = dense / sparse
    selected = (8 * sparse - d) / 32 / d
    up = result.up.sum("phase")
    whole = (up.sel(system="SecAgg") / up.sel(system="SparseSecAgg")).values
    formula = theory.compression_ratio(n, config.alpha)
    largest = 1e6 * (float(DENSE) + 0.005) / formula  # of the models whose upload is printed as DENSE
    least = 1e6 * (float(DENSE) - 0.005) / formula
    every = lambda values, printed: all(as_printed(value, printed) for value in values)
    return [
        Claim(
            "ratio", "largest upload: SecAgg / SparseSecAgg", f"{RATIO}x", span(ratio), every(ratio, RATIO), DIGITS,
            f"the paper's own formula, 32 / (32 p + 1), is {span(formula)}; of all that users send, keys and shares "
            f"included, {span(whole)}", differs="",
        ),
        Claim(
            "secagg-upload", "SecAgg's upload", f"{DENSE} MB", f"{span(dense / 1e6)} MB", every(dense / 1e6, DENSE),
            DIGITS, "d is chosen for that size", differs="",
        ),
        Claim(
            "sparse-upload", "SparseSecAgg's largest upload", f"{SPARSE} MB", f"{span(sparse / 1e6)} MB",
            every(sparse / 1e6, SPARSE), DIGITS,
            f"by the paper's formula, (32 p + 1) d bits, {span(dense / formula / 1e6)} MB; for any d that prints as "
            f"{DENSE} MB, {np.min(least) / 1e6:.4f} to {np.max(largest) / 1e6:.4f} MB", differs="",
        ),
        Claim(
            "selected", "a user sends at most alpha d coordinates (Theorem 1)", f"<= {config.alpha}", span(selected),
            bool((selected <= config.alpha).all()), "at every N",
            f"largest |U_i| / d; the ratio itself is p = {span(theory.selection_probability(n, config.alpha))}",
            differs="",
        ),
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(10, 4), layout="constrained")
    upload, phases = picture.subplots(1, 2)
    places, most = np.arange(len(config.num_clients)), config.num_clients[-1]
    names = [str(p) for p in result.phase.values if p != "model"]
    for i, name in enumerate(SYSTEMS):
        how: Any = {"color": COLOURS[i], "label": name}
        at, of = 0.4 * i - 0.2, result.sel(system=name)
        bars = upload.bar(places + at, of.largest_upload / 1e6, 0.36, **how)
        upload.bar_label(bars, fmt="%.3f", fontsize=9)
        sent = of.up.sel(num_clients=most, phase=names).fillna(0) / 1e3
        bars = phases.barh(np.arange(len(names)) + at, sent, 0.36, **how)
        phases.bar_label(bars, fmt="%.3g", fontsize=9, padding=3)
    finish(
        upload, "Table I", legend={"ncols": 2, "loc": "upper center"}, ymargin=0.18,
        ylabel="largest upload of a user in a round (MB)",
    )  # fmt: skip
    upload.set_xticks(places, [f"N = {n}" for n in config.num_clients])
    title = f"by phase, N = {most}"
    finish(phases, title, xscale="log", xlabel="sent by a user in a round, mean (kB)", xmargin=0.2)
    phases.set_yticks(np.arange(len(names)), names)
    phases.invert_yaxis()
    return picture
