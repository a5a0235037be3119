"""The attack against the truth: all it reports is true, and it finds every component of up to three clients."""

import collections
import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers import pairwise_masks, sparse_masks
from fedjax_priv.leakage import secagg_protocol, separate, sparse_protocol
from fedjax_priv.leakage.separation_attack import _signed_sum, _tiny_sums
from helpers import Q

N, D, BOUND = 12, 600, 1000
SPARSE = dict(alpha=0.6, group_size=N)
LOSS = dict(lost=(1, 6, 9), colluding=(0, 4, 6, 8))
CASES = {
    "server alone, no loss": (SPARSE, {}),
    "server alone": (SPARSE, dict(lost=(1, 6, 9))),
    "colluders": (SPARSE, LOSS),
    "colluders, some gone": (SPARSE, LOSS | dict(gone=(2, 5))),
}


@functools.cache
def parts(*groups, **how):
    """One object per arguments, so that it is compiled once."""
    return sparse_masks(*groups, **how), sparse_protocol(*groups, **how)


def sparse(play, how=SPARSE, groups=(), **outcome):
    layer, protocol = parts(*groups, **how)
    return play(layer, N, D, **outcome), protocol


def read(reading):
    return {
        (int(at), tuple(c for c in clients.tolist() if c >= 0)): int(value)
        for at, clients, value in zip(reading.coordinate, reading.clients, reading.value, strict=True)
    }


def small(truth, size=3):
    return {where: value for where, value in truth.items() if len(where[1]) <= size}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_is_true_and_all_there_is(play, name):
    how, outcome = CASES[name]
    round, protocol = sparse(play, how, **outcome)
    truth = round.components(protocol)
    reading = separate(round.view, protocol, bound=BOUND, colluders=round.colluders)
    assert read(reading) == small(truth)
    assert reading.false_hits < 0.02
    sizes = [len(clients) for _, clients in truth]
    assert reading.sent.sum() == sum(sizes)
    for size in (1, 2, 3):
        expected = size * sizes.count(size)
        assert reading.read[:, size - 1].sum() == expected
        assert reading.fraction.value[size - 1] == expected / sum(sizes)
    assert (max(sizes) > 1) and (len(small(truth)) > 20)
    assert read(separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=1)) == small(truth, 1)


def test_colluders_help(play):
    round, protocol = sparse(play, **LOSS)
    alone = separate(round.view, protocol, bound=BOUND)
    together = separate(round.view, protocol, bound=BOUND, colluders=round.colluders)
    honest = np.isin(alone.clients[alone.size == 1, 0], np.flatnonzero(round.honest)).sum()
    assert 1.3 * honest < (together.size == 1).sum()


def test_groups_are_attacked_apart(play):
    """A group with too few survivors is not recovered: nothing of it is opened, and nothing read."""
    how = dict(alpha=0.6, group_size=6, expand="dense")
    group = np.arange(N) % 2
    for lost, groups in (((0, 3), {0, 1}), ((0, 2, 4, 3), {1})):
        round, protocol = sparse(play, how, (2,), lost=lost, colluding=(5,), group=group)
        reading = separate(round.view, protocol, bound=BOUND, colluders=round.colluders)
        opened = {where: v for where, v in round.components(protocol).items() if group[where[1][0]] in groups}
        assert read(reading) == small(opened)
        assert set(group[[c[0] for _, c in read(reading)]]) == groups
        alone = separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=1)
        sent = collections.Counter()
        for at, clients in opened:
            sent[at, group[clients[0]]] += len(clients) if len(clients) > 1 else 0
        tried = sum(math.comb(k, 2) for k in sent.values()) - sum(len(clients) == 2 for _, clients in opened)
        two = separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=2)
        assert two.false_hits - alone.false_hits == pytest.approx(tried * (4 * BOUND + 1) / (Q - 4 * BOUND - 1))
        assert alone.false_hits == pytest.approx(sum(sent.values()) * (2 * BOUND + 1) / (Q - 2 * BOUND - 1))


RING = dict(group_size=N, neighbours=4)


@functools.cache
def masks(**how):
    return pairwise_masks(**how), secagg_protocol(**how)


def test_secagg_on_a_connected_graph_gives_nothing_but_the_total(play):
    layer, protocol = masks(**RING)
    d = 100  # few coordinates, so that no sum of some clients is tiny by chance
    round = play(layer, N, d, lost=(1,), colluding=(0, 5))
    (component,) = {clients for _, clients in round.components(protocol)}
    assert component == tuple(np.flatnonzero(round.honest))
    found = lambda size: separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=size)
    fewer, every = found(len(component) - 1), found(len(component))
    assert read(fewer) == {} and fewer.false_hits < 0.2
    total = round.value[round.honest].sum(0)
    assert read(every) == {(at, component): total[at] for at in range(d)}


def test_secagg_on_a_graph_that_falls_apart_is_read(play):
    """All neighbours of a client lost or colluding: all it sent is read. `theory.secagg_plus` has the probability."""
    layer, protocol = masks(**RING)
    order = np.asarray(play(layer, N, D).view.public["mask"].circle.order)
    round = play(layer, N, D, lost=order[[0, 3]], colluding=order[[1, 4]])
    reading = separate(round.view, protocol, bound=BOUND, colluders=round.colluders)
    assert read(reading) == {(at, (order[2],)): round.value[order[2], at] for at in range(D)}


@pytest.mark.parametrize("size", [1, 2])
def test_a_wide_bound_hits_by_chance_as_often_as_predicted(play, size):
    """Values are at most 1,000; a bound of a twentieth of the field takes many more for values."""
    round, protocol = sparse(play, **LOSS)
    truth = round.components(protocol)
    reading = separate(round.view, protocol, bound=int(0.05 * Q / (2 * size)), colluders=round.colluders, max_size=size)
    wrong = len(read(reading).items() - truth.items())
    if size == 1:
        assert reading.false_hits > 30
        assert abs(wrong - reading.false_hits) < 5 * np.sqrt(reading.false_hits)
    else:  # a value taken out by chance leaves its partner, which is then tried with others
        assert abs(wrong - reading.false_hits) < 0.2 * reading.false_hits


SHORT = 2**16


@pytest.mark.parametrize("bound", [BOUND, 16 * BOUND])
def test_sums_modulo_a_power_of_two_pass_by_chance_as_often_as_predicted(play, bound):
    """A connected graph gives no value away, so all that is read of one client is tiny by chance: of the wider bound a
    half, from which the prediction is found by what did not pass.
    """
    layer, protocol = masks(**RING, bits=16)
    round = play(layer, N, D, value=np.zeros((N, D), int))
    reading = separate(round.view, protocol, bound=bound, max_size=1)
    chance, found = (2 * bound + 1) / SHORT, len(reading.value)
    expected, odds = N * D * chance, chance / (1 - chance)
    assert abs(found - expected) < 5 * np.sqrt(expected)
    assert reading.false_hits == pytest.approx((N * D - found) * odds)
    assert abs(reading.false_hits - expected) < 5 * np.sqrt(N * D * chance * odds)


def test_values_modulo_a_power_of_two_are_read_with_their_signs(play):
    layer, protocol = masks(**RING, bits=16)
    order = np.asarray(play(layer, N, D, value=np.zeros((N, D), int)).view.public["mask"].circle.order)
    value = np.random.default_rng(2).integers(-10, 11, (N, D))
    round = play(layer, N, D, value=value % SHORT, lost=order[[0, 3]], colluding=order[[1, 4]])
    found = read(separate(round.view, protocol, bound=10, colluders=round.colluders, max_size=1))
    assert {at: found.get((at, (order[2],))) for at in range(D)} == dict(enumerate(value[order[2]].tolist()))
    assert (value[order[2]] < 0).any()
    with pytest.raises(ValueError, match=r"bound must be at most \(q - 2\) / \(2 max_size\) = 32767, got 32768"):
        separate(round.view, protocol, bound=32_768, max_size=1)


@pytest.mark.parametrize(("q", "nearest"), [(4, [0, 1, -2, -1]), (5, [0, 1, 2, -2, -1])])
def test_elements_are_read_as_integers_near_0(q, nearest):
    """Of an even modulus the middle one is negative, as in two's complement."""
    assert _signed_sum(np.arange(q, dtype=np.uint32)[:, None], q).tolist() == nearest


def test_values_beyond_the_bound_are_missed(play):
    round, protocol = sparse(play, **LOSS)
    reading = separate(round.view, protocol, bound=500, colluders=round.colluders, max_size=1)
    within = {where: v for where, v in small(round.components(protocol), 1).items() if abs(v) <= 500}
    assert read(reading) == within
    assert 0.3 < len(within) / len(small(round.components(protocol), 1)) < 0.7


def test_tiny_sums_are_those_of_all_subsets():
    """Against a loop over cells and subsets; at a bound this wide many hits overlap."""
    rng = np.random.default_rng(3)
    cell, value = rng.integers(0, 40, 200), rng.integers(0, Q, 200, dtype=np.uint32)
    rest = np.argsort(cell, kind="stable")
    for size, bound in ((1, 2**28), (2, 2**28), (3, 2**27)):
        hits, misses = _tiny_sums(cell, value, rest, size, bound, Q)
        tiny, tried = [], 0
        for c in range(40):
            for subset in itertools.combinations(np.flatnonzero(cell == c).tolist(), size):
                total = sum(int(value[i]) for i in subset) % Q
                tried += 1
                tiny += [subset] if min(total, Q - total) <= bound else []
        found = [tuple(hit) for hit in hits.tolist()]
        assert set(found) <= set(tiny) and misses == tried - len(found)
        taken = set(itertools.chain(*found))
        assert len(taken) == size * len(found) and (size == 1 or 0 < len(found) < len(tiny))
        assert all(taken & set(subset) for subset in set(tiny) - set(found))


def test_bad_arguments(play):
    round, protocol = sparse(play, **LOSS)
    attack = lambda **how: separate(round.view, protocol, **(dict(bound=BOUND) | how))
    with pytest.raises(
        ValueError, match=r"bound must be at most \(q - 2\) / \(2 max_size\) = 715827881, got 715827882"
    ):
        attack(bound=715_827_882)
    with pytest.raises(ValueError, match="bound must be an integer >= 0, got -1"):
        attack(bound=-1)
    with pytest.raises(ValueError, match="max_size must be an integer >= 1, got 0"):
        attack(max_size=0)
    with pytest.raises(ValueError, match="layer must be one of 'mask', got 'masks'"):
        attack(layer="masks")
    wrong = round.colluders._replace(key=jnp.roll(round.colluders.key, 1, 0))
    with pytest.raises(ValueError, match=r"colluders.key must match .*; those of users \[0, 4, 6, 8\] do not"):
        attack(colluders=wrong)
