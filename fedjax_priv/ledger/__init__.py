"""What every adversary learns of a client, as the papers claim it and as far as it can be proved.

A system says what it releases (`Algorithm.release`), the run says what happened; this puts the accountants of `theory`
to both. A system without a valid guarantee gets "none" and the reason, never a number by default.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.ledger import coordinates, local_noise, over_the_air, sums
from fedjax_priv.ledger.entry import Entry, Figure, worst

__all__ = ["Entry", "Figure", "ledger", "show", "worst"]


def ledger(
    algorithm: Algorithm,
    run: xr.Dataset,
    data: ClientData,
    *,
    delta: float,
    colluding: int = 0,
    lipschitz: float | None = None,
) -> list[Entry]:
    """The guarantees of a run that has been made, one entry an adversary.

    Args:
      algorithm: what was run; arguments of its factory were numbers.
      run: as `simulate` returns it.
      data: of the clients.
      delta: of the figures, in (0, 1); where a paper's theorem has its own, the entry says which.
      colluding: clients that tell the server all they know; 0 or above, below the clients of a round.
      lipschitz: c of every local step, clipping included (`theory.cdp_fl.lipschitz_constant`), where it is known.

    Raises:
      ValueError: an argument outside its range, or a run of more clients than `data` has.
    """
    _validate.integer(at_least=0, colluding=colluding)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be a number in (0, 1), got {delta!r}")
    count = np.asarray(data.count)
    if colluding >= run.sizes["client"]:
        raise ValueError(f"colluding must be below the clients of a round, {run.sizes['client']}, got {colluding}")
    if (last := int(run.client_id.max())) >= count.size:
        raise ValueError(f"data must be of the run's clients, up to number {last}, got {count.size} clients")
    release = algorithm.release
    if release is None:
        return sums.in_the_clear()
    if release.mechanism == "over the air":
        return over_the_air.entries(release.terms, run, delta=delta, colluding=colluding)
    if release.mechanism == "local noise":
        return local_noise.entries(release.terms, run, count, delta=delta, colluding=colluding, lipschitz=lipschitz)
    if release.mechanism == "proposed coordinates":
        return coordinates.entries(release.terms, run, count.size, delta=delta, colluding=colluding)
    return sums.entries(release, run, count.size, delta=delta, colluding=colluding)


def show(entries: Sequence[Entry], title: str = "privacy ledger") -> None:
    """Print it as a table; of figures by client the largest."""
    table = Table(title=title, box=box.SIMPLE, show_lines=True)
    for heading in ("who looks", "neighbouring inputs", "claimed", "proved", "note"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        claimed, proved = (_in_words(figure) for figure in (entry.claimed, entry.proved))
        table.add_row(entry.adversary, entry.neighbours, claimed, proved, entry.note)
    Console(width=max(Console().width, 150)).print(table)


def _in_words(figure: Figure) -> str:
    eps = worst(figure)
    return f"none: {figure.why}" if eps is None else f"eps {eps:.4g} at delta {figure.delta:.2g}: {figure.why}"
