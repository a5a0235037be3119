import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators.references import RULES, rounding
from fedjax_priv import aggregators
from fedjax_priv.aggregators import centered_clipping, clipping, mean, on_coordinates, pre_aggregated, trimmed_mean
from fedjax_priv.base import Received
from fedjax_priv.layers import average, conspar, plain, plain_field, quantize, stack
from fedjax_priv.layers.sparsification import Sparse
from helpers import engine, refuses, targets

KEY = jax.random.key(2)
G, D = 6, 9
COUNT = jnp.ones(G, jnp.int32)
ROWS = np.random.default_rng(1).normal(size=(G, D)).astype(np.float32)


def located(position):
    """The rows at these positions; positions that are no coordinate hold zero."""
    padded = np.concatenate([ROWS, np.zeros((G, 1), np.float32)], 1)
    return Received(Sparse(jnp.asarray(padded[:, position]), jnp.broadcast_to(jnp.array(position), (G, 4))), COUNT)


def test_a_direction_is_that_of_the_rule_there_and_zero_elsewhere():
    rule = on_coordinates(trimmed_mean(1), D)
    direction, _ = jax.jit(rule.apply)(KEY, rule.init(D), located([1, 4, 8, D]))
    expected = np.zeros(D)
    expected[[1, 4, 8]] = np.sort(ROWS[:, [1, 4, 8]].astype(np.float64), axis=0)[1:-1].mean(0)
    np.testing.assert_allclose(direction, expected, atol=1e-6)
    assert rule.most_byzantine(G) == 1


@pytest.mark.parametrize("name", RULES)
def test_places_that_are_not_used_and_other_runs_of_a_grid_change_no_rule(name):
    """Of 24 places 4 are coordinates: the direction there is that of the definition on those alone, rows present."""
    rng = np.random.default_rng(2)
    rows, there = rng.normal(1, 1, (6, 9, 4)).astype(np.float32), np.arange(9) < np.array([9, 9, 8, 7, 6, 5])[:, None]
    rule, position = on_coordinates(RULES[name].made, 5), np.broadcast_to([0, 1, 3, 4] + [5] * 20, (9, 24))
    padded = np.pad(np.where(there[..., None], rows, np.nan), ((0, 0), (0, 0), (0, 20)))

    @jax.jit
    @jax.vmap
    def together(rows, count):
        return rule.apply(KEY, rule.init(5), Received(Sparse(rows, jnp.asarray(position)), count))[0]

    for found, x in zip(together(padded, there.astype(np.int32)), map(np.compress, there, rows, [0] * 6), strict=True):
        if RULES[name].tolerates(len(x)) < 0:
            assert np.isnan(np.asarray(found)[[0, 1, 3, 4]]).all()
            continue
        reference, x = RULES[name].reference, x.astype(np.float64)
        expected, slack = np.insert(reference(x), 2, 0), rounding(reference, x)
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=max(2e-3, slack))


def test_what_is_kept_by_coordinate_is_restricted_to_those_of_the_round():
    """Centered clipping starts from its last direction there, and from zero where it has none."""
    rule, plain = on_coordinates(centered_clipping(0.5), D), centered_clipping(0.5)
    apply = jax.jit(rule.apply)
    first, state = apply(KEY, rule.init(D), located([0, 1, 2, 3]))
    assert (np.asarray(state)[:4] == np.asarray(first)[:4]).all() and (np.asarray(state)[4:] == 0).all()
    second, state = apply(KEY, state, located([2, 3, 5, D]))
    start = jnp.array([first[2], first[3], 0, 0])
    expected, _ = plain.apply(KEY, start, Received(located([2, 3, 5, D]).value.value, COUNT))
    np.testing.assert_allclose(np.asarray(second)[[2, 3, 5]], expected[:3], atol=1e-6)
    assert np.count_nonzero(second) == 3 == np.count_nonzero(state)


def traced(layers, rule):
    system = engine(layers=layers, aggregate=rule)
    jax.eval_shape(lambda: system.step(KEY, system.init(KEY, jnp.zeros(D), targets(G, D)), targets(G, D)))


SPARSE = stack(c=conspar(D, 2), m=average(), q=quantize(2.0**20, G), s=plain_field())
test_a_rule_and_rows_of_another_kind_are_refused_before_a_round_runs = refuses(
    traced,
    (SPARSE, mean(), r"^aggregate must be on_coordinates\(rule, num_params\) where layers decode to Sparse rows"),
    (stack(m=average(), s=plain()), on_coordinates(mean(), D), r"^rows must be \(value, position\), .* array of shape"),
)


@pytest.mark.parametrize(
    "rule",
    [
        aggregators.krum(1), centered_clipping(), aggregators.dnc(1), aggregators.sign_guard(),
        aggregators.from_host(lambda rows: rows[0]), pre_aggregated(clipping(1.0), mean()),
        aggregators.one_of(0, [mean(), trimmed_mean(1)]),
    ],
    ids=["rule", "centered_clipping", "dnc", "sign_guard", "from_host", "pre_aggregated", "one_of"],
)  # fmt: skip
def test_every_rule_says_so(rule):
    with pytest.raises(ValueError, match="^aggregate must be on_coordinates.*, got a rule on arrays for Sparse rows"):
        rule.apply(KEY, rule.init(D), located([1, 4, 8, D]))
