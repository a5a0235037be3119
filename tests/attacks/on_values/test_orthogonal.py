"""Orthogonal perturbation against ROP's formula in float64, and what clipping leaves of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import centered_clipping
from fedjax_priv.attacks import foe, orthogonal_perturbation
from helpers import refuses

N, D = 8, 7
KEY = jax.random.key(0)
HONEST = ~np.isin(np.arange(N), [0, 5])
UPDATES = np.random.default_rng(4).normal(0.5, 2, size=(N, D)).astype(np.float32)
UPDATES[:, 0] += 5  # so that what is across has both signs


@jax.jit
def attacked(updates, length, angle):
    honest = jnp.asarray(HONEST)
    return orthogonal_perturbation(length, angle=angle)(KEY, updates, honest, ~honest)[0]


def sent(updates, length=2.0, angle=90.0):
    rows = np.where(HONEST[:, None], updates, np.nan).astype(np.float32)
    return np.asarray(attacked(rows, length, angle))


def rop(x, length, angle, *, pi=0.0, lamb=0.0, previous=0.0):
    """The authors' steps: a place, a reference, ones without their part along it, turned, scaled, added."""
    mu = x.mean(0)
    reference = lamb * previous + (1 - lamb) * mu
    across = np.ones_like(mu) - reference * (reference.sum() / (reference @ reference))
    across /= np.linalg.norm(across)
    turned = np.sin(np.radians(angle)) * across + np.cos(np.radians(angle)) * reference / np.linalg.norm(reference)
    return pi * previous + (1 - pi) * mu + length * turned / np.linalg.norm(turned)


@pytest.mark.parametrize("angle", [0.0, 45.0, 90.0, 180.0])
def test_it_is_rop_around_the_honest_mean(angle):
    for scale in (1e-3, 1.0, 300.0):
        updates = np.float32(scale) * UPDATES
        expected = rop(updates[HONEST].astype(np.float64), 2.0, angle)
        np.testing.assert_allclose(sent(updates, 2.0, angle), expected, rtol=1e-5, atol=1e-5)


def test_across_is_across_and_as_long_as_asked():
    mean = UPDATES[HONEST].astype(np.float64).mean(0)
    for length, angle in ((0.0, 90.0), (3.0, 90.0), (3.0, 180.0)):
        step = sent(UPDATES, length, angle) - mean
        assert np.linalg.norm(step) == pytest.approx(length, abs=1e-5)
        assert step @ mean / np.linalg.norm(mean) == pytest.approx(length * np.cos(np.radians(angle)), abs=1e-5)


def test_directions_that_do_not_exist_are_zero():
    """A mean of 0 has no direction; one along the ones has nothing across. Rounding is no direction."""
    opposite = np.zeros((N, D), np.float32)
    opposite[1], opposite[2] = UPDATES[1], -UPDATES[1]
    np.testing.assert_allclose(sent(opposite), 2 / np.sqrt(D) * np.ones(D), rtol=1e-6)
    np.testing.assert_array_equal(sent(opposite, angle=180.0).round(6), np.zeros(D))
    alike = np.full((N, D), 0.1, np.float32)
    np.testing.assert_allclose(sent(alike), 0.1 * np.ones(D), rtol=1e-6)


def test_zeros_at_the_end_of_honest_rows_cost_no_length():
    """As of places that ConSpar does not use; a zero of one honest row, or before others, is a place like any."""
    updates = UPDATES.copy()
    updates[HONEST, 2] = updates[1, -1] = 0
    padded = np.concatenate([updates, np.where(HONEST[:, None], 0, UPDATES)], 1)
    expected = np.concatenate([rop(updates[HONEST].astype(np.float64), 2.0, 120.0), np.zeros(D)])
    np.testing.assert_allclose(sent(padded, 2.0, 120.0), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sent(0 * updates), 2 / np.sqrt(D) * np.ones(D), rtol=1e-6)


def test_clipping_shortens_what_is_far_but_not_this():
    """Within the radius a row moves the centre by its whole distance; far ones only by the radius."""
    radius, mean = 1.0, jnp.asarray(np.full((8, D), [0, 0, 0, 0, 0, 0, 1]), jnp.float32)
    rule = centered_clipping(radius=radius, steps=1, start="zero")
    honest = jnp.arange(8) > 0
    moved = {}
    for name, attack in {"across": orthogonal_perturbation(0.5), "against": foe(100.0)}.items():
        rows = jnp.where(honest[:, None], mean / 2, attack(KEY, mean / 2, honest, ~honest))
        moved[name] = np.asarray(rule(rows) - mean[0] / 2)
    assert np.linalg.norm(moved["across"]) == pytest.approx(0.5 / 8, rel=1e-5)
    assert np.linalg.norm(moved["against"]) == pytest.approx((radius + 0.5) / 8, rel=1e-5)
    assert moved["across"][-1] == pytest.approx(0, abs=1e-7)


def test_a_traced_length_out_of_range_is_nan():
    assert np.isnan(sent(UPDATES, -1.0)).all() and np.isnan(sent(UPDATES, 1.0, -1.0)).all()


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: orthogonal_perturbation(-1.0), "length must be a finite number >= 0, got -1.0"),
    (lambda: orthogonal_perturbation(angle=float("inf")), "angle must be a finite number >= 0, got inf"),
    whole=True,
)
