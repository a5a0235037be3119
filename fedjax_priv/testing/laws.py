"""The laws of the library, by number and name; a check that fails names the law that is broken."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import chex
import jax
import numpy as np
from jaxtyping import PyTree

LAWS: Mapping[int, str] = MappingProxyType({
    1: "round trip",
    2: "unbiased",
    3: "state keeps its structure",
    4: "one trace",
    5: "draws are by number",
    6: "bits reported are bits built",
    7: "views are uniform",
    8: "a round is a transaction",
    9: "an overflow sets a bit",
    10: "disclosure reads survivors only",
    11: "blocks and devices change no bit",
    12: "the platform is that of the lowering",
    13: "one compilation",
    14: "the same with and without jit",
    15: "shapes, dtypes and finite numbers",
    16: "who takes no part makes no difference",
})  # fmt: skip
"""Number -> name. `docs/laws.md` says what each means, for which parts, and what checks it."""


def require(number: int, holds: Any, why: str) -> None:
    """Raises AssertionError with the law's number and name unless it `holds`."""
    if not holds:
        raise AssertionError(f"law {number} ({LAWS[number]}): {why}")


@contextlib.contextmanager
def law(number: int, why: str) -> Iterator[None]:
    """Assertions of chex inside are of this law: a failed one raises AssertionError with its number and name."""
    try:
        yield
    except AssertionError as found:
        raise AssertionError(f"law {number} ({LAWS[number]}): {why}; {found}") from found


def assert_close(found: PyTree, expected: PyTree, rtol: float) -> None:
    """Leaves differ by at most `rtol` of their largest entry: a small sum of large terms is rounded as those are.

    Raises:
      AssertionError: an entry is further away, or the structures or shapes differ.
    """
    chex.assert_trees_all_equal_shapes(found, expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=rtol * np.abs(b).max(initial=0.0))


def traced_once(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which raises AssertionError if it is traced a second time."""
    chex.clear_trace_counter()  # which knows functions by their address, and an address is used again
    return chex.assert_max_traces(lambda *args: fn(*args), n=1)


def is_compiled(variant: Callable[..., Any]) -> bool:
    """Whether a variant is `jax.jit`, or that of chex. Another one runs each operation alone: it gets fewer cases."""
    return variant is jax.jit or getattr(variant, "type", None) is chex.ChexVariantType.WITH_JIT
