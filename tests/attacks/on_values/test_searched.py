"""The searched attacks, against a search in plain Python on float64 rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import aggregators
from fedjax_priv.attacks import alie, foe, furthest, optimal_alie, optimal_foe
from fedjax_priv.base import Aggregator, Received
from fedjax_priv.keys import named
from helpers import refuses

N, D = 11, 7
KEY = jax.random.key(0)
UPDATES = np.random.default_rng(4).normal(1, 2, size=(N, D)).astype(np.float32)
MASKS = (np.arange(N) >= 3, ~np.isin(np.arange(N), [2, 5, 9]))

SHAPES = {"mean": (D,), "rows": (N, D), "centre": (D,)}
DEFENCES = {  # for JAX and NumPy alike
    "mean": lambda rows: rows.mean(0),
    "trimmed mean": lambda rows: (jnp if isinstance(rows, jax.Array) else np).sort(rows, axis=0)[3:-3].mean(0),
    "redescending": lambda rows: (rows / (1 + (rows**2).sum(1, keepdims=True) / 100)).mean(0),
}
LINES = {  # honest [h, d] -> base, slope
    "foe": (optimal_foe, lambda honest: (0, -honest.mean(0))),
    "alie": (optimal_alie, lambda honest: (honest.mean(0), -honest.std(0))),
    "alie, byzfl": (
        lambda *args, **how: optimal_alie(*args, ddof=1, sign=1, **how),
        lambda honest: (honest.mean(0), honest.std(0, ddof=1)),
    ),
}


def searched(respond, base, slope, updates, honest, evals, start, step, ratio, down):
    """Expansion, then contraction, then down from there; the factor."""

    def distance(factor):
        rows = updates.copy()
        rows[~honest] = base + factor * slope
        tried.append((np.linalg.norm(respond(rows) - updates[honest].mean(0)), factor))
        return tried[-1][0]

    tried = []
    best, largest, left = start, distance(start), evals - 1
    while left > 0:
        left -= 1
        reached = distance(best + step)
        if reached <= largest:
            step *= ratio
            break
        best, largest, step = best + step, reached, 2 * step
    for _ in range(left):
        reached = distance(best + step)
        if reached > largest:
            best, largest = best + step, reached
        step *= ratio
    top = best
    for place in range(1, down + 1):
        factor = start + (top - start) * ratio**place
        if (reached := distance(factor)) > largest:
            best, largest = factor, reached
    assert largest == max(tried)[0]
    return best


SHORT = {"evals": 9, "start": 0.5, "step": 0.7, "ratio": 0.6}
CAREFUL = {"evals": 16, "step": 0.3, "ratio": 0.95}
DOWN = {"evals": 5, "start": 0.5, "step": 30.0, "ratio": 0.8, "down": 12}


@pytest.mark.parametrize(
    ("defence", "search"),
    [("mean", {}), ("trimmed mean", SHORT), ("redescending", CAREFUL), ("redescending", DOWN)],
)
@pytest.mark.parametrize("line", LINES)
def test_the_factor_is_that_of_the_search(line, defence, search):
    make, expected = LINES[line]
    attack = jax.jit(make(DEFENCES[defence], **search))
    for honest in MASKS:
        updates = UPDATES.astype(np.float64)
        base, slope = expected(updates[honest])
        how = {"evals": 20, "start": 0.0, "step": 10.0, "ratio": 0.8, "down": 0, **search}
        factor = searched(DEFENCES[defence], base, slope, updates, honest, **how)
        spoilt = jnp.where(jnp.asarray(honest)[:, None], UPDATES, jnp.nan)
        rows = attack(KEY, spoilt, jnp.asarray(honest), ~jnp.asarray(honest))
        assert rows.shape == (1, D)
        np.testing.assert_allclose(rows[0], base + factor * slope, rtol=2e-5)


def test_no_fixed_factor_of_a_grid_does_more_harm_to_the_trimmed_mean():
    respond, honest = DEFENCES["trimmed mean"], jnp.asarray(MASKS[0])

    def harm(attack):
        rows = jnp.where(honest[:, None], UPDATES, attack(KEY, jnp.asarray(UPDATES), honest, ~honest))
        return jnp.linalg.norm(respond(rows) - UPDATES[MASKS[0]].mean(0))

    grid = jnp.linspace(0, 40, 81)
    for best, family in ((optimal_alie(respond), alie), (optimal_foe(respond), foe)):
        harms = jax.jit(jax.vmap(lambda factor, family=family: harm(family(factor))))(grid)
        assert float(jax.jit(harm, static_argnums=0)(best)) > 0.99 * float(harms.max()) > float(harms[1])


def test_the_way_down_finds_a_worse_factor_that_the_first_step_went_over():
    """Krum takes the row at z = 0, the honest mean, and another at z = 10, which is worse and not the worst."""
    rule, honest, rows = aggregators.krum(3), jnp.asarray(MASKS[0]), jnp.asarray(UPDATES)

    @jax.jit
    def harm(attack_rows):
        return jnp.linalg.norm(rule(jnp.where(honest[:, None], UPDATES, attack_rows)) - UPDATES[MASKS[0]].mean(0))

    def factor(**how):
        sent = jax.jit(optimal_alie(rule, **how))(KEY, rows, honest, ~honest)
        middle, deviation = UPDATES[MASKS[0]].mean(0), UPDATES[MASKS[0]].std(0)
        return float(((middle - sent[0]) / deviation).mean()), float(harm(sent))

    (up, found), (best, most) = factor(), factor(down=20)
    grid = 10 * 0.8 ** np.arange(21)
    harms = [float(harm(alie(float(z))(KEY, rows, honest, ~honest))) for z in grid]
    assert up == pytest.approx(10, rel=1e-3) and best == pytest.approx(grid[np.argmax(harms)], rel=1e-3)
    assert most == pytest.approx(max(harms), rel=1e-4) and most > 1.2 * found


@pytest.mark.parametrize(("down", "found"), [(0, 10.0), (1, 8.0), (3, 6.4)])
def test_the_way_down_starts_from_the_best_factor_also_if_that_was_tried_last(down, found):
    """Harm peaks at 7: at 0 it is 3, at 10 it is 7, and then at 8, 6.4 and 5.12 it is 9, 9.4 and 8.12."""
    honest = jnp.array([True, True, False])
    line = lambda updates, honest: (jnp.zeros((1, 1)), jnp.ones((1, 1)))
    attack = furthest(lambda rows: 10 - jnp.abs(rows[2] - 7), line, evals=2, down=down)
    sent = jax.jit(attack)(KEY, jnp.zeros((3, 1)), honest, ~honest)
    assert float(sent[0, 0]) == pytest.approx(found, rel=1e-6)


def test_what_a_defence_refuses_with_nan_is_not_the_best():
    honest = jnp.asarray(MASKS[0])
    attack = optimal_foe(lambda rows: jnp.where(jnp.abs(rows[0]).max() < 9, rows.mean(0), jnp.nan))
    largest = jnp.abs(jax.jit(attack)(KEY, jnp.asarray(UPDATES), honest, ~honest)).max()
    assert 8.5 < largest < 9 < 10 * jnp.abs(UPDATES[MASKS[0]].mean(0)).max(), "the first step is refused"


def test_a_step_that_was_cut_never_doubles_again():
    """Harm grows up to the factor 2.5, where the defence gives no answer: 1, then 2.458 by shorter steps, then more."""
    honest, mean = jnp.asarray(MASKS[0]), np.abs(UPDATES[MASKS[0]].mean(0)).max()
    defence = lambda rows: jnp.where(jnp.abs(rows[0]).max() < 2.5 * mean, rows.mean(0), jnp.nan)
    attack = jax.jit(optimal_foe(defence, evals=42, step=1.0, ratio=0.9))
    found = jnp.abs(attack(KEY, jnp.asarray(UPDATES), honest, ~honest)).max() / mean
    best, step, grows = 0.0, 1.0, True
    for _ in range(41):
        better = best + step < 2.5
        best, grows = best + step * better, grows and better
        step *= 2.0 if grows else 0.9
    assert best > 2.48
    np.testing.assert_allclose(found, best, rtol=1e-5)


def test_a_defence_that_answers_nan_is_left_at_the_start():
    attack = optimal_alie(lambda rows: jnp.full(D, jnp.nan), start=0.5)
    rows, honest = jnp.asarray(UPDATES), jnp.asarray(MASKS[1])
    left, start = jax.jit(lambda: (attack(KEY, rows, honest, ~honest), alie(0.5)(KEY, rows, honest, ~honest)))()
    np.testing.assert_array_equal(left, start)


def test_a_defence_that_answers_nan_at_the_start_is_searched_on():
    """A round that fails moves nothing, so any factor that moves something is better."""
    honest, seen = jnp.asarray(MASKS[0]), jnp.asarray(UPDATES)
    defence = lambda rows: jnp.where((rows[0] == 0).all(), jnp.nan, rows.mean(0))
    found = jax.jit(optimal_foe(defence, evals=3))(KEY, seen, honest, ~honest)
    np.testing.assert_allclose(found, foe(30.0)(KEY, seen, honest, ~honest), rtol=1e-5)


test_bad_arguments = refuses(
    lambda how: optimal_alie(DEFENCES["mean"], **how),
    ({"evals": 0}, "evals must be an integer >= 1, got 0"),
    ({"start": -1.0}, "start must be a finite number >= 0, got -1.0"),
    ({"step": 0.0}, "step must be a finite number > 0, got 0.0"),
    ({"ratio": 1.0}, "ratio must be a number in (0, 1), got 1.0"),
    ({"sign": 2}, "sign must be one of -1, 1, got 2"),
    ({"down": -1}, "down must be an integer >= 0, got -1"),
    ({"draws": 0}, "draws must be an integer >= 1, got 0"),
    ({"draws": 2}, "draws must be 1 where respond is a function, which may return those of k draws, got 2"),
    whole=True,
)


MANY = 3000
ROWS = (
    np.random.default_rng(5).normal(size=(N, MANY)) * 0.05 + np.random.default_rng(6).normal(size=MANY) * 0.02
).astype(np.float32)
TURNING = {
    "Krum": aggregators.krum(3),
    "ByzFL's geometric median": aggregators.pre_aggregated(
        aggregators.clipping(2.0), aggregators.nearest_neighbour_mixing(3), aggregators.weiszfeld(3, 0.1, "zero")
    ),
    "centered clipping": aggregators.centered_clipping(1.0),
}


@functools.cache
def attack_on(tried, search):
    return jax.jit(search(tried, **CAREFUL))


@functools.cache
def compiled(rule):
    return jax.jit(lambda rows: rule(rows))


def harm(rule, tried, search, absent=()):
    """How far the attack on `tried` brings the rule."""
    there = ~np.isin(np.arange(N), absent)
    honest, byzantine = there & MASKS[1], there & ~MASKS[1]
    rows = np.where(there[:, None], ROWS, np.nan)
    sent = np.asarray(attack_on(tried, search)(KEY, jnp.asarray(rows), honest, byzantine))
    return np.linalg.norm(
        compiled(rule)(np.where(byzantine[:, None], sent, rows)) - rows[honest].mean(0, dtype=np.float64)
    )


@functools.cache
def on_all(rule):
    """The rule as a function, which says nothing of whether it turns."""
    return lambda rows: rule(rows)


@pytest.mark.parametrize(
    ("made", "search"),
    [("Krum", optimal_foe), ("ByzFL's geometric median", optimal_alie), ("centered clipping", optimal_foe)],
)
@pytest.mark.parametrize("absent", [(), (4, 10)], ids=["all", "some absent"])
def test_the_harm_found_on_few_coordinates_is_that_of_all(made, search, absent):
    rule = TURNING[made]
    assert harm(rule, rule, search, absent) == pytest.approx(harm(rule, on_all(rule), search, absent), rel=1e-3)


def test_a_rule_that_claims_to_turn_and_does_not_is_searched_badly():
    """The control of the test above."""
    redescending = lambda rows: (rows / (1 + jnp.square(rows) / 0.01)).mean(0)
    rule = Aggregator(lambda d: (), lambda key, state, received: (redescending(received.value), state))
    on_all = harm(rule, rule, optimal_alie)
    assert harm(rule, rule._replace(equivariant=True), optimal_alie) < 0.99 * on_all


TURNING_BEFORE = {
    "ByzFL's trimmed mean": aggregators.pre_aggregated(
        aggregators.clipping(2.0), aggregators.nearest_neighbour_mixing(3), aggregators.trimmed_mean(3)
    ),
    "buckets": aggregators.pre_aggregated(aggregators.bucketing(2), aggregators.trimmed_mean(2)),
    "ARC": aggregators.pre_aggregated(aggregators.arc(3), aggregators.coordinate_median()),
}


@pytest.mark.parametrize(
    ("made", "search", "draws"),
    [
        ("ByzFL's trimmed mean", optimal_foe, 1), ("buckets", optimal_foe, 1), ("buckets", optimal_alie, 3),
        ("ARC", optimal_alie, 1),
    ],
)  # fmt: skip
def test_the_harm_found_behind_steps_that_turn_is_that_of_all(made, search, draws):
    rule, there = TURNING_BEFORE[made], ~np.isin(np.arange(N), (4, 10))
    honest, byzantine = there & MASKS[1], there & ~MASKS[1]
    rows = jnp.where(there[:, None], ROWS, np.nan)

    @jax.jit
    def harm(sent):
        attacked, middle = jnp.where(byzantine[:, None], sent, rows), rows[honest].mean(0)
        drawn = lambda key: jnp.linalg.norm(rule(attacked, key=key) - middle)
        own = named(KEY, "respond")
        return jnp.mean(jnp.stack([drawn(key) for key in (jax.random.split(own, draws) if draws > 1 else [own])]))

    attack = lambda tried: jax.jit(search(tried, draws=draws, **CAREFUL))(KEY, rows, honest, byzantine)
    found = harm(attack(rule))
    assert float(found) == pytest.approx(float(harm(attack(rule._replace(in_two=None)))), rel=1e-4)
    start = 0.0 if search is optimal_foe else rows[honest].mean(0)
    assert found > 1.02 * harm(start), "the control: the search finds something"


def test_steps_that_turn_are_taken_on_few_coordinates_and_the_rule_on_all():
    seen = []

    def step(key, rows, ok):
        seen.append(("step", rows.shape))
        return rows, ok

    def direct(key, state, received):
        seen.append(("rule", received.value.shape))
        return received.value.mean(0), state

    turning = aggregators.clipping(2.0)._replace(apply=step)
    rule = aggregators.pre_aggregated(turning, Aggregator(lambda d: (), direct, steady=True))
    jax.jit(optimal_foe(rule, evals=3))(KEY, jnp.asarray(ROWS), MASKS[0], ~MASKS[0])
    assert set(seen) == {("step", (N, N + 2)), ("rule", (N, MANY))}


@pytest.mark.parametrize(("turns", "tried"), [(True, N + 2), (False, MANY)])
def test_only_a_rule_that_turns_with_rows_is_tried_on_few_coordinates(turns, tried):
    seen = set()

    def apply(key, state, received):
        seen.add(received.value.shape)
        return received.value.mean(0), state

    rule = Aggregator(lambda d: (), apply, equivariant=turns)
    jax.jit(optimal_foe(rule, evals=3))(KEY, jnp.asarray(ROWS), MASKS[0], ~MASKS[0])
    assert seen == {(N, tried)}


def test_what_is_made_of_parts_turns_if_all_parts_do():
    made = functools.partial(aggregators.pre_aggregated, aggregators.clipping(2.0))
    assert made(aggregators.krum(1)).equivariant
    assert not made(aggregators.trimmed_mean(1)).equivariant
    own = aggregators.clipping(2.0)._replace(equivariant=False)
    assert not aggregators.pre_aggregated(own, aggregators.krum(1)).equivariant
    assert aggregators.one_of(0, [aggregators.mean(), aggregators.krum(1)]).equivariant
    assert not aggregators.one_of(0, [aggregators.mean(), aggregators.trimmed_mean(1)]).equivariant
    assert not aggregators.in_sketch(aggregators.mean(), 7, 3).equivariant
    assert not aggregators.on_coordinates(aggregators.mean(), 7).equivariant
    assert not aggregators.from_host(lambda rows: rows.mean(0)).equivariant
    assert made(aggregators.trimmed_mean(1)).in_two
    for steps in ((own, aggregators.clipping(2.0)), (aggregators.clipping(2.0), own)):
        assert not aggregators.pre_aggregated(*steps, aggregators.trimmed_mean(1)).in_two
    assert not made(aggregators.sign_guard()).in_two
    assert not aggregators.one_of(0, [made(aggregators.trimmed_mean(1))] * 2).in_two
    assert not aggregators.in_sketch(made(aggregators.trimmed_mean(1)), 7, 3).in_two
    assert not aggregators.on_coordinates(made(aggregators.trimmed_mean(1)), 7).in_two


BUCKETS = aggregators.pre_aggregated(aggregators.bucketing(2), aggregators.trimmed_mean(2))
CLOSE = {"evals": 12, "step": 1.0}


def below_a_draw(key, state, received):
    """The mean, or nothing if a number exceeds a bound that is drawn: each draw has its own worst factor."""
    bound = jax.random.uniform(key, minval=5.0, maxval=60.0)
    return jnp.where(jnp.abs(received.value).max() < bound, received.value.mean(0), 0.0), state


@pytest.mark.parametrize("draws", [1, 8])
@pytest.mark.parametrize("make", [optimal_foe, optimal_alie])
def test_a_rule_that_draws_is_tried_on_draws_of_the_attackers_own(make, draws):
    """It is what a function to the directions of these draws is searched for."""
    own, honest = named(KEY, "respond"), jnp.asarray(MASKS[0])
    keys = jax.random.split(own, draws) if draws > 1 else own[None]
    rule = Aggregator(lambda d: (), below_a_draw)
    of_draws = lambda rows: jax.vmap(lambda key: rule(rows, key=key))(keys)
    given = KEY, jnp.asarray(UPDATES), honest, ~honest
    attack = jax.jit(make(rule, draws=draws, **CLOSE))
    found = attack(*given)
    np.testing.assert_allclose(found, jax.jit(make(of_draws, **CLOSE))(*given), rtol=1e-5)
    others = [np.asarray(attack(jax.random.key(seed), *given[1:])) for seed in range(7, 12)]
    assert np.abs(np.stack(others) - np.asarray(found)[None]).max() > 1e-3


def test_more_draws_find_what_is_worse_on_draws_that_nobody_has_seen():
    """Harm on 200 other draws, in the mean over 20 attackers."""
    honest, fresh = jnp.asarray(MASKS[0]), jax.random.split(jax.random.key(9), 200)

    @jax.jit
    def harm(rows):
        found = jax.vmap(lambda key: BUCKETS(jnp.where(honest[:, None], UPDATES, rows), key=key))(fresh)
        return jnp.linalg.norm(found - UPDATES[MASKS[0]].mean(0)[None], axis=1).mean()

    def of(draws):
        attack = jax.jit(optimal_foe(BUCKETS, draws=draws, **CLOSE))
        keys = jax.random.split(KEY, 20)
        return np.mean([harm(attack(key, jnp.asarray(UPDATES), honest, ~honest)) for key in keys])

    assert of(32) > of(1) > 0


@pytest.mark.parametrize("search", [optimal_alie, optimal_foe])
def test_a_centre_that_the_attackers_do_not_know_costs_them_little(search):
    """`centered_clipping` is tried from its start: the harm is nearly that of a search from the centre of the round."""
    rule, honest = aggregators.centered_clipping(3.0), jnp.arange(N) >= 2

    def harms(key):
        at, noise, off = (jax.random.normal(named(key, name), shape) for name, shape in SHAPES.items())
        rows, centre = at[None] + noise, at + off / 2
        direct = lambda rows: rule.apply(KEY, centre, Received(rows, jnp.ones(N, jnp.int32)))[0]
        harm = lambda attack: jnp.linalg.norm(direct(attacked(attack)) - rows[2:].mean(0))
        attacked = lambda attack: jnp.where(honest[:, None], rows, attack(KEY, rows, honest, ~honest))
        return harm(lambda *args: rows), harm(search(rule)), harm(search(direct))

    none, found, best = jax.jit(jax.vmap(harms))(jax.random.split(KEY, 200))
    assert (found / best).min() > 0.99
    assert jnp.median(none / best) < 0.7, "the control: without an attack there is less harm"
