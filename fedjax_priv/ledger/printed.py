"""A ledger as a table on the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from fedjax_priv.ledger.entry import Entry, Figure, worst


def show(entries: Sequence[Entry], title: str = "privacy ledger") -> None:
    """Print the entries as a table; where each client has a figure, the largest is shown.

    Raises:
      ValueError: `entries` are something else.
    """
    if isinstance(entries, Entry) or not all(isinstance(entry, Entry) for entry in entries):
        raise ValueError(f"entries must be those of ledger(...), got {type(entries).__name__}")
    table = Table(title=title, box=box.SIMPLE, show_lines=True)
    for heading in ("adversary", "adjacent inputs", "claimed", "proved", "note"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        claimed, proved = (_in_words(figure) for figure in (entry.claimed, entry.proved))
        table.add_row(entry.adversary, entry.adjacent, claimed, proved, entry.note)
    Console(width=max(Console().width, 150), markup=False, emoji=False).print(table)


def _in_words(figure: Figure) -> str:
    eps = worst(figure)
    return f"none: {figure.why}" if eps is None else f"eps {eps:.4g} at delta {figure.delta:.2g}: {figure.why}"
