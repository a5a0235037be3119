"""How programs of experiments are compiled."""

import jax
import pytest

from experiments.compiling import optimised

OPTION = "jax_disable_most_optimizations"


def fail_inside():
    with optimised():
        assert not jax.config.read(OPTION)
        raise KeyError


@pytest.mark.parametrize("before", [True, False])
def test_programs_are_optimised_inside_and_afterwards_as_before(before):
    ours = jax.config.read(OPTION)
    jax.config.update(OPTION, before)
    try:
        with pytest.raises(KeyError):
            fail_inside()
        assert jax.config.read(OPTION) is before
    finally:
        jax.config.update(OPTION, ours)
