"""Rows in batches of one size: each row once and in order, in one program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.engine.batches import in_batches


@pytest.mark.parametrize(("number", "at_once"), [(7, 3), (9, 5), (8, 4), (5, 5), (3, 5)])
def test_each_row_is_computed_once_and_in_order(number, at_once):
    traced = []

    def of_row(row):
        traced.append(row)
        return row["x"] * 10, jax.random.key_data(row["key"])

    rows = {"x": jnp.arange(number), "key": jax.random.split(jax.random.key(0), number)}
    tens, words = jax.jit(lambda rows: in_batches(of_row, rows, at_once))(rows)
    np.testing.assert_array_equal(tens, np.arange(number) * 10)
    np.testing.assert_array_equal(words, jax.random.key_data(rows["key"]))
    assert len(traced) == 1, "a remainder of another size would be traced again"
