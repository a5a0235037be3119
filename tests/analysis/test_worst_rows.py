"""The search for the worst rows, against exact certificates: it reaches them and never exceeds them."""

import functools
from inspect import unwrap as unwrapped

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators import references
from fedjax_priv import aggregators
from fedjax_priv.analysis import kappa_of, kappa_search, worst_rows
from fedjax_priv.base import Aggregator
from fedjax_priv.theory.robust_rules import coordinate_median_kappa, krum_kappa, least_kappa, trimmed_mean_kappa
from helpers import refuses

KEY = jax.random.key(0)
N, F = 7, 2
KRUM, MEDIAN, CAF = aggregators.krum(F), aggregators.coordinate_median(), aggregators.caf(F)
SHORT = {"steps": 60, "starts": 3, "num_params": 1}


@functools.cache
def compiled(rule):
    return jax.jit(lambda rows: kappa_of(rule, rows, F))


def ratio(rows, direction):
    honest = rows[F:]
    return ((direction - honest.mean(0)) ** 2).sum() / honest.var(0).sum()


RULES = {
    "trimmed_mean": (aggregators.trimmed_mean(F), lambda x: references.trimmed(x, F), trimmed_mean_kappa(N, F), 0.99),
    "coordinate_median": (
        aggregators.coordinate_median(), lambda x: np.median(x, 0), coordinate_median_kappa(N, F), 0.99
    ),
    "krum": (aggregators.krum(F), references.krum, krum_kappa(N, F), 0.5),
    "krum, byzfl": (
        aggregators.krum(F, neighbours="byzfl"), lambda x: references.krum(x, excess=1), krum_kappa(N, F, "byzfl"), 0.2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_what_is_found_is_below_what_is_proved_and_near_it(name):
    rule, reference, proved, share = RULES[name]
    worst = kappa_search(KEY, rule, N, F, **SHORT)
    rows = np.asarray(worst.rows, np.float64)
    assert ratio(rows, reference(rows)) == pytest.approx(float(worst.kappa), rel=1e-3), "the witness"
    assert max(share * proved, least_kappa(N, F) * 0.999) < worst.kappa <= proved * (1 + 1e-4)


def test_a_rule_that_trims_too_few_exceeds_the_certificate():
    """The control: a certificate of f = 2 for a rule that leaves out one value on each side, or with another count."""
    worst = kappa_search(KEY, aggregators.trimmed_mean(F - 1), N, F, **SHORT)
    assert worst.kappa > 10 * trimmed_mean_kappa(N, F)


def test_a_direction_that_is_no_number_is_no_harm_and_an_infinite_one_the_worst():
    """Infinite or no number only where the Byzantine row is above 2."""

    def search(direction):
        rule = Aggregator(lambda d: (), lambda key, state, received: (direction(received.value), state))
        return kappa_search(KEY, rule, 3, 1, num_params=1, steps=20, starts=1)

    nothing = search(lambda rows: jnp.full(1, jnp.nan))
    assert np.isnan(nothing.kappa)
    worst = search(lambda rows: jnp.where(rows[0] > 2, jnp.inf, rows[1:].mean(0)))
    assert worst.kappa == np.inf and worst.rows[0] > 2
    least = search(lambda rows: jnp.where(rows[0] > 2, jnp.nan, rows[1:].mean(0) + 0.5))
    assert float(least.kappa) == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize("far", [50.0, 5e3])
def test_krum_of_too_few_neighbours_follows_its_byzantine_rows(far):
    """At n = 2f + 1 two equal rows are each other's only neighbour; one neighbour more, and no distance helps them."""
    rows = np.array([[far], [far], [-2.0], [-2.0], [-1.5]])
    assert ratio(rows, references.krum(rows)) > far**2
    assert float(compiled(KRUM)(jnp.asarray(rows, jnp.float32))) > far**2
    assert krum_kappa(5, F) == np.inf
    assert ratio(rows, references.krum(rows, excess=1)) < krum_kappa(5, F, "byzfl") < 15


def test_kappa_of_rows_is_the_definition():
    rows = np.random.default_rng(1).normal(size=(N, 3)).astype(np.float32)
    found = kappa_of(aggregators.mean(), jnp.asarray(rows), F)
    x = rows.astype(np.float64)
    assert found == pytest.approx(ratio(x, x.mean(0)), rel=1e-5)


def test_rows_may_be_a_list():
    rows = [[9.0], [1.0], [2.0], [3.0]]
    expected = kappa_of(aggregators.trimmed_mean(1), jnp.asarray(rows), 1)
    assert unwrapped(kappa_of)(aggregators.trimmed_mean(1), rows, 1) == expected


@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e-20, 1e15, 1e20, 1e30])
def test_kappa_does_not_depend_on_the_scale_of_rows(scale):
    """Though the squares of such rows are no float32."""
    rows = np.random.default_rng(1).normal(size=(N, 3)).astype(np.float32)
    expected = ratio(rows.astype(np.float64), np.median(rows, 0))
    found = compiled(MEDIAN)(jnp.asarray(rows * np.float32(scale)))
    assert found == pytest.approx(expected, rel=1e-4)


WITHOUT = {
    "mean": (aggregators.mean(), [[1e4, 0]] * F),
    "weiszfeld": (aggregators.weiszfeld(), [[1e6, 0]] * F),
    "weiszfeld, byzfl": (aggregators.weiszfeld(3, 0.1, "zero"), [[0, 0]] * F),
    "centered_clipping": (aggregators.centered_clipping(0.1), [[1, 1]] * F),
    "clipping": (aggregators.pre_aggregated(aggregators.clipping(0.5), aggregators.trimmed_mean(F)), [[1, 1]] * F),
    "filter_l2": (aggregators.filter_l2(1.0), [[2, 1]] * F),
    "norm_trimming": (aggregators.norm_trimming(F / N), [[-0.9, -0.9]] * F),
    "sign_guard": (aggregators.sign_guard(1.0), [[0.5, 0.5]] * F),
    "monna": (aggregators.monna(F), [[5, 5]] * F),
    "fltrust": (aggregators.fltrust(), [[-1, -1]] * F),
    "dnc": (aggregators.dnc(F), [[1e4, 1e4], [1e6, 0]]),
    "caf, byzfl": (aggregators.caf(F, compared="all"), [[1e4, 1e4], [1e6, 1e6]]),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_rules_without_a_certificate(name):
    """Honest rows nearly equal: a rule with a kappa is as near to their mean, whatever the others are."""
    rule, bad = WITHOUT[name]
    honest = 1 + 1e-3 * np.random.default_rng(2).normal(size=(N - F, 2))
    rows = jnp.asarray(np.vstack([bad, honest]), jnp.float32)
    assert compiled(rule)(rows) > 1e4
    assert compiled(MEDIAN)(rows) < coordinate_median_kappa(N, F) * (1 + 1e-3)
    assert compiled(KRUM)(rows) < krum_kappa(N, F)
    assert compiled(CAF)(rows) < 10


def test_sequential_clipping_has_no_certificate():
    """It draws, so it is called with a key."""
    rows = 1 + 1e-3 * np.random.default_rng(2).normal(size=(N, 2))
    direction = np.asarray(aggregators.sequential_centered_clipping(0.1, size=2)(rows, key=KEY))
    assert ratio(rows, direction) > 1e4


test_what_kappa_is_not_of = refuses(
    lambda rule, f: unwrapped(kappa_of)(rule, jnp.ones((N, 3)), f),
    (aggregators.mean(), N, "num_byzantine must be below the number of rows, 7, got 7"),
    (aggregators.mean(), -2, "num_byzantine must be an integer >= 0, got -2"),
    (aggregators.mean, 1, "rule must be an Aggregator, .* got mean, which may have to be called first"),
)
test_a_rule_that_was_not_made = refuses(
    lambda rule: unwrapped(kappa_search)(KEY, rule, 5, 1),
    (aggregators.mean, "rule must be an Aggregator, .* got mean, which may have to be called first"),
    (aggregators.krum(4), "^rule must be one for num_rows = 5 rows, and this one needs more$"),
)
test_bad_arguments = refuses(
    lambda how: kappa_search(KEY, aggregators.mean(), **{"num_rows": 5, "num_byzantine": 1, **how}),
    ({"num_byzantine": 3}, "num_byzantine must be below half of num_rows = 5, got 3"),
    ({"num_byzantine": 0}, "num_byzantine must be an integer >= 1, got 0"),
    ({"steps": 0}, "steps must be an integer >= 1, got 0"),
    ({"starts": 2}, "starts must be an integer >= 3, got 2"),
    whole=True,
)


def test_searches_begin_at_decoys_that_lead_krum_astray():
    """One Byzantine row between two groups of honest ones, the others beyond it: 5.3 without such inputs."""
    known = jax.jit(lambda: worst_rows._known_inputs(11, 3, 1))()
    harm = jax.jit(jax.vmap(lambda x: kappa_of(aggregators.krum(3), x, 3)))
    assert 6.5 < np.nanmax(harm(known)) <= krum_kappa(11, 3)


@pytest.mark.parametrize("num_params", [1, 2])
def test_the_first_searches_begin_at_the_worst_of_the_known_inputs(num_params):
    """One step finds little, so what it begins with counts."""
    rule = aggregators.krum(3)
    known = jax.jit(lambda: worst_rows._known_inputs(11, 3, num_params))()
    harms = np.asarray(jax.jit(jax.vmap(lambda x: kappa_of(rule, x, 3)))(known))
    found = kappa_search(KEY, rule, 11, 3, num_params=num_params, starts=num_params, steps=1).kappa
    assert found >= np.nanmax(harms) * (1 - 1e-5) and np.nanmax(harms) > 1.5 * np.nanmedian(harms)


def test_a_search_with_fewer_coordinates_leaves_the_others_alone():
    used = jnp.array([True, False, True])

    @jax.jit
    def begun(key):
        rows = worst_rows._start(key, jnp.int32(0), used, N, F)
        return rows, worst_rows._changed(key, rows, jnp.float32(1.0), used)

    for key in jax.random.split(KEY, 5):
        rows, moved = map(np.asarray, begun(key))
        assert not rows[:, 1].any() and not moved[:, 1].any() and (moved[:, [0, 2]] != rows[:, [0, 2]]).any(0).all()
