"""A key that must not be used, for rules that draw nothing."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import PRNGKeyArray


def _refuse(*arguments: Any) -> Any:
    raise ValueError("key must be given: this rule draws random numbers")


_IMPL = define_prng_impl(
    key_shape=(1,), seed=lambda seed: jnp.zeros(1, jnp.uint32), split=_refuse, random_bits=_refuse,
    fold_in=lambda key, data: key, name="keyless", tag="keyless",
)  # fmt: skip


def keyless() -> PRNGKeyArray:
    """A key that can be folded but not split; splitting it, or drawing from it, raises ValueError when traced."""
    return jax.random.key(0, impl=_IMPL)
