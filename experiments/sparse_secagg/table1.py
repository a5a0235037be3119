"""Table I: upload of a user in a round, SecAgg against SparseSecAgg, a model as large as the paper's for CIFAR-10."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments import harness
from experiments.claims import Claim
from experiments.harness import COLOURS
from experiments.sparse_secagg.protocol import SYSTEMS, idle, nothing
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """The whole protocol, every mask expanded, on updates that are zero: no size depends on a value."""

    num_clients: tuple[int, ...] = (25, 50, 75, 100)
    num_params: int = 165_354
    alpha: float = 0.1
    dropout: float = 0.3
    rounds: int = 10
    seed: int = 0


SCALES = {"quick": Config((8,), rounds=3), "cpu": Config(rounds=3), "paper": Config(rounds=100)}
PAPER = 8.0


def run(config: Config) -> harness.Outcome:
    parts = [
        xr.concat([_sizes(config, n, name) for name in SYSTEMS], "system", join="outer") for n in config.num_clients
    ]
    result = xr.concat(parts, xr.Variable("num_clients", list(config.num_clients)), join="outer")
    result = result.assign_coords(system=list(SYSTEMS))
    caveats = [
        f"d = {config.num_params:,}, alpha = {config.alpha}, theta = {config.dropout}, {config.rounds} rounds",
        "keys and shares as simulated: the encryption of shares is not counted",
    ]
    return harness.Outcome(figure(config, result), result, claims(config, result), caveats)


def _sizes(config: Config, num_clients: int, name: str) -> xr.Dataset:
    more: dict[str, Any] = {"alpha": config.alpha} if name == "SparseSecAgg" else {}
    system = SYSTEMS[name](idle(config.num_params), num_clients=num_clients, dropout=config.dropout, **more)
    run = simulate(
        system, jax.random.key(config.seed), jnp.zeros(config.num_params), nothing(num_clients),
        rounds=config.rounds, progress=False,
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
    return [
        Claim(
            "ratio", "largest upload: SecAgg / SparseSecAgg", "about 8", harness.span(ratio),
            bool((np.abs(ratio / PAPER - 1) < 0.1).all()),
            f"expected 32 / (32 p + 1) = {harness.span(theory.compression_ratio(n, config.alpha))}; "
            f"of everything that goes up, keys and shares included, {harness.span(whole)}",
        ),
        Claim(
            "secagg-upload", "SecAgg's upload", "0.66 MB", f"{harness.span(dense / 1e6)} MB",
            bool((np.abs(dense / 1e6 - 0.66) < 0.005).all()), "d is chosen to be of that size",
        ),
        Claim(
            "selected",
            "a user sends at most alpha d coordinates (Theorem 1)", f"<= {config.alpha}", harness.span(selected),
            bool((selected <= config.alpha).all()),
            f"largest |U_i| / d; the ratio itself is p = {harness.span(theory.selection_probability(n, config.alpha))}",
        ),
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(10, 4), layout="constrained")
    upload, phases = picture.subplots(1, 2)
    places = np.arange(len(config.num_clients))
    for i, name in enumerate(SYSTEMS):
        bars = upload.bar(
            places + 0.4 * i - 0.2, result.largest_upload.sel(system=name) / 1e6, 0.36, color=COLOURS[i], label=name
        )
        upload.bar_label(bars, fmt="%.3f", fontsize=9)
    upload.set_xticks(places, [f"N = {n}" for n in config.num_clients])
    upload.set(ylabel="largest upload of a user in a round (MB)", title="Table I", ymargin=0.18)
    upload.legend(frameon=False, ncols=2, loc="upper center")
    most = config.num_clients[-1]
    names = [str(p) for p in result.phase.values if p != "model"]
    for i, name in enumerate(SYSTEMS):
        values = result.up.sel(num_clients=most, system=name, phase=names).fillna(0) / 1e3
        bars = phases.barh(np.arange(len(names)) + 0.4 * i - 0.2, values, 0.36, color=COLOURS[i], label=name)
        phases.bar_label(bars, fmt="%.3g", fontsize=9, padding=3)
    phases.set_yticks(np.arange(len(names)), names)
    phases.set(xscale="log", xlabel="sent by a user in a round, mean (kB)", title=f"by phase, N = {most}", xmargin=0.2)
    phases.invert_yaxis()
    for axes in (upload, phases):
        axes.spines[["top", "right"]].set_visible(False)
    return picture
