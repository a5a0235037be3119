"""The terminal that tables are printed to: names come out as they are, and a reader may stop early."""

import os
import sys

from rich.console import Console


class Terminal(Console):
    """A console that changes no text."""

    def __init__(self, *, width: int | None = None, soft_wrap: bool = False):
        """A console of so many columns, by default those of the terminal.

        Args:
          width: in columns.
          soft_wrap: whether lines are as long as they are.
        """
        super().__init__(width=width, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> None:
        """Drop what is left where a reader, such as `head`, has closed the pipe: what the work writes is not lost."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
