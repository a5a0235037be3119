import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.attacks.honest_statistics import honest_mean, honest_std
from helpers import accelerator_forms, equations


def rows(d):
    """Every third is not honest and holds what no statistic may contain."""
    drawn = np.random.default_rng(0).standard_normal((10, d)).astype(np.float32) * np.float32(3) - 2
    honest = np.arange(10) % 3 != 1
    drawn[~honest] = np.nan
    drawn[[0, 2, 5, 9], 0] = np.array([9e37, -9e37, 9e37, -9e37])  # squares overflow, and the sum of magnitudes
    return jnp.asarray(drawn), jnp.asarray(honest)


@pytest.mark.parametrize("d", [1, 8, 9])
def test_statistics_of_honest_rows_in_both_forms(d):
    updates, honest = rows(d)
    exact = np.asarray(updates)[np.asarray(honest)].astype(np.float64)
    of = lambda updates: (honest_mean(updates, honest), honest_std(updates, honest), honest_std(updates, honest, 1))
    expected = exact.mean(0), exact.std(0), exact.std(0, ddof=1)
    np.testing.assert_allclose(np.concatenate(jax.jit(of)(updates)), expected, rtol=1e-5)
    with accelerator_forms():
        np.testing.assert_allclose(np.concatenate(jax.jit(of)(updates)), expected, rtol=1e-5)


def test_there_may_be_no_honest_row():
    updates, none = rows(3)[0], jnp.zeros(10, bool)
    with accelerator_forms():
        assert not honest_mean(updates, none).any() and not honest_std(updates, none).any()


def test_rows_are_read_at_once_on_an_accelerator():
    """A loop has as many kernels, one after the other, as there are clients."""

    def loops():
        program = jax.make_jaxpr(lambda updates: honest_std(updates, jnp.ones(10, bool)))(rows(4)[0])
        return sum(equation.primitive.name in ("scan", "while") for equation in equations(program.jaxpr))

    assert loops() == 3, "the control: the form for a CPU"
    with accelerator_forms():
        assert loops() == 0
