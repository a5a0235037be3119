"""What a reader of a possible stack must know: no refusal, but no small print either."""

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
        "d": not is_zero(stack.dropout) and not stack.averages and stack.rows < stack.num_clients,
    }
    return "".join(letter for letter, here in applies.items() if here)
