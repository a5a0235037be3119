"""Whether attacks bite: what an undefended mean loses under them, without which nothing about robustness follows."""

import numpy as np
import xarray as xr

from experiments.claims import Claim, joined, untestable
from experiments.fedrep.methods import Method

BITES = 0.1
"""An attack bites if it costs an undefended mean at least this accuracy, with the same seeds."""
NONE = "none"


def undefended(methods: dict[str, Method]) -> Method | None:
    """FedREP with a mean in place of its rule; None if no client of the figure is Byzantine."""
    most = max(method.num_byzantine for method in methods.values())
    like = next((method for method in methods.values() if method.system == "FedREP"), None)
    if like is None or not most:
        return None
    return like._replace(aggregate="mean", coordinates="noAtk", num_byzantine=most)


def lost(result: xr.Dataset) -> xr.DataArray | None:
    """Accuracy that each attack costs the mean `[attack]`; None if no control was run."""
    if "undefended" not in result:
        return None
    ends = result.undefended.mean("seed").rename(attacked="attack")
    return ends.sel(attack=NONE, drop=True) - ends.drop_sel(attack=NONE)


def biting(result: xr.Dataset, attacks: list[str]) -> list[str]:
    """Those of the attacks that bite; to have none is not one of them, and is always kept."""
    cost = lost(result)
    costs = lambda name: cost is not None and float(cost.sel(attack=name)) >= BITES
    return [name for name in attacks if name == NONE or costs(name)]


def said(result: xr.Dataset, attacks: list[str]) -> str:
    """What the control showed of the attacks."""
    if (cost := lost(result)) is None:
        return "no undefended mean was run"
    parts = ", ".join(f"{100 * float(cost.sel(attack=name)):.1f} under {name}" for name in attacks if name != NONE)
    return f"an undefended mean loses {parts}; {100 * BITES:g} points would be an attack that bites"


def controlled(result: xr.Dataset, claim: Claim, attacks: list[str], judged: list[str]) -> Claim:
    """A claim on several attacks of which some were judged: with the control, and open if none bites."""
    control = said(result, attacks)
    if not judged:
        return untestable(claim, control)
    left = [name for name in attacks if name not in judged]
    note = f"not testable under {' and '.join(left)}" if left else ""
    return claim._replace(control=control, note=joined(claim.note, note))


def ends(control: xr.Dataset) -> xr.DataArray:
    """The last accuracies of the undefended mean, at the rate that is best for it without attack."""
    last = control.accuracy.isel(epoch=-1, drop=True)
    at = int(np.argmax(last.sel(attack=NONE).mean("seed").values))
    return last.isel(rate=at, drop=True).rename(attack="attacked")
