"""The kappa of a rule on the rows of a run, against NumPy in float64 on the recorded rows."""

from inspect import unwrap as unwrapped

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators import references
from fedjax_priv import aggregators, attacks
from fedjax_priv.aggregators.by_name import unprotected_mean
from fedjax_priv.analysis import kappa_run
from fedjax_priv.base import Received, View
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.crypto.sketch import projection
from fedjax_priv.layers import plain, stack
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import fedrep, robajol, robust_fedavg, share
from fedjax_priv.theory.robust_rules import coordinate_median_kappa
from helpers import engine, mesh_of, one_round, refuses, targets, towards_target

KEY = jax.random.key(3)
N, D, F, ROUNDS = 12, 6, 2, 5
DATA = targets(N, D)._replace(count=jnp.arange(N) % D + 1)
MEDIAN = aggregators.coordinate_median()


def observed(**rules):
    """Kappas by name, and what they are computed from."""

    def observe(view):
        found = {name: kappa_run(view, rule) for name, rule in rules.items()}
        return found | {"view": view}

    return observe


def ratio(rows, honest, direction):
    """By definition, in float64."""
    rows, direction = np.asarray(rows, np.float64), np.asarray(direction, np.float64)
    good = rows[np.asarray(honest)]
    return ((direction - good.mean(0)) ** 2).sum() / ((good - good.mean(0)) ** 2).sum(1).mean()


def rounds(system, data=DATA, length=ROUNDS, d=D):
    """The information of rounds, one after the other, with the whole views."""
    state, step = jax.jit(lambda: system.init(KEY, jnp.zeros(d), data))(), jax.jit(system.step)
    for _ in range(length):
        state, info = step(KEY, state, data)
        yield jax.tree.map(np.asarray, info)


def attacked(aggregate, scale=3.0, **how):
    return robust_fedavg(
        towards_target(),
        num_clients=N,
        aggregate=aggregate,
        num_byzantine=F,
        attack=attacks.foe(scale),
        mesh=None,
        **how,
    )


def test_rows_in_the_clear_with_dropout():
    """A client whose upload was lost is no honest row, and none of the rule's."""
    rule, absent = aggregators.trimmed_mean(F), 0
    for info in rounds(attacked(rule, dropout=0.3, observe=observed(kappa=None, median=MEDIAN))):
        view, here = info.observed["view"], info.counted
        absent += int((~here[F:]).sum())
        honest = here & (np.arange(N) >= F)
        assert view.honest.tolist() == honest.tolist()
        assert view.rows.count.tolist() == here.astype(int).tolist()
        np.testing.assert_array_equal(view.direction, info.direction)
        rows = view.uploads.astype(np.float64)
        expected = ratio(rows, honest, references.trimmed(rows[here], F))
        assert info.observed["kappa"] == pytest.approx(expected, rel=1e-4)
        assert info.observed["median"] == pytest.approx(ratio(rows, honest, np.median(rows[here], 0)), rel=1e-4)
    assert absent


def test_buckets_of_a_secure_sum():
    """Honest rows are those to which no Byzantine upload was added, also where a Byzantine member was lost."""
    system = share(
        towards_target(), num_clients=N, buffer_size=3, num_byzantine=1, aggregate=MEDIAN, attack=attacks.foe(5.0),
        dropout=0.25, mesh=None, observe=observed(kappa=None), levels=2.0**16,
    )  # fmt: skip
    kinds, w = set(), np.zeros(D)
    for number, info in enumerate(rounds(system, length=30)):
        group = np.asarray(system.draw(KEY, (), jnp.int32(number), DATA.count)[0].group)
        view, updates = info.observed["view"], w - np.asarray(DATA.examples, np.float64)
        present = view.rows.count > 0
        clean = np.array([present[g] and not info.counted[(group == g) & (np.arange(N) < 1)].any() for g in range(4)])
        assert view.honest.tolist() == clean.tolist()
        kinds |= {(bool(info.counted[0]), bool(present.all()), bool(clean[group[0]]))}
        assert info.status == 0
        w = w - info.direction
        for g in np.flatnonzero(clean):
            members = (group == g) & info.counted
            np.testing.assert_allclose(view.rows.value[g], updates[members].mean(0), atol=1e-3)
        rows, found = view.rows.value.astype(np.float64), info.observed["kappa"]
        if clean.sum() < 2:
            assert np.isnan(found)
            continue
        assert found == pytest.approx(ratio(rows, clean, np.median(rows[present], 0)), rel=1e-3)
    assert {one[0] for one in kinds} == {True, False}, "the attacker came, and was lost"
    assert any(clean for came, _, clean in kinds if not came), "its group without it is honest"


def test_rows_that_are_a_few_coordinates():
    system = fedrep(
        towards_target(), num_clients=N, num_params=D, k=N, buffer_size=1, in_the_clear=True, num_byzantine=F,
        aggregate=aggregators.trimmed_mean(F), attack=attacks.foe(3.0), mesh=None,
        observe=observed(kappa=None, same=aggregators.trimmed_mean(F)),
    )  # fmt: skip
    for info in rounds(system):
        view = info.observed["view"]
        value, position = view.rows.value
        used = position[0] < D
        dense = np.zeros((N, D))
        dense[:, position[0][used]] = value[:, used]
        assert view.honest.tolist() == [False] * F + [True] * (N - F)
        expected = ratio(dense, view.honest, references.trimmed(dense, F))
        assert info.observed["kappa"] == pytest.approx(expected, rel=1e-4)
        assert info.observed["same"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("dense", [False, True])
def test_a_direction_decoded_from_a_projection(dense):
    """The error is that of the direction in R^d, d/k times that of the sketch on average."""
    d, k = 200, 20
    rule = aggregators.geometric_median()
    observe = lambda view: {
        "kappa": kappa_run(view, dense=dense), "in_sketch": kappa_run(view, rule), "view": view
    }  # fmt: skip
    system = robajol(
        towards_target(), num_clients=N, num_params=d, k=k, clip=50.0, noise_multiplier=0.0, num_byzantine=F,
        aggregate=rule, attack=attacks.foe(3.0), mesh=None, observe=observe, dense=dense,
    )  # fmt: skip
    times, project = [], jax.jit(projection(d, k, dense=dense).project)
    for info in rounds(system, targets(N, d), 8, d):
        view = info.observed["view"]
        z, seed = np.asarray(view.rows.value.value, np.float64), view.rows.value.seed[0]
        p = np.asarray(project(jnp.asarray(seed), jnp.eye(d)), np.float64).T
        good = z[F:]
        spread = ((good - good.mean(0)) ** 2).sum(1).mean()
        error = ((np.asarray(info.direction, np.float64) - good.mean(0) @ p) ** 2).sum()
        assert info.observed["kappa"] == pytest.approx(error / spread, rel=1e-3)
        in_sketch = ratio(z, view.honest, references.geometric_median(z))
        assert info.observed["in_sketch"] == pytest.approx(in_sketch, rel=0.01)
        times.append(info.observed["kappa"] / info.observed["in_sketch"])
    spread = np.std(times, ddof=1) / len(times) ** 0.5
    assert abs(np.mean(times) - d / k) < 4 * spread + 0.05 * d / k


def by_name(view):
    return {"kappa": kappa_run(view), "of_median": kappa_run(view, MEDIAN)}


def test_in_simulate_and_sweep_and_that_an_undefended_mean_does_worse():
    """The control: under the same attack the mean's kappa is above that of the rule, which is below its certificate."""

    def make(robust):
        return attacked(MEDIAN if robust else unprotected_mean(), 30.0, observe=by_name, dropout=0.1)

    grid = sweep(make, {"robust": [False, True], "seed": [0, 1]}, KEY, jnp.zeros(D), DATA, rounds=ROUNDS)
    assert grid.kappa.dims == ("robust", "seed", "round") and grid.kappa.dtype == np.float32
    worst = grid.kappa.max(("seed", "round"))
    assert worst[1] < coordinate_median_kappa(N, F) < worst[0], worst.values
    np.testing.assert_allclose(grid.kappa[1], grid.of_median[1], rtol=1e-5)
    assert (grid.of_median[0] < grid.kappa[0]).all()


def test_devices_make_no_difference():
    alone, shared = (
        one_round(engine(
            cohort=everyone(8, num_byzantine=F), layers=stack(send=plain(8)), channel=erasure(0.2), aggregate=MEDIAN,
            observe=by_name, mesh=mesh, block=4,
        ), targets(8, D), D)[2].observed
        for mesh in (None, mesh_of(2))
    )  # fmt: skip
    assert alone["kappa"] == pytest.approx(float(shared["kappa"]), rel=1e-5)


@jax.jit
def both(view):
    return kappa_run(view), kappa_run(view, MEDIAN)


def view_of(rows, honest, direction, count=None):
    rows, there = jnp.asarray(rows, jnp.float32), jnp.ones(len(rows), jnp.int32)
    received = Received(rows, there if count is None else jnp.asarray(count, jnp.int32))
    return View((), (), (), (), (), (), (), received, jnp.asarray(honest), jnp.asarray(direction, jnp.float32))


@pytest.mark.parametrize(("rows", "honest"), [
    ([[0.1], [0.1], [0.1], [9.0]], [True, True, True, False]),
    ([[0.1], [2.0], [3.0], [9.0]], [True, False, False, False]),
    ([[0.1], [2.0], [3.0], [9.0]], [False] * 4),
])  # fmt: skip
def test_without_honest_variance_there_is_no_number(rows, honest):
    assert all(np.isnan(each) for each in both(view_of(rows, honest, [5.0])))


@pytest.mark.parametrize(("scale", "centre"), [(1.0, 0.0), (1e-22, 0.0), (1e22, 0.0), (1.0, 1e4)])
def test_neither_scale_nor_centre_nor_absent_rows_matter(scale, centre):
    rows = np.random.default_rng(2).normal(size=(7, 3)).astype(np.float32) * np.float32(scale) + np.float32(centre)
    honest, there = np.arange(7) >= 3, np.array([1, 1, 0, 1, 1, 1, 1])
    median = np.median(rows[there > 0].astype(np.float64), 0)
    expected = ratio(rows, honest, median.astype(np.float32))
    rows[2] = np.nan
    view = view_of(rows, honest, median, there)
    assert both(view) == pytest.approx((expected, expected), rel=2e-3)


test_what_it_is_not_of = refuses(
    lambda view, rule: unwrapped(kappa_run)(view, rule),
    (view_of([[1.0], [2.0]], [True, True], [1.0])._replace(rows=()), None, "^view must be that of a round"),
    (view_of([[1.0], [2.0]], [True, True], [1.0]), aggregators.mean, "rule must be an Aggregator, .* got mean"),
    (view_of([[1.0], [2.0]], [True, True], [1.0, 2.0]), None, "they have 1 numbers, the direction 2"),
)


def test_places_of_a_row_that_are_no_coordinates_do_not_count():
    """There a secure sum may hold noise."""
    value, position = jnp.asarray([[1.0, 7.0], [3.0, -5.0], [8.0, 90.0]]), jnp.asarray([[2, 4]] * 3)
    received = Received((value, position), jnp.ones(3, jnp.int32))
    view = view_of([[0.0]] * 3, [True, True, False], [0.0, 0.0, 3.0, 0.0])._replace(rows=received)
    assert both(view) == pytest.approx((1.0, 1.0))
