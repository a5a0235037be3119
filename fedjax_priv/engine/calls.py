"""Calls of functions that users write: an error says in which of them it was raised, and with what.

A function of a round is traced once and computed in every round. So it may not branch on values, and what it draws from
NumPy's generator is the same in every round.
"""

import contextlib
import pickle
import traceback
import warnings
from collections.abc import Iterator

import jax
import numpy as np
from jax.errors import ConcretizationTypeError, TracerArrayConversionError
from jaxtyping import PyTree

_TRACED = {
    ConcretizationTypeError: "it is traced, so it may not depend on values: see jnp.where and jax.lax.cond",
    TracerArrayConversionError: "it is traced, so NumPy cannot compute with it: use jax.numpy, or jax.pure_callback",
}


@contextlib.contextmanager
def calling(name: str, **given: PyTree) -> Iterator[None]:
    """Adds to an error raised inside which function was called, and the shapes of what it was given.

    Our own errors name the argument that is wrong; they stay as they are.

    Warns:
      UserWarning: the function drew from `np.random`.

    Examples:
      >>> try:
      ...     with calling("halve.encode", x=np.ones((2, 3), np.float32)):
      ...         raise ValueError("wrong")
      ... except ValueError as error:
      ...     print(error.__notes__[0])
      in halve.encode, called with x float32[2, 3]
    """
    drawn = _numpy_state()
    try:
        yield
    except Exception as error:
        if not _ours(error):
            error.add_note(f"in {name}, called with {', '.join(f'{key} {_shapes(a)}' for key, a in given.items())}")
            for kind, note in _TRACED.items():
                if isinstance(error, kind):
                    error.add_note(note)
        raise
    if _numpy_state() != drawn:
        warnings.warn(
            f"{name} draws from np.random while it is traced, so every round has the same draw: use jax.random and "
            "the key it is given",
            stacklevel=3,
        )


def _ours(error: Exception) -> bool:
    """Whether it was raised by a line of this package."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith("fedjax_priv.")


def _numpy_state() -> bytes:
    """What changes with each draw of the global generator, whichever it is."""
    return pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002


def _shapes(tree: PyTree) -> str:
    one = lambda a: f"{a.dtype}[{', '.join(map(str, a.shape))}]" if hasattr(a, "dtype") else type(a).__name__
    leaves = [one(a) for a in jax.tree.leaves(tree)]
    return ", ".join(leaves[:4]) + (", ..." if len(leaves) > 4 else "") or "()"
