"""How every card writes its picture: PNG, vectors as journals take them where they are asked for, tables as text."""

import io
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from fedjax_priv.runs.records import atomic_file

VECTORS = ("pdf", "svg")
_GREEK = {"eps": r"\varepsilon"} | {
    name: rf"\{name}" for name in ("alpha", "beta", "gamma", "delta", "kappa", "lambda", "mu", "rho", "sigma", "zeta")
}
_LETTERS = "|".join([*_GREEK, "[GNKLTRPWcdhpmnqsvwxy]"])
_SYMBOL = re.compile(rf"(?<![\w$\\])({_LETTERS})('?)(?:_(\w+))?(?:\^([\w.+-]+|\([^)]*\)))?(?![\w$])")
_EMBEDDED: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "fedjax_priv"}
"""Letters stay letters, which can be searched and edited; the same figure gives the same file."""


def write(figure: Figure, stem: pathlib.Path, *, vectors: bool = False) -> None:
    """Write `stem.png`, and `stem.pdf` and `stem.svg` if asked, each whole or not at all; symbols are typeset.

    Args:
      figure: its texts are changed.
      stem: path without a suffix.
      vectors: whether to write them too.
    """
    typeset_all(figure)
    atomic_file.write(stem.with_name(f"{stem.name}.png"), _png(figure))
    with matplotlib.rc_context(_EMBEDDED):
        for form in VECTORS if vectors else ():
            date = {"CreationDate": None} if form == "pdf" else {"Date": None}
            file = io.BytesIO()
            figure.savefig(file, format=form, metadata=date)
            atomic_file.write(stem.with_name(f"{stem.name}.{form}"), file.getvalue())


def _png(figure: Figure) -> bytes:
    """256 colours are enough, and take a third of the space."""
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    with Image.open(drawn) as image:
        small = image.convert("RGB").quantize(256)
    small.save(file, format="PNG", optimize=True)
    return file.getvalue()


def write_table(rows: Sequence[Sequence[str]], path: pathlib.Path) -> None:
    """Rows of text, of which the first is the heading, as a table in Markdown that is legible as it is."""
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    line = lambda row: f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
    text = "\n".join([line(rows[0]), line(["-" * width for width in widths]), *map(line, rows[1:])]) + "\n"
    atomic_file.write(path, text.encode())


def typeset_all(figure: Figure) -> None:
    """Typeset the symbols in all texts of a figure."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        if (typed := [typeset(label) for label in labels]) != labels:
            axis.set_ticks(axis.get_ticklocs(), typed)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(typeset(text.get_text()))


def typeset(text: str) -> str:
    r"""`eps_c`, `sigma^2`, `h_th`, `N0`, and `K` before `=` as mathematics; text that has some already stays as it is.

    Examples:
      >>> typeset("exact eps at delta_c, K = 20")
      'exact $\\varepsilon$ at $\\delta_{\\mathrm{c}}$, $K$ = 20'
    """
    return text if "$" in text else _SYMBOL.sub(_formula, text.replace("N0", "N_0"))


def _formula(found: re.Match[str]) -> str:
    """A Latin letter alone is a word unless a relation follows it."""
    name, prime, below, above = found.groups()
    related = re.match(r" [=<>] ", found.string[found.end() :])
    if not (name in _GREEK or prime or below or above or related):
        return found[0]
    index = f"_{{{_index(below)}}}" if below else ""
    power = f"^{{{above.strip('()')}}}" if above else ""
    return f"${_GREEK.get(name, name)}{prime}{index}{power}$"


def _index(below: str) -> str:
    """A variable is in italics, a name is upright."""
    return below if below.isdigit() or below in ("t", "k", "T") else rf"\mathrm{{{below}}}"
