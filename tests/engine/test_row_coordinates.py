"""Coordinates of long rows in a basis of their span, against inner products in float64."""

import contextlib

import jax
import numpy as np
import pytest

from fedjax_priv.engine.row_coordinates import PANEL, WIDTH, coordinates, in_basis
from helpers import accelerator_forms


def nasty_rows(num_rows, d):
    """Rows that depend on each other, nearly or exactly; a zero row; sizes of which float32 has no squares."""
    rows = np.random.default_rng(d).normal(size=(num_rows, d))
    rows[1] = 3 * rows[0]
    rows[2] = rows[0] + 1e-3 * rows[2]
    rows[3] = 0
    rows[4] *= 1e-30
    rows[5] *= 1e30
    rows[-1] = rows[:3].mean(0)
    return rows.astype(np.float32)


@pytest.mark.parametrize("where", [contextlib.nullcontext, accelerator_forms])
@pytest.mark.parametrize(
    ("num_rows", "d"), [(8, 8), (8, WIDTH - 1), (8, WIDTH), (8, 3 * WIDTH + 5), (2 * PANEL + 6, WIDTH + 5)]
)
def test_inner_products_are_kept(num_rows, d, where):
    rows = nasty_rows(num_rows, d)
    with where():
        found = np.asarray(jax.jit(coordinates)(rows), np.float64)
    given = rows.astype(np.float64)
    assert found.shape == (num_rows, num_rows)
    length = np.maximum(np.linalg.norm(given, axis=1), 1e-100)
    error = (found @ found.T - given @ given.T) / np.outer(length, length)
    assert np.abs(error).max() < 1e-5
    small = np.linalg.norm(given[2] - given[0])  # a difference of two rows that are nearly alike keeps its digits
    assert np.linalg.norm(found[2] - found[0]) == pytest.approx(small, rel=1e-3)


def test_what_a_row_is_of_others_is_kept():
    found = np.asarray(jax.jit(coordinates)(nasty_rows(8, 5000)), np.float64)
    np.testing.assert_allclose(found[-1], found[:3].mean(0), atol=1e-5 * np.linalg.norm(found[-1]))


@pytest.mark.parametrize("d", [8, 5000])
def test_coordinates_in_a_basis_give_the_rows_back(d):
    rows = nasty_rows(8, d)
    found, basis = (np.asarray(a, np.float64) for a in jax.jit(in_basis)(rows))
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-5)
    length = np.maximum(np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True), 1e-100)
    assert np.abs((found @ basis - rows) / length).max() < 1e-5


def test_members_of_a_sweep_do_not_mix():
    rows = np.stack([nasty_rows(8, 300), 2 * nasty_rows(8, 300)[::-1]])
    together = jax.jit(jax.vmap(coordinates))(rows)
    for one, alone in zip(together, rows, strict=True):
        np.testing.assert_allclose(
            one @ one.T, jax.jit(coordinates)(alone) @ jax.jit(coordinates)(alone).T, rtol=1e-4, atol=1e-2
        )
