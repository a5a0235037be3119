"""RobAJoL: projections, rules on them, noise before and after, its privacy figures and their audit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.aggregators import (
    centered_clipping,
    geometric_median,
    in_sketch,
    mean,
    trimmed_mean,
)
from fedjax_priv.aggregators.by_name import unprotected_mean
from fedjax_priv.base import Received
from fedjax_priv.crypto.sketch import Projection, Sketched, projection
from fedjax_priv.layers import jl
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.ledger import ledger, planned, worst
from fedjax_priv.systems import compose, robajol
from helpers import of_the_round, one_round, refuses, targets

KEY = jax.random.key(1)
D, K, N = 60, 12, 6
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
SEEDS = jax.random.bits(KEY, (1500, 2), jnp.uint32)
FORMS = [False, True]


def matrix(by, seed):
    """P, float64, from its action on the unit vectors."""
    return np.asarray(jax.jit(by.project)(seed, np.eye(by.num_params, dtype=np.float32)), np.float64).T


@pytest.mark.parametrize("dense", FORMS)
def test_there_and_back_are_one_matrix(dense):
    by, seed = projection(D, K, dense=dense), SEEDS[0]
    p = matrix(by, seed)
    np.testing.assert_allclose(by.project(seed, jnp.asarray(X)), X @ p.T, atol=1e-5)
    z = np.random.default_rng(1).normal(size=(3, K)).astype(np.float32)
    np.testing.assert_allclose(by.back(seed, jnp.asarray(z)), z @ p, atol=1e-5)
    np.testing.assert_allclose((p**2).sum(0), 1, rtol=1e-5)
    if not dense:
        assert ((p != 0).sum(0) == 1).all()
    assert (matrix(by, SEEDS[1]) != p).any()


def test_the_row_and_the_sign_of_a_column_are_independent():
    """The control has the sign depend on the row."""
    row, sign = map(np.asarray, projection(40_000, 8)._columns(SEEDS[0]))
    table = lambda sign: np.array([np.bincount(row[sign == s], minlength=8) for s in (-1, 1)])
    assert stats.chi2_contingency(table(sign)).pvalue > 1e-4 > stats.chi2_contingency(table(1 - 2 * (row % 2))).pvalue
    assert abs(sign.mean()) < 5 / 200


def test_neighbouring_entries_of_a_dense_matrix_are_independent():
    signs = matrix(projection(256, 16, dense=True), SEEDS[1]) * 4
    assert set(np.unique(signs)) == {-1.0, 1.0}
    for product in (signs, signs[1:] * signs[:-1], signs[:, 1:] * signs[:, :-1]):
        assert abs(product.mean()) < 5 / np.sqrt(product.size)


@pytest.mark.parametrize("dense", FORMS)
def test_it_is_unbiased_and_as_noisy_as_rand_k(dense):
    """E P'P = I; E ||P'P x - x||^2 = (d-1)/k ||x||^2, and not d/k - 1 of it or (d+1)/k."""
    by, x = projection(D, K, dense=dense), jnp.asarray(X[0])
    found = jax.jit(jax.vmap(lambda seed: by.back(seed, by.project(seed, x))))(SEEDS)
    found = np.asarray(found, np.float64)
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(0) - X[0]) < 5 * error).all()
    ratio = ((found - X[0]) ** 2).sum(1) / (X[0] ** 2).sum()
    assert abs(ratio.mean() - (D - 1) / K) < 5 * ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean() - (D / K - 1)) > 5 * ratio.std() / np.sqrt(len(ratio)), "a control"


def rounds(noise, seeds=400, k=K, sigma=0.5, clip=2.0):
    """Directions of rounds in which all updates are 0: noise alone."""
    system = robajol(
        of_the_round(jnp.zeros((N, 1, D))), num_clients=N, num_params=D, k=k, clip=clip, noise_multiplier=sigma,
        noise=noise, aggregate=mean(), mesh=None,
    )  # fmt: skip
    data, params = targets(N, D), jnp.zeros(D)
    one = lambda key: system.step(key, system.init(key, params, data), data)[1].direction
    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(KEY, seeds)), np.float64)


@pytest.mark.parametrize(("noise", "factor"), [("after", 1.0), ("before", (K + D - 1) / K)])
def test_noise_after_the_projection_costs_less(noise, factor):
    """The squared norm of a direction's noise is sigma^2 C^2 d / n times this, on average."""
    total = (rounds(noise) ** 2).sum(1)
    expected = factor * 0.5**2 * 2.0**2 * D / N
    assert abs(total.mean() - expected) < 5 * total.std() / np.sqrt(len(total))


def test_without_noise_the_direction_is_the_mean_on_average():
    """And clipped after the projection: the control at a small clip is biased."""
    system = lambda clip: robajol(
        of_the_round(jnp.asarray(X)[:, None]), num_clients=N, num_params=D, k=K, clip=clip, noise_multiplier=0.0,
        aggregate=mean(), mesh=None,
    )  # fmt: skip

    def directions(clip):
        data = targets(N, D)
        one = lambda key: (made := system(clip)).step(key, made.init(key, jnp.zeros(D), data), data)[1]
        info = jax.vmap(one)(jax.random.split(KEY, 600))
        return info.direction, info.bits["upload"].up, info.bits["model"].down

    found, up, down = map(np.asarray, jax.jit(jax.vmap(directions))(jnp.array([1e3, 1.0])))
    away = lambda rows: np.abs(rows.mean(0) - X.mean(0)) / (rows.std(0) / np.sqrt(len(rows)))
    assert away(found[0]).max() < 5 < away(found[1]).max()
    assert (up == 32 * K).all() and (down == 32 * K).all()


def test_a_masked_sketch_of_buffers_is_the_sketch_of_the_mean():
    """`compose` under masks, which are not expanded, against the matrix in float64."""
    system = compose(
        of_the_round(jnp.asarray(X)[:, None]), num_clients=N, num_params=D, compress="jl", k=K, secure="secagg",
        buffer_size=2, aggregate=unprotected_mean(), mesh=None, observe=lambda view: view.public, elide=True,
    )  # fmt: skip
    _, _, info = one_round(system, targets(N, D), D)
    (seed,) = jax.tree.leaves(info.observed["sketch"])
    p, group = matrix(projection(D, K), seed), np.asarray(info.observed["mask"].group)
    rows = np.stack([X[group == b].astype(np.float64).mean(0) for b in range(3)])
    away = lambda row: np.abs(info.direction - row @ p.T @ p).max()
    assert away(rows.mean(0)) < 1e-4 < 0.01 < away(np.median(rows, axis=0))


# Rules in the sketch


def sketched(by, seed, rows):
    return Received(Sketched(by.project(seed, rows), jnp.tile(seed, (len(rows), 1))), jnp.ones(len(rows), jnp.int32))


@pytest.mark.parametrize("dense", FORMS)
def test_a_rule_works_on_projections(dense):
    by, seed, rule = projection(D, K, dense=dense), SEEDS[2], in_sketch(trimmed_mean(1), D, K, dense=dense)
    p = matrix(by, seed)
    direction, state = rule.apply(KEY, rule.init(D), sketched(by, seed, jnp.asarray(X)))
    z = np.sort(X.astype(np.float64) @ p.T, axis=0)[1:-1].mean(0)
    np.testing.assert_allclose(direction, p.T @ z, atol=1e-4)
    assert state == () and rule.most_byzantine(N) == 1


def test_state_is_projected_and_taken_back_shrunk():
    """Centered clipping starts at P of its last direction; k / (k+d-1) keeps the norm from growing."""
    by, rule = projection(D, K), in_sketch(centered_clipping(0.5, steps=1), D, K)
    before = np.random.default_rng(3).normal(size=D).astype(np.float32)
    _, after = jax.jit(lambda: rule.apply(KEY, jnp.asarray(before), sketched(by, SEEDS[3], jnp.asarray(X))))()
    p = matrix(by, SEEDS[3])
    start, rows = p @ before, X.astype(np.float64) @ p.T
    away = rows - start
    step = (away * np.minimum(1, 0.5 / np.linalg.norm(away, axis=1))[:, None]).mean(0)
    np.testing.assert_allclose(after, K / (K + D - 1) * (start + step) @ p, atol=1e-4)


def test_the_error_of_a_rule_is_longer_in_the_direction_than_in_the_sketch():
    """By d / k in squares, for an error that does not know P: here the pull of one row that is drawn without it."""
    by = projection(D, K, dense=True)
    bad = jnp.asarray(X).at[0].set(50.0)
    rule = geometric_median()

    def errors(seed):
        z = by.project(seed, bad)
        u = rule.apply(KEY, rule.init(K), Received(z, jnp.ones(N, jnp.int32)))[0] - z[1:].mean(0)
        return jnp.square(u).sum(), jnp.square(by.back(seed, u)).sum()

    short, long = map(np.asarray, jax.jit(jax.vmap(errors))(SEEDS[:300]))
    assert 0.7 * D / K < (long / short).mean() < (1 + np.sqrt(D / K)) ** 2


def test_a_projection_that_depends_on_data_is_refused():
    rule = in_sketch(mean(), D, K)
    rows = Sparse(jnp.zeros((N, K)), jnp.zeros((N, K), jnp.int32))
    with pytest.raises(ValueError, match="^rows must be sketches of 12 numbers by a public seed, .* got Sparse$"):
        rule.apply(KEY, (), Received(rows, jnp.ones(N, jnp.int32)))
    with pytest.raises(ValueError, match="^rows must be sketches of 12 numbers by a public seed, .* got 13 numbers$"):
        rule.apply(KEY, (), sketched(Projection(D, 13), SEEDS[0], jnp.asarray(X)))


# Privacy


def of_noise(k, sigma=4.0):
    return robajol(
        of_the_round(jnp.zeros((N, 4, D))), num_clients=N, num_params=D, k=k, clip=2.0, noise_multiplier=sigma,
        aggregate=mean(), mesh=None,
    )  # fmt: skip


@functools.cache
def four_rounds():
    return planned(of_noise(K), KEY, jnp.zeros(D), targets(N, D), 4)


def figures(*noise):
    return ledger(of_noise(*noise), four_rounds(), targets(N, D), delta=1e-5)


def test_eps_is_that_of_a_gaussian_mechanism_whatever_k():
    """delta(eps) of N(0, 1) and N(mu, 1), mu = 2 sqrt(T) / sigma or half of it, by its integral."""
    for entries in (figures(K), figures(5)):
        for entry, distance in zip(entries, (2.0, 1.0), strict=True):
            eps, mu = worst(entry.proved), distance * np.sqrt(4) / 4.0
            delta = stats.norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * stats.norm.cdf(-mu / 2 - eps / mu)
            assert abs(delta - 1e-5) < 1e-9 and entry.gaussian
    assert [entry.neighbours for entry in figures(K)] == ["replacement", "zero-out"]
    assert figures(K, 0.0)[0].proved.epsilon is None


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: jl(10, 11), "k must be at most num_params = 10, got 11"),
    (lambda: jl(10, 0), "k must be an integer >= 1, got 0"),
    (lambda: in_sketch(mean(), 0, 1), "num_params must be an integer >= 1, got 0"),
    (lambda: made(k=None, ratio=0.0), "ratio must be a number in .0, 1., got 0.0"),
    (lambda: made(noise_multiplier=-1.0), "noise_multiplier must be a finite number >= 0, got -1.0"),
    (lambda: made(clip=0.0), "clip must be a finite number > 0, got 0.0"),
    (lambda: made(num_byzantine=2, aggregate=trimmed_mean(1)), "num_byzantine=2 can corrupt 2 of 6 rows"),
)


def made(**how):
    return robajol(of_the_round(jnp.zeros((N, 1, D))), num_clients=N, num_params=D, **{"k": K, **how})
