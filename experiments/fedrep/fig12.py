"""Fig. 12: FedREP and SHARE with momentum, 7 Byzantine clients, ALIE; and how dissimilar the buffers' means are."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array

from experiments import harness
from experiments.fedrep import fig8
from experiments.fedrep.budget import cost
from experiments.fedrep.curves import caveats, draw
from experiments.fedrep.methods import ALIE
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config
from experiments.fedrep.training import run as run_methods
from fedjax_priv.base import View
from fedjax_priv.crypto import field

LEVELS = 2.0**20
RATIOS = (0.03, 0.06, 0.13)
SCALES = {
    "quick": Config(QUICK, fig8.methods((0.13,), num_byzantine=FEW), attacks=ALIE),
    "cpu": Config(CPU, fig8.methods(RATIOS), attacks=ALIE),
    "paper": Config(PAPER, fig8.methods(RATIOS), attacks=ALIE),
}


def run(config: Config) -> harness.Outcome:
    method = config.methods["SHARE"]
    rows = config.setting.num_clients // method.buffer_size
    result = run_methods(config, dissimilarity(rows, method.num_byzantine)).squeeze(("alpha", "momentum"), drop=True)
    said = [
        *caveats(config, result), cost(result),
        "dissimilarity: mean squared distance of two buffers without a Byzantine client; relative: over their mean's "
        "squared length",
    ]  # fmt: skip
    picture = draw(result.accuracy.rename(curve="line"), said[0])
    return harness.Outcome(picture, result, claims(result), said)


def dissimilarity(rows: int, num_byzantine: int) -> Callable[[View], dict[str, Array]]:
    """Of the means of honest buffers, from elided uploads, which are the values themselves."""

    def observe(view: View) -> dict[str, Array]:
        group = view.public["mask"].group
        total = functools.partial(jax.ops.segment_sum, segment_ids=group, num_segments=rows)
        value = field.to_signed(view.uploads).astype(jnp.float32) / LEVELS
        means = total(value) / jnp.maximum(total(jnp.ones(len(group))), 1)[:, None]
        spoilt = total((jnp.arange(len(group)) < num_byzantine).astype(jnp.float32))
        weight = (spoilt == 0).astype(jnp.float32)[:, None]
        number = weight.sum()
        mean = (weight * means).sum(0) / number
        spread = (weight * jnp.square(means - mean[None])).sum() / (number - 1)
        return {"dissimilarity": 2 * spread, "length": jnp.square(mean).sum()}

    return observe


def claims(result: xr.Dataset) -> list[harness.Claim]:
    names = [name for name in result.curve.values if name != "SHARE"]
    return [
        fig8.above_under_alie(result, names),
        lower(result.dissimilarity, "FedREP's buffers are less dissimilar than SHARE's"),
        lower(result.dissimilarity / result.length, "and relative to the length of their mean"),
    ]


def lower(values: xr.DataArray, text: str) -> harness.Claim:
    """The reason the paper guesses."""
    mean = values.mean("seed")
    ratio = mean.drop_sel(curve="SHARE") / mean.sel(curve="SHARE", drop=True)
    ours = "; ".join(
        f"{name}: " + ", ".join(f"{attack} {float(ratio.sel(curve=name, attack=attack)):.2f}" for attack in ALIE)
        for name in ratio.curve.values
    )
    note = (
        "over SHARE's, means over rounds, each at its own best rate, with whose square distances grow; verdict: all < 1"
    )
    return harness.Claim(text, "the reason, a guess", ours, bool((ratio < 1).all()), note)
