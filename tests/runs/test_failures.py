"""What users are told of runs that learn nothing, and of factories that a sweep cannot trace."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import simulate, sweep
from fedjax_priv.runs.failures import EveryRoundFailed
from fedjax_priv.status import Status
from helpers import pulling, targets

D, N, KEY = 8, 3, jax.random.key(3)
DATA = targets(N, D)


def failing(chance, cohort_size=None):
    """An algorithm of few operations, of whose rounds so many fail, with too few survivors."""
    plain = pulling(cohort_size=cohort_size)

    def step(key, state, data):
        after, info = plain.step(key, state, data)
        lost = jax.random.uniform(jax.random.fold_in(key, state.round)) < chance
        status = jnp.where(lost, jnp.int32(Status.NOT_RECOVERED), 0)
        return after, info._replace(status=status, group_status=status[None])

    return plain._replace(step=step)


def alone(chance, rounds=2):
    return simulate(failing(chance), KEY, jnp.zeros(D), DATA, rounds=rounds, progress=False)


def test_a_run_whose_rounds_all_fail_warns_and_says_why():
    with pytest.warns(EveryRoundFailed, match="^every round failed: too few survivors"):
        alone(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 < alone(0.5, rounds=40).attrs["failed_rounds"] < 40


def test_a_sweep_says_of_how_many_runs():
    axes = {"chance": [0.0, 1.0], "cohort_size": [2, 3]}
    with pytest.warns(EveryRoundFailed, match="^every round of 2 of 4 runs failed: too few survivors"):
        sweep(failing, axes, KEY, jnp.zeros(D), DATA, rounds=2, progress=False)


FACTORIES = {
    "branches": lambda rate: pulling(rate if rate < 0.15 else 0.15),
    "NumPy": lambda rate: pulling(np.sqrt(rate)),
    "float": lambda rate: pulling(float(rate)),
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_a_factory_that_needs_numbers_is_told_how_to_get_them(make):
    how = dict(axes={"rate": [0.1, 0.2]}, key=KEY, params=jnp.zeros(D), data=DATA, rounds=1, progress=False)
    message = "axes must be in static if make branches on their values or computes with them in NumPy, got rate"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        sweep(make, **how)
    assert sweep(make, static=["rate"], **how).sizes["rate"] == 2


def test_without_an_axis_of_numbers_the_error_is_not_about_one():
    make = lambda cohort_size: pulling(0.1 if jnp.ones(()) > 0 else 0.2, cohort_size=cohort_size)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        sweep(make, {"cohort_size": [2, 3]}, KEY, jnp.zeros(D), DATA, rounds=1, progress=False)
