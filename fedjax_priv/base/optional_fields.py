"""Fields that may hold nothing, which is written `()`."""

from jaxtyping import PyTree


def absent(value: PyTree) -> bool:
    """Whether a field is `()`, which stands for nothing. A NamedTuple with fields is not, although it is a tuple.

    Examples:
      >>> absent(()), absent(jnp.zeros(3)), absent(fedjax_priv.base.Kept(1, 2))
      (True, False, False)
    """
    return isinstance(value, tuple) and not value
