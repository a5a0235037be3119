"""A key for what draws nothing: keys of stages come out of it, and a draw is an error."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import PRNGKeyArray


def _refuse(*arguments: Any) -> Any:
    raise ValueError("key must be given: this rule draws")


_IMPL = define_prng_impl(
    key_shape=(1,), seed=lambda seed: jnp.zeros(1, jnp.uint32), split=_refuse, random_bits=_refuse,
    fold_in=lambda key, data: key, name="keyless", tag="keyless",
)  # fmt: skip


def keyless() -> PRNGKeyArray:
    """The key; random bits of it, or a split, are a ValueError when the program is traced."""
    return jax.random.key(0, impl=_IMPL)
