"""What methods cost, as measured, and how they compare at equal cost."""

import xarray as xr

from experiments.fedrep.curves import Gap, gap


def cost(result: xr.Dataset) -> str:
    """Measured: Gamma, and bytes of a client in an iteration."""
    means = {name: result[name].groupby("curve").mean(...) for name in ("gamma", "up", "down")}
    return "; ".join(
        "{}: Gamma {:.3f}, {:,.0f} B up, {:,.0f} B down".format(
            name, *(float(of.sel(curve=name)) for of in means.values())
        )
        for name in result.curve.values
    )


def ahead(result: xr.Dataset, ours: str, other: str, way: str) -> Gap:
    """FedREP's accuracy less another's: by iteration, or where both sent as many bytes, "up" or "both" ways."""
    pair = [result.sel(curve=name, drop=True) for name in (ours, other)]
    if way == "iteration":
        return gap(*(runs.accuracy for runs in pair))
    spent = [float((runs.up if way == "up" else runs.up + runs.down).mean()) for runs in pair]
    return gap(*(runs.accuracy.pipe(_until, min(spent) / own) for runs, own in zip(pair, spent, strict=True)))


def _until(accuracy: xr.DataArray, share: float) -> xr.DataArray:
    """The part of a run that spent such a share of its bytes, with as many evaluations."""
    epoch = accuracy.epoch
    return accuracy.interp(epoch=epoch * share).assign_coords(epoch=epoch)
