"""Bulyan against another counting of neighbours and another middle, and what FLTrust never does."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators import references
from fedjax_priv import aggregators
from fedjax_priv.aggregators.numerics.around_median import mean_around_median
from fedjax_priv.aggregators.numerics.row_distances import distances
from fedjax_priv.aggregators.rules import bulyan as bulyan_module
from helpers import accelerator_forms, equations

ROWS = np.random.default_rng(5).normal(size=(16, 8)).astype(np.float32)
SETTINGS = [(f, m) for f in (0, 2, 3) for m in (4 * f + 3, 16)]


@pytest.mark.parametrize(("f", "m"), SETTINGS)
def test_bulyan_of_more_byzantine_rows(f, m):
    x = ROWS[:m].astype(np.float64)
    x[:f] = -5 * x[f:].mean(0)
    assert aggregators.bulyan(f).most_byzantine(m) == f
    np.testing.assert_allclose(aggregators.bulyan(f)(x), references.bulyan(x, f), atol=1e-5)


def bulyan(x, f, excess, centre):
    left, picked = list(range(len(x))), []
    while len(picked) < len(x) - 2 * f:
        best = references.krum_scores(x[left], max(len(left) - f - excess, 0)).argmin()
        picked.append(left.pop(int(best)))
    b = x[picked]
    nearest = np.argsort(np.abs(b - centre(b, axis=0)), 0, kind="stable")[: len(b) - 2 * f]
    return np.take_along_axis(b, nearest, 0).mean(0)


def test_other_countings_give_other_directions():
    """The controls: one neighbour more, and the values nearest to the mean of the picked rows."""
    rule = aggregators.bulyan(2)
    ours = lambda x: np.asarray(rule(x), np.float64)
    away = lambda excess, centre: max(
        np.abs(ours(x) - bulyan(x.astype(np.float64), 2, excess, centre)).max()
        for x in np.random.default_rng(0).normal(size=(8, 11, 8)).astype(np.float32)
    )
    assert away(2, np.median) < 1e-5
    assert away(1, np.median) > 1e-2 and away(3, np.median) > 1e-2 and away(2, np.mean) > 1e-2


@pytest.mark.parametrize("there", [0.8, 1.0])
def test_bulyan_of_many_rows(there):
    """Enough that the winner is among the neighbours that count of one row and beyond those of another."""
    rng = np.random.default_rng(7)
    for f in (0, 3, 9):
        x, ok = rng.normal(size=(48, 3)).astype(np.float32), rng.random(48) < there
        x[:f] *= 4
        expected = references.bulyan(x[ok].astype(np.float64), f)
        np.testing.assert_allclose(aggregators.bulyan(f)(x, ok), expected, atol=1e-5)


def test_bulyan_of_rows_that_are_far_or_not_there():
    """More are far than no score counts: all scores are alike, and the first rows are picked."""
    x, ok = ROWS.copy(), np.arange(16) % 5 != 1
    x[[2, 3, 4, 5, 7, 8]] *= 1e30
    found = jax.jit(lambda x, ok: bulyan_module._picks(distances(x, ok), ok, ok.sum() - 4, 2))(x, ok)
    near = np.setdiff1d(np.flatnonzero(ok), [2, 3, 4, 5, 7, 8])
    left, picked = list(np.flatnonzero(ok)), []
    squares = ((x[:, None].astype(np.float64) - x) ** 2).sum(-1)
    squares[:, np.setdiff1d(np.arange(16), near)] = squares[np.setdiff1d(np.arange(16), near)] = np.inf
    while len(picked) < ok.sum() - 4:
        score = [min(np.sort(squares[i][[j for j in left if j != i]])[: len(left) - 4].sum(), 3e38) for i in left]
        score = [value if i in near else 3e38 for i, value in zip(left, score, strict=True)]
        picked.append(left.pop(int(np.argmin(score))))
    np.testing.assert_array_equal(np.flatnonzero(found), np.sort(picked))


def test_bulyan_sorts_distances_before_its_picks_and_knows_how_many():
    """A sort in each pick took 14 s for 600 rows; a GPU asks the host after each turn of a loop of unknown length."""
    names = lambda jaxpr: [equation.primitive.name for equation in equations(jaxpr)]
    of = lambda distance, ok: bulyan_module._picks(distance, ok, ok.sum() - 6, 3)
    program = jax.make_jaxpr(of)(ROWS @ ROWS.T, ROWS[:, 0] > 0).jaxpr
    (loop,) = [equation for equation in equations(program) if equation.primitive.name in ("scan", "while")]
    assert loop.primitive.name == "scan" and "sort" in names(program)
    assert "sort" not in names(loop.params["jaxpr"].jaxpr)


TRUST = aggregators.fltrust()


def trusted(rows):
    return np.asarray(TRUST(rows), np.float64)


def test_no_majority_takes_fltrust_out_of_the_half_ball_of_the_reference():
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows = (rng.normal(size=(7, 5)) * 10 ** rng.uniform(-8, 8, (7, 1))).astype(np.float32)
        reference, found = rows[0].astype(np.float64), trusted(rows)
        assert np.linalg.norm(found) <= np.linalg.norm(reference) * (1 + 1e-5)
        assert found @ reference >= -1e-5 * np.linalg.norm(found) * np.linalg.norm(reference)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[5, 0], [1.2e-38, 0], [1, 1]], 5 * np.array([1.5, 0.5]) / (1 + 0.5**0.5)),
        ([[1e10, 0], [1e-30, 0], [1, 1]], 1e10 * np.array([1.5, 0.5]) / (1 + 0.5**0.5)),
        ([[5, 0], [3e38, 3e38], [0, 1]], 5 * np.array([0.5, 0.5]) * 2**0.5),
        ([[5, 0], [np.inf, 1], [1, 1]], 5 * np.array([0.5, 0.5]) * 2**0.5),
    ],
)
def test_fltrust_is_no_longer_than_the_reference_whatever_the_size_of_other_rows(rows, expected):
    """A weight is the ratio of two lengths, which float32 may not hold though it holds both."""
    np.testing.assert_allclose(trusted(np.array(rows, np.float32)), expected, rtol=1e-5)


def test_fltrust_of_rows_that_point_away_is_zero_and_of_zeros_too():
    rows = np.vstack([ROWS[0], -ROWS[0], 0 * ROWS[0], np.full(8, np.nan), np.full(8, np.inf)])
    found = TRUST(rows, np.ones(5, bool))
    np.testing.assert_array_equal(found, np.zeros(8))
    np.testing.assert_array_equal(TRUST(np.zeros((3, 4))), np.zeros(4))
    lone = np.vstack([rows, 7 * ROWS[0]])
    np.testing.assert_allclose(trusted(lone[[0, 1, 2, 5]]), ROWS[0], rtol=1e-5)


def test_fltrust_has_no_direction_without_the_reference():
    rule = aggregators.fltrust(pivot=2)
    assert np.isnan(rule(ROWS, np.arange(16) != 2)).all()
    assert np.isnan(rule(np.where(np.arange(16)[:, None] == 2, np.inf, ROWS), np.ones(16, bool))).all()
    np.testing.assert_allclose(
        rule(ROWS), references.fltrust(np.vstack([ROWS[2], np.delete(ROWS, 2, 0)]).astype(np.float64)), atol=1e-5
    )


TIED = np.array([-1.6, -1.6, -1.6, -1.1, -0.98, -0.95, 0.69, 0.71, 0.73, 0.82])
"""The middle is -0.965. If four values count, the last of them is any of three equal ones."""


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("form", [contextlib.nullcontext, accelerator_forms])
def test_equal_distances_are_equal_in_a_program_that_scales_rows_first(optimised, d, form):
    """Where a distance is computed for two uses, and the product of the scale goes into one of them alone."""

    def middle(rows):
        rows = rows - rows.mean(0)[None]
        rows = rows / jnp.sqrt(jnp.square(rows).sum(1).mean())
        return rows[3:6], mean_around_median(rows, jnp.isfinite(rows).all(1), jnp.int32(4)), rows[0]

    by = np.random.default_rng(0).uniform(0.3, 3.0, 200).astype(np.float32)
    with form():
        near, found, last = jax.jit(jax.vmap(middle))(by[:, None, None] * np.repeat(TIED[:, None], d, 1).astype("f4"))
    np.testing.assert_allclose(found, (near.sum(1) + last) / 4, rtol=1e-5)


PICKED = np.array([
    -1.58564, -1.58564, -1.59116, -0.97824, -1.58564, -1.58564, -1.1124, -0.95485,
    0.73391, 0.68682, 0.82296, 0.84632, 0.70663, 0.83547, 0.72674, 0.85792,
])  # fmt: skip
"""Ten are picked; of the four values nearest to their median the last is any of three equal ones."""


@pytest.mark.parametrize("d", [1, 3])
def test_bulyan_of_equal_distances_in_a_program_that_scales_rows_first(optimised, d):
    def both(rows):
        rows = rows - rows[3:].mean(0)[None]
        rows = rows / jnp.sqrt(jnp.square(rows[3:]).sum(1).mean())
        return rows[jnp.array([0, 3, 6, 7])].mean(0), aggregators.bulyan(3)(rows)

    by = np.random.default_rng(0).uniform(0.3, 3.0, 60).astype(np.float32)
    expected, found = jax.jit(jax.vmap(both))(by[:, None, None] * np.repeat(PICKED[:, None], d, 1).astype("f4"))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
