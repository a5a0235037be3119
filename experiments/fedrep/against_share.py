"""Fig. 8 to 12: FedREP at several ratios against SHARE, and how dissimilar the means of buffers are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from experiments.claims import Claim, Open
from experiments.comparison import SMALL, decided, gap
from experiments.fedrep.curves import Compared, claim, compared
from experiments.fedrep.methods import ALIE
from experiments.fedrep.training import Config, Observe
from fedjax_priv.base import View
from fedjax_priv.crypto import field

LEVELS = 2.0**20
CLOSE = 0.05
"""Of logarithms: ratios that are as good as 1."""
GAMMAS = ((0.079, SMALL, "almost nothing"), (0.017, 0.05, "little"))
"""The paper's Gamma, what accuracy may be lost there, and in its words."""


def at_gammas(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 8 to 11."""
    measured = result.gamma.groupby("curve").mean(...).drop_sel(curve="SHARE")
    losses = [_at_gamma(result, measured, *said) for said in GAMMAS]
    return [*losses, above_under_alie(result, list(measured.curve.values))]


def _at_gamma(result: xr.Dataset, measured: xr.DataArray, wanted: float, allowed: float, words: str) -> Claim:
    """Of the ratio whose measured Gamma is nearest, if it is near."""
    name = measured.curve.values[np.abs(measured.values - wanted).argmin()]
    near = float(measured.sel(curve=name))
    id, text = f"loses-{wanted}", f"FedREP loses {words} against SHARE at Gamma of about {wanted}"
    rule = f"no more than {100 * allowed:g} below, 95% interval"
    if abs(near - wanted) > wanted / 4:
        return Claim(id, text, words, f"nearest is Gamma = {near:.3f}", None, rule)
    ahead = over_share(result, name)
    return claim(id, f"{text} ({near:.3f})", words, ahead, ahead.gap.at_least(allowed), rule, controlled_by=result)


def over_share(result: xr.Dataset, names: str | list[str]) -> Compared:
    """FedREP's accuracy less SHARE's."""
    return compared(result.accuracy.sel(curve=names), result.accuracy.sel(curve="SHARE", drop=True))


def above_under_alie(result: xr.Dataset, names: list[str]) -> Claim:
    ahead = over_share(result.sel(attack=list(ALIE)), names)
    return claim(
        "above-share", "under ALIE FedREP is above SHARE", "above", ahead, ahead.gap.above(),
        "at every ratio above, 95% interval", controlled_by=result,
    )  # fmt: skip


def dissimilar(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 12."""
    return [
        above_under_alie(result, [name for name in result.curve.values if name != "SHARE"]),
        lower(result.dissimilarity, "less-dissimilar", "FedREP's buffers are less dissimilar than SHARE's"),
        lower(result.dissimilarity / result.length, "relative", "and relative to the length of their mean"),
    ]


def lower(values: xr.DataArray, id: str, text: str) -> Claim:
    """The reason that the paper guesses."""
    mean, log = values.mean("seed"), xr.apply_ufunc(np.log, values)
    below = gap(log.sel(curve="SHARE", drop=True), log.drop_sel(curve="SHARE"))
    ratio = mean.drop_sel(curve="SHARE") / mean.sel(curve="SHARE", drop=True)
    found = "; ".join(
        f"{name}: " + ", ".join(f"{attack} {float(ratio.sel(curve=name, attack=attack)):.2f}" for attack in ALIE)
        for name in ratio.curve.values
    )
    note = "over SHARE's, means over rounds, each at its own best rate, with whose square distances grow"
    return Claim(id, text, "the reason, a guess", found, decided(below.above(margin=CLOSE)),
                 "all < 1, 95% intervals of the logarithms over seeds", note, why=Open.UNDECIDED)  # fmt: skip


def dissimilarity_of(config: Config) -> Observe:
    method = config.methods["SHARE"]
    return dissimilarity(config.setting.num_clients // method.buffer_size, method.num_byzantine)


def dissimilarity(num_buffers: int, num_byzantine: int) -> Observe:
    """Of the means of honest buffers, from elided uploads, which are the values themselves."""

    def observe(view: View) -> dict[str, Array]:
        group = view.public["mask"].group
        total = functools.partial(jax.ops.segment_sum, segment_ids=group, num_segments=num_buffers)
        value = field.to_signed(view.uploads).astype(jnp.float32) / LEVELS
        means = total(value) / jnp.maximum(total(jnp.ones(len(group))), 1)[:, None]
        spoilt = total((jnp.arange(len(group)) < num_byzantine).astype(jnp.float32))
        weight = (spoilt == 0).astype(jnp.float32)[:, None]
        number = weight.sum()
        mean = (weight * means).sum(0) / number
        spread = (weight * jnp.square(means - mean[None])).sum() / (number - 1)
        return {"dissimilarity": 2 * spread, "length": jnp.square(mean).sum()}

    return observe
