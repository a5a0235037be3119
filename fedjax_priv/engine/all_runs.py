"""One number for all members of a `vmap`: what it decides stays a branch, or a loop that ends, for all of them."""

from jax.custom_batching import custom_vmap
from jaxtyping import Array


@custom_vmap
def largest_of_all_runs(numbers: Array) -> Array:
    """The largest of `numbers`, `[b]`; of truth values, whether any is true. Under `vmap`, that of all members.

    Examples:
      >>> import jax, jax.numpy as jnp
      >>> print(jax.vmap(largest_of_all_runs)(jnp.array([[1, 2], [5, 3]])))
      [5 5]
    """
    return numbers.max()


@largest_of_all_runs.def_vmap
def _(axis_size: int, in_batched: list, numbers: Array) -> tuple[Array, bool]:
    del axis_size, in_batched
    return largest_of_all_runs(numbers), False
