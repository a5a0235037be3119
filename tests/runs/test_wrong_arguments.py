"""What `simulate` and `sweep` refuse, and what they take."""

import inspect

import jax
import numpy as np
import pytest
from runs.test_simulation import DATA, KEY, PARAMS, quadratic, run

from fedjax_priv.runs import checks
from fedjax_priv.runs.sweep import sweep


def test_rounds_may_be_integers_of_numpy():
    rounds, every = inspect.unwrap(checks.checked_rounds)(np.int64(3), np.int32(2))
    assert type(rounds) is int and type(every) is int and (rounds, every) == (3, 2)


def test_metrics_that_are_numbered_are_refused():
    with pytest.raises(ValueError, match=r"^evaluate must name its metrics by strings, got \[1\]$"):
        run(evaluate=lambda params: {1: params["b"].max()})


def test_a_run_without_jit_is_refused():
    with jax.disable_jit(), pytest.raises(ValueError, match=r"^jax_disable_jit must be False here, .*, got True"):
        run()
    with jax.disable_jit(), pytest.raises(ValueError, match=r"^jax_disable_jit must be False here"):
        sweep(quadratic, {"seed": [0]}, KEY, PARAMS, DATA, rounds=1)
