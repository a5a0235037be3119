import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers.secure_sum import circle
from helpers import chi_square, cohort_of, survivors

N = 12
KEY = jax.random.key(1)


@jax.jit
def arranged(key, who):
    return circle.arrange(who, key)


def peers_of(places, most):
    """`Peers` of all users `[n, m]` in NumPy."""
    found = jax.jit(jax.vmap(lambda slot: circle.peers(places, slot, most)))(jnp.arange(N))
    return circle.Peers(*map(np.asarray, found))


def adjacency(found):
    """`[n, n]`: who stands among whose peers, itself left out."""
    table = np.zeros((N, N), int)
    for user, place in zip(*np.nonzero(found.there), strict=True):
        table[user, found.slot[user, place]] += 1
    return table - np.diag(found.there[:, 0].astype(int))


def reached(table, user):
    """Users that a walk from one comes to."""
    steps = np.linalg.matrix_power(table + np.eye(N, dtype=int), N)
    return steps[user] > 0


COHORTS = {
    "all": cohort_of(N),
    "some": cohort_of(N)._replace(selected=survivors(N, [0, 5, 6])),
    "groups": cohort_of(N, group=[0, 2, 0, 2, 2, 0, 2, 0, 2, 0, 2, 2])._replace(selected=survivors(N, [7])),
}


@pytest.mark.parametrize("name", COHORTS)
@pytest.mark.parametrize("k", [2, 4])
def test_the_graph_is_k_regular_symmetric_and_connected_within_a_group(name, k):
    who = COHORTS[name]
    chosen, group = np.asarray(who.selected), np.asarray(who.group)
    for t in range(5):
        places = arranged(jax.random.fold_in(KEY, t), who)
        found = peers_of(places, k + 1)
        table = adjacency(found)
        assert table.max() == 1 and not np.diag(table).any(), "peers are different ones"
        assert (table == table.T).all()
        for user in range(N):
            mine = chosen & (group == group[user])
            if not chosen[user]:
                assert not found.there[user].any(), "who is not selected stands outside"
                continue
            assert table[user].sum() == min(k, mine.sum() - 1)
            assert (reached(table, user) == mine).all()
            assert int(places.members[user]) == mine.sum()
            assert found.slot[user, 0] == user and found.there[user, 0]


@pytest.mark.parametrize("name", COHORTS)
@pytest.mark.parametrize(("most", "random"), [(3, True), (5, True), (N, False)])
def test_back_is_where_a_peer_sees_one(name, most, random):
    who = COHORTS[name]
    places = arranged(KEY, who) if random else circle.arrange(who)
    found = peers_of(places, most)
    for user, place in zip(*np.nonzero(found.there), strict=True):
        peer, back = found.slot[user, place], found.back[user, place]
        assert found.there[peer, back]
        assert found.slot[peer, back] == user


@pytest.mark.parametrize("name", COHORTS)
def test_the_nearest_on_the_circle_are_peers(name):
    who, k = COHORTS[name], 4
    places = arranged(KEY, who)
    table = adjacency(peers_of(places, k + 1))
    group, chosen = np.asarray(who.group), np.asarray(who.selected)
    for g in set(group.tolist()):
        mine = np.flatnonzero(chosen & (group == g))
        ring = mine[np.argsort(np.asarray(places.place)[mine])]
        apart = np.abs(np.subtract.outer(np.arange(len(ring)), np.arange(len(ring))))
        apart = np.minimum(apart, len(ring) - apart)
        assert (table[np.ix_(ring, ring)] == ((apart > 0) & (apart <= k // 2))).all()


@pytest.mark.parametrize("members", [2, 3, 4, 5])
def test_a_group_no_larger_than_k_and_one_is_a_complete_graph(members):
    who = cohort_of(N, group=[1] * members + [0] * (N - members))
    table = adjacency(peers_of(arranged(KEY, who), 5))
    assert (table[:members, :members] == 1 - np.eye(members)).all()
    assert not table[:members, members:].any()


@pytest.mark.parametrize("name", COHORTS)
def test_without_a_key_everybody_is_everybody_s_peer(name):
    who = COHORTS[name]
    chosen, group = np.asarray(who.selected), np.asarray(who.group)
    table = adjacency(peers_of(circle.arrange(who), N))
    same = (group[:, None] == group[None, :]) & chosen[:, None] & chosen[None, :]
    assert (table == same & ~np.eye(N, dtype=bool)).all()


def test_every_pair_is_as_likely_to_meet():
    """k (n - 1) / 2 of all pairs, each round others; a circle that never changes is told apart."""
    who, k, rounds = COHORTS["some"], 2, 900
    members = np.flatnonzero(np.asarray(who.selected))

    def pairs(key):
        places = circle.arrange(who, key)
        found = jax.vmap(lambda slot: circle.peers(places, slot, k + 1))(jnp.arange(N))
        return jnp.zeros((N, N), jnp.int32).at[jnp.arange(N)[:, None], found.slot].add(found.there.astype(jnp.int32))

    drawn = np.asarray(jax.jit(jax.vmap(pairs))(jax.random.split(KEY, rounds)))
    upper = np.triu_indices(len(members), 1)
    count = lambda tables: tables.sum(0)[np.ix_(members, members)][upper]
    expected = rounds * k / (len(members) - 1)
    assert chi_square(count(drawn), expected)[1] > 1e-3
    assert chi_square(count(np.repeat(drawn[:1], rounds, 0)), expected)[1] < 1e-9
    assert (count(drawn[:100]) > 0).all()


def test_members_of_a_group():
    group = jnp.array([3, 0, 3, 0, 0])
    assert circle.in_group(jnp.array([1, 1, 1, 0, 1], bool), group).tolist() == [2, 2, 2, 2, 2]
    assert circle.in_group(jnp.array([1, 0, 0, 0, 0], bool), group).tolist() == [1, 0, 1, 0, 0]
