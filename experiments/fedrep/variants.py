"""Fig. 4 and 5: FedREP under attacks on coordinates, and with momentum."""

import xarray as xr

from experiments.claims import Claim
from experiments.fedrep.curves import claim, compared
from experiments.fedrep.training import Config

SLIGHT = 0.1
"""Bytes change slightly up to a tenth."""


def coordinates(config: Config, result: xr.Dataset) -> list[Claim]:
    attacked, without = result.drop_sel(curve="noAtk"), result.sel(curve="noAtk", drop=True)
    change = compared(attacked.accuracy, without.accuracy)
    sent = lambda runs: (runs.up + runs.down).mean("seed")
    more = sent(attacked) / sent(without) - 1
    by_method = ", ".join(
        f"{name} {100 * float(more.sel(curve=name).min()):+.1f} to {100 * float(more.sel(curve=name).max()):+.1f}%"
        for name in more.curve.values
    )
    return [
        claim(
            "accuracy", "attacks on coordinates hardly change accuracy", "hardly", change, change.gap.not_below(),
            "none is more than 2, and noise, below noAtk",
        ),
        Claim(
            "bytes", "attacks on coordinates change bytes slightly", "slightly", by_method,
            bool((abs(more) <= SLIGHT).all()), f"at most {SLIGHT:.0%}",
            "up and down, against noAtk, over attacks on values",
        ),
    ]  # fmt: skip


def momentum(config: Config, result: xr.Dataset) -> list[Claim]:
    return [helps(str(rule), result.accuracy.sel(curve=rule)) for rule in result.curve.values]


def helps(rule: str, accuracy: xr.DataArray) -> Claim:
    gained = compared(accuracy.sel(momentum=0.9), accuracy.sel(momentum=0.0))
    return claim(
        rule, f"{rule}: momentum helps under ALIE", "helps", gained, gained.gap.clear,
        "0.9 more than 1 above 0, and noise",
    )  # fmt: skip
