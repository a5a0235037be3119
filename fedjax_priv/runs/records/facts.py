"""`facts.json`: what a run depends on, by name.

A string is a digest of samples, parameters or a program, and a resumed run must have the same. A number was chosen when
the run began, such as the size of a wave, and a resumed run uses it again.
"""

import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

FACTS = "facts.json"
_PROGRAM = "program "  # prefix of the names of programs


def read(folder: pathlib.Path, *, begun: bool) -> dict[str, Any]:
    """The facts of a run; empty before the first one is written.

    Args:
      folder: of the run.
      begun: whether the run has a checkpoint or a result, which are written after facts.

    Raises:
      ValueError: the file is broken, or missing though the run has begun.
    """
    path = folder / FACTS
    if not path.exists():
        if begun:
            raise ValueError(f"{path} is missing: nothing says which run the checkpoint or result belongs to")
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is broken: it holds no object")
    return found


def check_same(folder: pathlib.Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Checks that the run in a folder is the run that a new call describes.

    Raises:
      ValueError: the two runs differ; each difference is named.
    """
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names:
        pairs = [(name, *_told_apart(here.get(name), there.get(name))) for name in names]
        differ = "; ".join(f"{name} is {now}, was {before}" for name, now, before in pairs)
        program = any(name.startswith(_PROGRAM) for name in names)
        why = " (a program is what system, model, loss and evaluate compile to)" if program else ""
        raise ValueError(f"folder {folder} holds another run and cannot be resumed: {differ}{why}")


def _told_apart(here: Any, there: Any) -> tuple[str, str]:
    """Two values as text; long texts are cut to the part in which they begin to differ."""
    texts = ["not given" if value is None else str(value) for value in (here, there)]
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
    start = max(sum(1 for _ in same) - 20, 0)
    cut = lambda text: ("..." if start else "") + text[start : start + 60] + ("..." if text[start + 60 :] else "")
    return cut(texts[0]), cut(texts[1])
