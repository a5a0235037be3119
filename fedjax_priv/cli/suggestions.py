"""A word that names no command and no system, answered in one line with the one that was probably meant."""

import difflib
from collections.abc import Collection, Mapping, Sequence


def check_words(arguments: Sequence[str], commands: Collection[str], under: Mapping[str, Collection[str]]) -> None:
    """Refuses an unknown command, or an unknown system after a command that takes one.

    Args:
      arguments: of the command line; options are left to its parser.
      commands: that exist.
      under: the systems that exist, by the commands that take one.

    Raises:
      ValueError: a word is unknown.
    """
    words = [*arguments[:2], "", ""]
    _known("command", words[0], commands)
    _known("system", words[1].replace("-", "_"), under.get(words[0], ()))


def _known(what: str, word: str, names: Collection[str]) -> None:
    if not names or not word or word.startswith(("-", "_")) or word in names:
        return
    meant = difflib.get_close_matches(word, names, n=1)
    hint = f"; did you mean {meant[0]}?" if meant else ""
    raise ValueError(f"{what} must be one of {', '.join(names)}, got {word}{hint}")
