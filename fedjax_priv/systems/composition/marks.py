"""What a reader of a possible stack must know: no refusal, but no small print either."""

import numpy as np
from jax.core import Tracer

from fedjax_priv.systems.composition.settled import settled
from fedjax_priv.systems.composition.stack import Stack, is_zero

MARKS = {
    "p": "eps covers values, not the coordinates that clients propose: there is no total eps unless alpha = 1",
    "r": "the coordinates or the projection are common to all rows and public; attackers know them before they send",
    "h": "noise of honest survivors of a buffer only: all Byzantine clients may share yours",
    "m": "the mean under attack: a control, never robust",
    "q": "compressed before a rule: what it guarantees holds on what is sent",
    "t": "the server learns which coordinates each client sent, and sums of as few clients as the threshold",
    "d": "lost clients can leave too few rows: rounds are skipped, or the rule is no longer protected",
}
"""By letter."""
OFTEN = 1e-3
"""Rounds in which too few clients are left, as a fraction, from which on it is worth a mark."""


def marks_of(stack: Stack) -> str:
    """The letters of `MARKS` that apply to a stack, in order.

    Args:
      stack: a possible one.

    Examples:
      >>> marks_of(Stack(num_clients=10, compress="common"))
      'r'
    """
    stack = settled(stack)
    attacked, common = stack.num_byzantine > 0, stack.compress in ("common", "jl")
    applies = {
        "p": stack.compress == "conspar" and stack.private != "none",
        "r": common,
        "h": stack.private == "field" and stack.rows > 1,
        "m": attacked and stack.averages,
        "q": common and not stack.averages,
        "t": stack.secure == "thresholded",
        "d": _may_lack_rows(stack),
    }
    return "".join(letter for letter, here in applies.items() if here)


def _may_lack_rows(s: Stack) -> bool:
    """Whether a rule lacks rows, or a row lacks clients, too often for what it promises; a traced rate may be any."""
    if s.averages or (is_zero(s.dropout) and is_zero(s.leave)):
        return False
    return s.clients_in_a_row > 1 or isinstance(s.dropout, Tracer) or _lacking(s) > OFTEN


def _lacking(s: Stack) -> float:
    """The fraction of rounds without any row or with too few for the rule, where each client has a row."""
    from scipy.stats import binom  # slow to import

    most = (s.aggregate and s.aggregate.most_byzantine) or (lambda num_rows: s.num_byzantine)
    few = [left == 0 or most(left) < s.num_byzantine for left in range(s.num_clients + 1)]
    return float(binom.pmf(np.arange(s.num_clients + 1), s.num_clients, 1 - float(s.dropout)) @ few)
