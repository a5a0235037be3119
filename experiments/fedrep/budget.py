"""What methods cost, as measured, and how they compare at equal cost."""

import xarray as xr

from experiments.fedrep.curves import Compared, compared


def cost(result: xr.Dataset) -> str:
    """Measured: Gamma, and bytes of a client in an iteration."""
    means = {name: result[name].groupby("curve").mean(...) for name in ("gamma", "up", "down")}
    return "; ".join(
        "{}: Gamma {:.3f}, {:,.0f} B up, {:,.0f} B down".format(
            name, *(float(of.sel(curve=name)) for of in means.values())
        )
        for name in result.curve.values
    )


def ahead(result: xr.Dataset, ours: str, other: str, way: str) -> Compared:
    """FedREP's accuracy less another's, as `at_equal` reads them."""
    return compared(*at_equal(result, ours, other, way))


def at_equal(result: xr.Dataset, ours: str, other: str, way: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Both accuracies by "iteration", or up to where both sent as many bytes, "up" or "both" ways."""
    pair = [result.sel(curve=name, drop=True) for name in (ours, other)]
    spent = [1.0 if way == "iteration" else float((of.up if way == "up" else of.up + of.down).mean()) for of in pair]
    one, two = (_until(of.accuracy, min(spent) / own) for of, own in zip(pair, spent, strict=True))
    return one, two


def _until(accuracy: xr.DataArray, fraction: float) -> xr.DataArray:
    """The part of a run that spent this fraction of its bytes, with as many evaluations."""
    epoch = accuracy.epoch
    return accuracy if fraction == 1 else accuracy.interp(epoch=epoch * fraction).assign_coords(epoch=epoch)
