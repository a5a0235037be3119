"""Whether attacks bite: what an undefended mean loses under them, without which nothing about robustness follows."""

import numpy as np
import xarray as xr

from experiments import claims
from experiments.claims import Claim, joined
from experiments.comparison import Gap, decided, gap, plus_minus
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


def lost(result: xr.Dataset) -> Gap | None:
    """Accuracy that each attack costs the mean, by `attack`; None if no control was run."""
    if "undefended" not in result:
        return None
    ends = result.undefended.rename(attacked="attack")
    return gap(ends.sel(attack=NONE, drop=True), ends.drop_sel(attack=NONE))


def biting(result: xr.Dataset, attacks: list[str]) -> list[str]:
    """Those of the attacks that surely bite; to have none is not one of them, and is always kept."""
    return [name for name in attacks if name == NONE or _bites(result, name)]


def _bites(result: xr.Dataset, attack: str) -> bool | None:
    """Whether an attack bites; None if seeds do not decide it."""
    cost = lost(result)
    return False if cost is None else decided(cost.sel(attack=attack).bites(BITES))


def said(result: xr.Dataset, attacks: list[str]) -> str:
    """What the control showed of the attacks."""
    if (cost := lost(result)) is None:
        return "no undefended mean was run"
    of = lambda name: (
        f"{100 * float(cost.mean.sel(attack=name)):.1f}{plus_minus(100 * float(cost.noise.sel(attack=name)))}"
    )
    parts = ", ".join(f"{of(name)} under {name}" for name in attacks if name != NONE)
    return f"an undefended mean loses {parts}; {100 * BITES:g} points would be an attack that bites"


def controlled(result: xr.Dataset, claim: Claim, attacks: list[str], judged: list[str]) -> Claim:
    """A claim on several attacks of which some were judged: with the control, and open if none surely bites."""
    control = said(result, attacks)
    left = {name: _bites(result, name) for name in attacks if name not in judged}
    if not judged:
        return claims.controlled(claim, None if None in left.values() else False, control)
    note = f"not testable under {' and '.join(left)}" if left else ""
    return claim._replace(control=control, note=joined(claim.note, note))


def ends(control: xr.Dataset) -> xr.DataArray:
    """The last accuracies of the undefended mean, at the rate that is best for it without attack."""
    last = control.accuracy.isel(epoch=-1, drop=True)
    at = int(np.argmax(last.sel(attack=NONE).mean("seed").values))
    return last.isel(rate=at, drop=True).rename(attack="attacked")
