"""The same results as ByzFL 0.0.11, if it is installed (extra `byzfl`), with its conventions as arguments."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import aggregators, sweep, systems
from fedjax_priv.base import Received
from helpers import targets, towards_target

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    byzfl = pytest.importorskip("byzfl")

G, D, F = 10, 400, 3
KEY = jax.random.key(0)
PAIRS = {
    "Average": (aggregators.mean(), lambda: byzfl.Average()),
    "Median": (aggregators.coordinate_median(), lambda: byzfl.Median()),
    "TrMean": (aggregators.trimmed_mean(F), lambda: byzfl.TrMean(F)),
    "GeometricMedian": (aggregators.weiszfeld(3, 0.1, "zero"), lambda: byzfl.GeometricMedian(0.1, 3)),
    "GeometricMedian, 8": (aggregators.weiszfeld(8, 0.5, "zero"), lambda: byzfl.GeometricMedian(0.5, 8)),
    "Krum": (aggregators.krum(F, neighbours="byzfl"), lambda: byzfl.Krum(F)),
    "MultiKrum": (aggregators.multi_krum(F, neighbours="byzfl"), lambda: byzfl.MultiKrum(F)),
    "CenteredClipping": (
        aggregators.centered_clipping(10.0, 3, "zero"), lambda: byzfl.CenteredClipping(L=3, tau=10.0)
    ),
    "MDA": (aggregators.mda(F), lambda: byzfl.MDA(F)),
    "MoNNA": (aggregators.monna(F, pivot=4), lambda: byzfl.MoNNA(F, 4)),
    "Meamed": (aggregators.meamed(F), lambda: byzfl.Meamed(F)),
}  # fmt: skip
STEPS = {
    "NNM": (aggregators.nearest_neighbour_mixing(F), lambda: byzfl.NNM(F)),
    "Clipping": (aggregators.clipping(19.0), lambda: byzfl.Clipping(19.0)),
    "ARC": (aggregators.arc(F), lambda: byzfl.ARC(F)),
    "ARC, 1": (aggregators.arc(1), lambda: byzfl.ARC(1)),
}


def some_rows(seed):
    """Rows of which a few are away from the others."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(G, D)) + 0.5 * rng.normal(size=D)
    rows[rng.permutation(G)[:F]] += rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=D)
    return rows.astype(np.float32)


def direction(rule):
    return jax.jit(lambda rows: rule.apply(KEY, rule.init(D), Received(rows, jnp.ones(len(rows), jnp.int32)))[0])


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", PAIRS)
def test_rules(name):
    ours, theirs = PAIRS[name]
    apply = direction(ours)
    for seed in range(6):
        rows = some_rows(seed)
        close(apply(jnp.asarray(rows)), theirs()(rows.astype(np.float64)))


@pytest.fixture
def one_line(monkeypatch):
    """Rows near a line; ByzFL's power iteration for the top eigenvector starts on it and takes one step."""
    rng = np.random.default_rng(1)
    line = rng.normal(size=D)
    monkeypatch.setattr(np.random, "randn", lambda d: line)

    def rows(seed):
        along = np.random.default_rng(seed).normal(size=G) + 4 * (np.arange(G) < F)
        return (np.outer(along, line) + 1e-5 * rng.normal(size=(G, D))).astype(np.float32)

    return rows


@pytest.mark.parametrize(("ours", "name"), [(aggregators.caf(F, compared="all"), "CAF"), (aggregators.smea(F), "SMEA")])
def test_rules_by_covariance(ours, name, one_line):
    apply = direction(ours)
    for seed in range(4):
        rows = one_line(seed)
        close(apply(jnp.asarray(rows)), getattr(byzfl, name)(F)(rows.astype(np.float64)))


@pytest.mark.parametrize("name", STEPS)
def test_pre_aggregators(name):
    ours, theirs = STEPS[name]
    apply = jax.jit(lambda rows: ours.apply(KEY, rows, jnp.ones(G, bool))[0])
    for seed in range(4):
        rows = some_rows(seed)
        close(apply(jnp.asarray(rows)), theirs()(rows.astype(np.float64)))


@pytest.mark.parametrize("size", [2, 3])
def test_bucketing(size, monkeypatch):
    """ByzFL gets our permutation, so the buckets are the same up to their order."""
    ours = np.asarray(aggregators.bucketing(size).apply(KEY, jnp.eye(G), jnp.ones(G, bool))[0])
    order = np.concatenate([np.flatnonzero(bucket) for bucket in ours])
    monkeypatch.setattr(np.random, "permutation", lambda rows: rows[order])
    np.testing.assert_allclose(ours, byzfl.Bucketing(size)(np.eye(G)), rtol=1e-6)


@pytest.mark.parametrize("name", ["Median", "TrMean", "Krum"])
def test_theirs_in_a_round_is_ours(name):
    """Three rounds for two seeds, with clients lost."""
    ours, theirs = PAIRS[name]
    data = targets(G, 8)

    def run(rule):
        make = lambda: systems.robust_fedavg(towards_target(), num_clients=G, aggregate=rule, dropout=0.1)
        return sweep(make, {"seed": [0, 1]}, KEY, lambda key: jnp.zeros(8), data, rounds=3).params

    close(run(aggregators.from_host(theirs())), run(ours).values)
