"""Random keys by name, round and client: adding a stage or a client changes no other draw.

A run has one root key; `round -> fold_in(t)`, `stage -> fold_in(name)`, `client -> fold_in(number)`. No state holds a
key, and no factory captures one.
"""

import functools
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

Key = PRNGKeyArray


def named(key: Key, name: str) -> Key:
    """The key of a named stage, whichever other stages exist.

    Raises:
      ValueError: `name` is no string.

    Examples:
      >>> key = jax.random.key(0)
      >>> bool(named(key, "noise") == named(key, "noise")), bool(named(key, "noise") == named(key, "draw"))
      (True, False)
    """
    return jax.random.fold_in(key, _number(name))


def each_named(key: Key, names: Iterable[str]) -> dict[str, Key]:
    """The keys of several stages, each as `named` has it.

    They are computed together: on a CPU, XLA compiles a dozen kernels for each call of `named`.

    Raises:
      ValueError: `names` are no strings, or a single one.

    Examples:
      >>> key = jax.random.key(0)
      >>> bool(each_named(key, ["noise", "draw"])["draw"] == named(key, "draw"))
      True
    """
    if isinstance(names, str):
        raise ValueError(f"names must be strings in a list, got {names!r}")
    numbers = {name: _number(name) for name in names}
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, np.array([*numbers.values()], np.uint32))
    return {name: keys[i] for i, name in enumerate(numbers)}


def _number(name: Any) -> int:
    if not isinstance(name, str):
        raise ValueError(f"name must be a string, such as 'noise', got {name!r}")
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def per_client(draw: Callable[[Key], PyTree], key: Key, client: Int[Array, " b"]) -> PyTree:
    """One draw per client, `[b, ...]`, from the client's number: the same in any cohort and block.

    Examples:
      >>> key = jax.random.key(0)
      >>> first, second = (per_client(jax.random.bits, key, jnp.array(clients)) for clients in ([3, 5], [5, 7, 3]))
      >>> int(first[0]) == int(second[2])  # both are of client 3
      True
    """
    return jax.vmap(lambda i: draw(jax.random.fold_in(key, i)))(client)


def keyless() -> Key:
    """A key for rules that draw nothing.

    It can be folded but not split; splitting it, or drawing from it, raises ValueError when traced.

    Examples:
      >>> rule = fedjax_priv.aggregators.mean()
      >>> received = fedjax_priv.base.Received(jnp.array([[1.0], [3.0]]), count=jnp.array([1, 1]))
      >>> print(rule.apply(keyless(), rule.init(1), received)[0])
      [2.]
    """
    return jax.random.key(0, impl=_keyless_implementation())


@functools.cache
def _keyless_implementation() -> Any:
    from jax.extend.random import define_prng_impl  # imports Pallas

    return define_prng_impl(
        key_shape=(1,), seed=lambda seed: jnp.zeros(1, jnp.uint32), split=_refuse, random_bits=_refuse,
        fold_in=lambda key, data: key, name="keyless", tag="keyless",
    )  # fmt: skip


def _refuse(*arguments: Any) -> Any:
    raise ValueError("key must be given: this rule draws random numbers")
