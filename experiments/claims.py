"""Words by which a claim says that it is not the paper's, or was not tested."""

from collections.abc import Mapping
from typing import Any

NOT_TESTED = "not tested at this scale"
_OURS = ("(ours)", "ours", "not in the paper")
"""Before or in place of the value of a claim that is not the paper's."""


def is_ours(claim: Mapping[str, Any]) -> bool:
    """Whether the paper says nothing of a claim, given as in `verdicts.json`."""
    return claim["paper"] == "-" or claim["paper"].startswith(_OURS)
