"""Where a run is kept."""

import pathlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Keep(NamedTuple):
    """A folder that a run leaves: `manifest.json`, `log.jsonl`, checkpoints while it is under way, then `result.nc`.

    A folder with something in it is refused, unless it holds the same run and `resume` is set. A run that was killed
    then goes on from its last checkpoint, and ends with the same bits; one that had ended is only read.
    """

    folder: str | pathlib.Path
    every: int | None = None  # rounds between two checkpoints, a multiple of a chunk's; None: after every chunk
    resume: bool = False  # go on where the run in the folder stopped, or start where there is none
    config: Mapping[str, Any] = MappingProxyType({})  # numbers and strings that name the run, beside the arguments
