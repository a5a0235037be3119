"""The front door to composing: any stack of parts in the one right order, or one line that says why it cannot be.

- `stack`: the choices of a composed system as plain values.
- `refusals`: `why_not(stack)`, the only place that says what does not compose.
- `settled`: what the draw of a stack says of it.
- `marks`: what a reader of a possible stack must know.
- `parts`: the layers, draw, channel and release that a stack stands for.
- `compose`: the system.
"""

from fedjax_priv.systems.composition.marks import MARKS, marks_of
from fedjax_priv.systems.composition.refusals import REASONS, Refusal, why_not
from fedjax_priv.systems.composition.stack import Stack

__all__ = ["MARKS", "REASONS", "Refusal", "Stack", "marks_of", "why_not"]
