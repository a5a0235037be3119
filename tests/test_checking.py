import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float, TypeCheckError, jaxtyped

from checking import typechecked
from fedjax_priv import aggregators


def closure(kind):
    def apply(x: kind) -> kind:
        return x

    return jaxtyped(apply, typechecker=typechecked)


def test_closures_of_one_name_are_checked_each_by_its_own_types():
    whole, text, row = closure(int), closure(str), closure(Float[Array, " n"])
    assert whole(1) == closure(int)(1) == 1 and text("a") == "a" and row(jnp.ones(2)).shape == (2,)
    for function, wrong in ((whole, "a"), (text, 1), (row, jnp.ones((2, 2)))):
        with pytest.raises(TypeCheckError):
            function(wrong)


def test_closures_of_one_name_may_have_other_defaults():
    def made(default):
        if default:

            def apply(x: int, *, y: int = 3) -> int:
                return x + y
        else:

            def apply(x: int, *, y: int) -> int:
                return x + y

        return jaxtyped(apply, typechecker=typechecked)

    assert made(False)(1, y=2) == made(True)(1, y=2) == 3
    assert made(True)(1) == 4


def test_the_package_is_checked():
    with pytest.raises(TypeCheckError, match="bucketing"):
        aggregators.bucketing("2")
