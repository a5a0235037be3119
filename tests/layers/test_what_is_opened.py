"""What thresholded opening gives: how much of it, its mean, and what is carried to the next round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import leakage, systems
from fedjax_priv.base import View
from fedjax_priv.clients import everyone
from fedjax_priv.layers import (
    on_sparse_values,
    opened_top_k,
    over_opened,
    paired_coordinates,
    plain_sparse_field,
    quantize,
    rand_k,
    stack,
    thresholded_masks,
)
from fedjax_priv.layers.secure_sum import bound_masks
from fedjax_priv.status import Status
from fedjax_priv.theory import sparse_secagg as theory
from helpers import cohort_of, engine, of_the_round, one_round, run_layer, same_bits, survivors, targets

KEY = jax.random.key(4)
N, D = 6, 9


def test_the_law_of_what_is_opened_is_that_of_theory():
    """N = 100, alpha = 0.1, 30% lost: twelve rounds, of which five standard errors."""
    n, d, count = 100, 512, 12
    layer = thresholded_masks(
        paired_coordinates(alpha=0.1, group_size=n), num_values=d, group_size=n, threshold=3, committee=3, elide=True
    )
    alive = jax.random.bernoulli(KEY, 0.7, (count, n))
    one = lambda key, alive: run_layer(layer, key, jnp.zeros((n, d), jnp.uint32), cohort_of(n), alive)["header"]
    header = jax.jit(lambda: jax.lax.map(lambda row: one(*row), (jax.random.split(KEY, count), alive)))()
    sent = np.asarray(jax.vmap(lambda rows: bound_masks.sent(rows, d))(header.located))
    number, honest = sent.sum(1), sent[:, 33:].sum(1)
    view = View((), (), alive[0], {}, {"mask": jax.tree.map(lambda a: a[0], header)}, ())
    opened = leakage.opened_honest(view, jnp.arange(n) >= 33, threshold=3)
    assert (np.asarray(opened.honest) == np.where(number[0] >= 3, honest[0], 0)).all()
    assert int(opened.sent) == honest[0].sum()
    assert (number == np.asarray(header.contributors)).all()
    for t in (2, 3, 5):
        setting = theory.Setting(n, 0.1, 0.3)
        assert near((number >= t).mean(1), theory.opened_fraction(setting, t))
        assert near(np.where(number >= t, number, 0).sum(1), theory.kept_fraction(setting, t), number.sum(1))
        for size in (1, 2, 3):
            read = np.where((honest == size) & (number >= t), honest, 0).sum(1)
            expected = theory.opened_sum_fraction(theory.Setting(n, 0.1, 0.3, 0.33), t, size)
            assert near(read, expected, honest.sum(1))
    assert not near((number >= 2).mean(1), theory.opened_fraction(theory.Setting(n, 0.1, 0.3), 3))


def near(part, expected, whole=1.0):
    """Whether a ratio of sums over rounds is within five standard errors."""
    away = part - expected * whole
    return abs(away.mean()) < 5 * away.std(ddof=1) / np.sqrt(len(part))


def test_sums_of_random_coordinates_are_unbiased_and_would_not_be_if_what_is_not_opened_counted_as_zero():
    opening = dict(threshold=3, committee=2, quorum=2, elide=True)
    mask = thresholded_masks(plain_sparse_field(D), num_values=D, group_size=N, **opening)
    parts = dict(few=rand_k(D, 3), grid=on_sparse_values(quantize(2.0**10, N)), mask=mask)
    layer = over_opened(stack(**parts))
    x = np.random.default_rng(5).normal(size=(N, D)).astype(np.float32)

    def one(key):
        result = run_layer(layer, key, x, cohort_of(N), survivors(N))
        return result["received"], result["header"]["mask"].contributors

    found, number = jax.jit(jax.vmap(one))(jax.random.split(KEY, 4000))
    accepted, number = np.asarray(found.count[:, 0]) > 0, np.asarray(number)
    share = np.where(number >= 3, number, 0).sum(1) / number.sum(1)
    assert accepted.mean() > 0.99 and (accepted == (share > 0)).all() and (number.sum(1) == 3 * N).all()
    rows = np.asarray(found.value[:, 0])[accepted]
    assert away(rows, x.sum(0)).max() < 5
    assert (away(rows * share[accepted, None], x.sum(0)) > 5).mean() > 0.7


def test_sums_are_divided_by_what_the_masks_opened_whatever_they_are_called():
    name, threshold = "m", 4
    parts = dict(few=rand_k(D, 4), grid=on_sparse_values(quantize(2.0**10, N)))
    mask = thresholded_masks(plain_sparse_field(D), num_values=D, group_size=N, threshold=threshold, elide=True)
    one = lambda layer: run_layer(layer, KEY, jnp.ones((N, D)), cohort_of(N), survivors(N))
    whole, found = jax.jit(
        lambda: (one(stack(**parts, **{name: mask})), one(over_opened(stack(**parts, last=stack(**{name: mask})))))
    )()
    number = np.asarray(whole["header"][name].contributors)
    share = np.where(number >= threshold, number, 0).sum() / number.sum()
    assert 0 < share < 1
    np.testing.assert_allclose(found["received"].value, whole["received"].value / share, rtol=1e-6)


@pytest.mark.parametrize("option", [{"prg": "chacha20"}, {"num_groups": 2}, {"elide": True}])
def test_pairs_that_draw_coordinates_have_no_options_of_masks(option):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(option))}'"):
        paired_coordinates(alpha=0.1, group_size=4, **option)


def test_sums_that_are_opened_whole_are_refused():
    layer = stack(few=rand_k(D, 4), grid=on_sparse_values(quantize(2.0**10, N)), mask=plain_sparse_field(D))
    with pytest.raises(ValueError, match="^stacked must be a stack that ends in layers.thresholded_masks, got one"):
        over_opened(layer)


def away(rows, expected):
    """Of the mean of rows, in standard errors."""
    return np.abs(rows.mean(0) - expected) / rows.std(0, ddof=1) * np.sqrt(len(rows))


def test_top_k_keeps_what_was_not_opened_and_nothing_is_lost():
    """What was summed and what is carried add up to the updates of accepted uploads, round by round."""
    rounds, d = 8, 20
    vectors = np.random.default_rng(11).normal(size=(N, rounds, d)).astype(np.float32)
    system = systems.thresholded_secagg(
        of_the_round(jnp.asarray(vectors)), num_clients=N, num_params=d, alpha=0.3, threshold=3, select="top_k",
        dropout=0.2, committee=3, quorum=1, levels=2.0**20, mesh=None, elide=True,
        observe=lambda view: view.header["mask"],
    )  # fmt: skip
    data = targets(N, d)
    state, step, given, got = system.init(KEY, jnp.zeros(d), data), jax.jit(system.step), 0.0, 0.0
    weight, lost, failed, carried = np.asarray(data.count / data.count.sum())[:, None] / 0.8, 0, 0, 0
    for number in range(rounds):
        old, told = state, np.asarray(state.layers["select"].sent != 0).any(1)
        state, info = step(KEY, state, data)
        assert (np.asarray(info.bits["opened"].down) == d * told).all() and not info.bits["opened"].up.any()
        counted, opened = np.asarray(info.counted), np.asarray(info.observed.contributors) >= 3
        if int(info.status):  # nothing was opened, or nobody is there to do it
            assert int(info.status) == Status.NOT_RECOVERED and same_bits(old._replace(round=state.round), state)
            failed += not opened.any()
            continue
        given += (weight * vectors[:, number])[counted].sum(0)
        got += np.asarray(info.direction, np.float64)
        update, sent = state.layers["select"].update, np.asarray(bound_masks.sent(state.layers["select"].sent, d))
        carried = np.where(sent & opened, 0, update)
        np.testing.assert_allclose(got + carried.sum(0), given, atol=1e-4)
        assert (sent.sum(1) == 6 * counted).all() and (np.where(opened, 0, sent).sum() > 0)
        lost += (~counted).sum()
    assert lost > 2 and failed and np.abs(carried).max() > 0.1


def test_what_was_opened_is_announced_whatever_a_byzantine_client_finds_of_itself():
    """Its upload counts towards the threshold though it is not finite; honest clients do not send again."""
    x = jnp.array([[5.0, 1.0], [5.0, 1.0], [jnp.inf, 1.0]])
    masks = thresholded_masks(plain_sparse_field(2), num_values=2, group_size=3, threshold=3, quorum=1, elide=True)
    grid = on_sparse_values(quantize(2.0**4, 3))
    system = engine(
        cohort=everyone(num_byzantine=1), local=of_the_round(jnp.flip(x, 0)[:, None].repeat(2, 1)),
        layers=stack(top=opened_top_k(2, 1, num_clients=3, threshold=3), grid=grid, mask=masks),
    )  # fmt: skip
    _, state, info = one_round(system, targets(3, 2), 2)
    assert info.status == 0 and info.counted.all() and info.direction[0] != 0
    announce = jax.jit(opened_top_k(2, 1, num_clients=3, threshold=3).advertise)
    memory, _, bits = announce(KEY, state.layers["top"], cohort_of(3))
    assert memory.tolist() == [[0, 0], [0, 1], [0, 1]] and bits["opened"].down.tolist() == [2, 2, 2]


def test_coordinates_that_pairs_draw_are_scaled_to_the_mean():
    """Everybody's update is 1. A coordinate has less than half of the clients, and those of lost ones none."""
    d, n, dropout = 3000, 8, 0.2
    system = systems.thresholded_secagg(
        of_the_round(jnp.ones((n, 1, d))), num_clients=n, num_params=d, select="pairs", alpha=0.6, threshold=2,
        committee=3, elide=True, dropout=dropout, levels=2.0**10, mesh=None,
    )  # fmt: skip
    data = targets(n, d)
    _, _, info = one_round(system, data, d)
    assert info.status == 0 and (info.direction > 0).sum() < d and not info.counted.all()
    found, count = np.asarray(info.direction, np.float64), np.asarray(data.count)
    share = count[np.asarray(info.counted)].sum() / count.sum()
    assert abs(found.mean() - share / (1 - dropout)) < 5 * found.std() / np.sqrt(d)
