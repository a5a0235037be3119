import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers import (
    coded,
    conspar,
    enrolled_masks,
    one_shot_masks,
    pairwise_masks,
    plain,
    plain_field,
    plain_ring,
    qsgd,
    quantize,
    round_within,
    sparse_masks,
    stack,
    uniform_levels,
    validate_norm,
    wrap,
)
from fedjax_priv.layers.consensus_sparsification import propose, union
from fedjax_priv.status import Status
from helpers import cohort_of, refuses, run_layer, survivors

KEY = jax.random.key(17)
M, D, K = 4, 20, 3


def vectors(seed=0):
    return np.random.default_rng(seed).normal(size=(M, D)).astype(np.float32)


def ran(x, *, who=None, alive=None, **how):
    layer = stack(it=conspar(D, K, **how), send=plain())
    return run_layer(
        layer, KEY, jnp.asarray(x), cohort_of(M) if who is None else who, survivors(M) if alive is None else alive
    )


def largest(x):
    return np.argsort(-np.abs(x), axis=1, kind="stable")[:, :K]


def test_everyone_sends_the_union_of_the_largest_and_keeps_the_rest():
    """Against NumPy, at alpha = 0, with one client lost after it proposed."""
    x = vectors()
    x[0, :6] = 9  # of equal ones the first
    alive = np.asarray(survivors(M, [2]))
    result = ran(x, alive=jnp.asarray(alive))
    everyone = np.unique(largest(x))
    rows, position = result["received"].value
    size = len(everyone)
    assert position.shape == (1, M * K) and position[0].tolist() == [*everyone, *[D] * (M * K - size)]
    np.testing.assert_allclose(rows[0, :size], x[alive][:, everyone].astype(np.float64).sum(0), rtol=1e-5)
    assert (rows[0, size:] == 0).all()
    kept = x.copy()
    kept[:, everyone] = 0
    np.testing.assert_array_equal(result["state"]["it"].counted, kept)
    np.testing.assert_array_equal(result["state"]["it"].lost, x)


def test_memory_is_added_before_a_proposal():
    layer, x = conspar(D, K), vectors()
    memory = jnp.asarray(10 * vectors(1))
    y, kept, sent = jax.jit(layer.encode)(KEY, memory, (), jnp.asarray(x), cohort_of(M))
    v = x + np.asarray(memory)
    assert set(np.asarray(sent.clear).ravel()) == set(largest(v).ravel())
    whole = np.array(kept.counted)
    whole[:, np.unique(largest(v))] += np.asarray(y)[:, : len(np.unique(largest(v)))]
    np.testing.assert_array_equal(whole, v)
    np.testing.assert_array_equal(kept.lost, v)


@functools.partial(jax.jit, static_argnames="n")
def proposals(keys, v, n, alpha):
    return jax.vmap(lambda key: propose(key, v, n, alpha))(keys)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_a_proposal_has_the_law_of_the_paper(alpha):
    """Every 2-subset of 6 coordinates, eqs. 16 to 20 by enumeration; chi-square."""
    d, n, draws = 6, 2, 20_000
    v = jnp.arange(d, 0, -1.0)
    drawn = np.sort(proposals(jax.random.split(KEY, draws), v, n, alpha), axis=1)
    subsets = list(itertools.combinations(range(d), n))
    law = np.array([_probability(set(one), {0, 1}, d, alpha) for one in subsets])
    assert law.sum() == pytest.approx(1)
    count = np.array([(drawn == one).all(1).sum() for one in subsets])
    assert count.sum() == draws and (count[law == 0] == 0).all()
    possible = law > 0
    statistic = ((count - draws * law)[possible] ** 2 / (draws * law[possible])).sum()
    assert statistic < 40  # of at most 14 degrees of freedom: p = 3e-4


def test_the_order_of_a_proposal_tells_nothing_that_its_set_does_not():
    """Largest coordinates come by rank: in that order two updates with the same n largest would be told apart."""
    keys = jax.random.split(KEY, 200)
    found = [np.asarray(proposals(keys, jnp.array(v), 2, 0.3)) for v in ([1.0, 0.0, 5.0, 4.0], [1.0, 0.0, 4.0, 5.0])]
    assert all((drawn[:, 0] < drawn[:, 1]).all() for drawn in found)


def _probability(proposal, top, d, alpha):
    """By the steps of the paper: r replaced of the top n, a uniform rest, r uniform ones outside what is kept."""
    n, total = len(top), 0.0
    for r in range(n + 1):
        for kept in map(set, itertools.combinations(top, n - r)):
            if kept <= proposal:
                total += math.comb(n, r) * alpha**r * (1 - alpha) ** (n - r) / math.comb(n, r) / math.comb(d - n + r, r)
    return total


def test_random_proposals_cover_what_independent_sets_do():
    """E |I| / d = 1 - (1 - n/d)**m at alpha = 1."""
    drawn = proposals(jax.random.split(KEY, (4000, M)).ravel(), jnp.ones(D), K, 1.0).reshape(4000, M, K)
    sizes = jax.jit(jax.vmap(lambda proposals: (union(proposals, D) < D).sum()))(drawn)
    expected = D * (1 - (1 - K / D) ** M)
    assert abs(np.mean(sizes) - expected) < 5 * np.std(sizes) / np.sqrt(4000)


@pytest.mark.parametrize("d", [5, 12, 40, 1000])
def test_the_union_is_sorted_and_padded_to_the_most_there_can_be(d):
    rng = np.random.default_rng(d)
    for _ in range(20):
        proposals = np.stack([rng.permutation(d)[:4] for _ in range(6)]).astype(np.int32)
        expected = np.full(min(24, d), d)
        expected[: len(np.unique(proposals))] = np.unique(proposals)
        assert union(jnp.array(proposals), d).tolist() == expected.tolist()


@pytest.mark.parametrize("forged", [[3, 3, 5], [0, 1, D], [-1, 2, 4]])
def test_an_illegal_proposal_is_dropped_and_honest_ones_are_not(forged):
    attack = lambda key, v, proposals, honest: jnp.broadcast_to(jnp.array(forged, jnp.int32), proposals.shape)
    who, x = cohort_of(M)._replace(byzantine=jnp.arange(M) == 1), vectors()
    result = ran(x, who=who, attack=attack)
    position = result["received"].value.position[0]
    assert position[position < D].tolist() == np.unique(np.delete(largest(x), 1, axis=0)).tolist()


def test_an_attack_moves_only_byzantine_proposals():
    attack = lambda key, v, proposals, honest: jnp.broadcast_to(jnp.array([0, 1, 2], jnp.int32), proposals.shape)
    who, x = cohort_of(M)._replace(byzantine=jnp.arange(M) == 1), vectors()
    proposals = np.asarray(ran(x, who=who, attack=attack)["sent"].clear["it"])
    np.testing.assert_array_equal(np.delete(proposals, 1, axis=0), np.sort(np.delete(largest(x), 1, axis=0)))
    assert proposals[1].tolist() == [0, 1, 2]


def test_an_attack_is_told_who_is_honest_and_takes_part():
    """Client 1 is Byzantine, 3 was not drawn; the set of the others, {0, 2}, as a binary number is 5."""
    members = lambda honest: jnp.where(honest, 2 ** jnp.arange(M), 0).sum()
    attack = lambda key, v, proposals, honest: jnp.broadcast_to(members(honest) + jnp.arange(K), proposals.shape)
    who = cohort_of(M)._replace(byzantine=jnp.arange(M) == 1, selected=survivors(M, [3]))
    found = ran(vectors(), who=who, alive=survivors(M, [3]), attack=attack)["sent"].clear["it"]
    assert found[1].tolist() == [5, 6, 7]


def test_bits_are_those_of_the_messages():
    """Indices below 20 have 5 bits; values on I up, and the aggregate on I down."""
    who, x = cohort_of(M)._replace(selected=survivors(M, [3])), vectors()
    result = ran(x, who=who, alive=survivors(M, [3]))
    size = len(np.unique(largest(x[:3])))
    assert result["sent"].bits[:3].tolist() == [32 * size] * 3
    assert result["bits"]["propose"].up.tolist() == [5 * K] * 3 + [0]
    assert result["bits"]["propose"].down.tolist() == [5 * size] * 3 + [0]
    assert result["bits"]["model"].down.tolist() == [32 * size] * 3 + [0]


GRID, SHORT = {"grid": quantize(100.0, 99)}, {"round": round_within(100.0, max_norm=1.0), "wrap": wrap(16)}


@pytest.mark.parametrize(
    ("below", "each", "more"),
    [
        ({"send": plain()}, 32, 0),
        ({"send": uniform_levels(8)}, 8, 0),
        ({"send": qsgd(1)}, 2, 32),
        (GRID | {"send": plain_field()}, 32, 0),
        (GRID | {"send": one_shot_masks(group_size=M, spacing=3, length=2)}, 32, M * 2 * 32 + 64),
        (SHORT | {"send": plain_ring(16)}, 16, 0),
        (SHORT | {"send": pairwise_masks(group_size=M, bits=16)}, 16, 0),
        (SHORT | {"send": enrolled_masks(group_size=M, threshold=2, bits=16)}, 16, 0),
        (GRID | {"proof": validate_norm(100.0), "send": plain_field()}, 32 + 256, 8 * 3_207_104),
        (GRID | {"rest": stack(proof=validate_norm(100.0), send=plain_field())}, 32 + 256, 8 * 3_207_104),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else str(value),
)
def test_unused_places_cost_no_bits_whatever_a_place_costs(below, each, more):
    """All propose the same K coordinates, and M K places are there."""
    x = np.broadcast_to(vectors()[:1] / 10, (M, D))
    layer = stack(vote=conspar(D, K), **below)
    sent = jax.jit(lambda x: run_layer(layer, KEY, x, cohort_of(M), survivors(M))["sent"])(x)
    assert sent.bits.tolist() == [each * K + more] * M


@pytest.mark.parametrize(
    "below",
    [
        GRID | {"proof": validate_norm(100.0, proof="rofl"), "send": plain_field()},
        GRID | {"send": sparse_masks(alpha=0.5, group_size=M)},
        {"send": coded(uniform_levels(8))},
    ],
    ids=["rofl", "sparse_masks", "coded"],
)
def test_messages_that_are_not_so_many_bits_for_each_value_are_refused(below):
    layer, name = stack(vote=conspar(D, K), **below), [*below][-2 if "proof" in below else -1]
    with pytest.raises(ValueError, match=rf"^{name} must send the same number of bits for every value"):
        run_layer(layer, KEY, vectors(), cohort_of(M), survivors(M))


def test_what_is_not_finite_is_told():
    x = vectors()
    x[2, 7] = np.nan
    assert ran(x)["sent"].status.tolist() == [0, 0, Status.NOT_FINITE, 0]


@pytest.mark.parametrize("alpha", [1.5, -0.1])
def test_a_traced_alpha_out_of_range_is_told(alpha):
    refused = jax.jit(lambda alpha: ran(vectors(), alpha=alpha)["sent"].refused)(alpha)
    assert (np.asarray(refused) == Status.NOT_FINITE).all()


test_bad_arguments = refuses(
    lambda change: conspar(**{"num_params": D, "num_coordinates": K, **change}),
    ({"num_coordinates": 21}, "num_coordinates must be at most num_params = 20, got 21"),
    ({"num_coordinates": 0}, "num_coordinates must be an integer >= 1, got 0"),
    ({"alpha": 1.1}, "alpha must be a number in [0, 1], got 1.1"),
    whole=True,
)
