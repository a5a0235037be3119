"""Where an experiment keeps its runs, so that one that was stopped continues when it is started again."""

import contextlib
import contextvars
import pathlib
from collections.abc import Iterator

from fedjax_priv.runs.records.run_writer import Keep

_FOLDER: contextvars.ContextVar[pathlib.Path | None] = contextvars.ContextVar("folder of runs", default=None)


@contextlib.contextmanager
def keeping(folder: pathlib.Path | None) -> Iterator[None]:
    """Keep the runs of this block in a folder; None: keep none."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def keep(*name: object, setting: object) -> Keep | None:
    """For `sweep` and `simulate`: a folder with the name of a run; None if runs are not kept.

    Args:
      name: of the run, unique in an experiment.
      setting: what else the run depends on; a run with another setting in that folder is refused.
    """
    folder = _FOLDER.get()
    if folder is None:
        return None
    place = "-".join(map(str, name)).replace(" ", "-")
    return Keep(folder / place, resume=True, config={"setting": str(setting)})
