"""Systems that add no noise: what a secure sum hides is no differential privacy."""

import numpy as np
import xarray as xr

from fedjax_priv.base import Release
from fedjax_priv.ledger import distributed_noise
from fedjax_priv.ledger.entry import Entry, none
from fedjax_priv.theory import sparse_secagg

DATA = "any of a client's data"


def no_noise(adversary: str, note: str = "") -> Entry:
    """No guarantee about data, from anybody."""
    figure = none("no noise is added by the system, and what local training may add is accounted for in cdp_fl only")
    return Entry(adversary, DATA, figure, figure, note)


def in_the_clear() -> list[Entry]:
    """A system that says nothing of what it releases."""
    return [no_noise("the server, which sees every update")]


def entries(release: Release, run: xr.Dataset, num_clients: int, *, delta: float, colluding: int) -> list[Entry]:
    """Of secure sums; without noise how many honest clients are summed, the papers' own measure, is in the note."""
    if "noise" in release.terms:
        return distributed_noise.entries(release.terms["noise"], run, num_clients, delta=delta, colluding=colluding)
    size = run.sizes["client"]
    arrived = float(run.counted.sum("client").mean())
    honest = arrived * (1 - colluding / size)
    if release.mechanism == "sum":
        note = f"a sum over {honest:.1f} honest clients a round in the mean, and nothing else"
        return [no_noise("the server, of sums", note)]
    alpha, lost = float(release.terms["alpha"]), 1 - arrived / size
    limit = sparse_secagg.aggregated_honest_clients_limit(
        sparse_secagg.Setting(size, alpha, min(lost, np.nextafter(0.5, 0)), colluding / size)
    )
    note = (
        f"T = {limit:.1f} honest clients summed at a coordinate (Theorem 2; no floor: half of the coordinates have "
        "fewer), which location sets let the server take apart, see leakage.separate"
    )
    return [no_noise("the server, of sums at the coordinates that are sent", note)]
