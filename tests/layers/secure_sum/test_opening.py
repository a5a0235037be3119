"""What survivors open depends on what they were told, and a wrong share never passes for a right one."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.clients import everyone
from fedjax_priv.crypto import field
from fedjax_priv.crypto.prg import expand
from fedjax_priv.layers import pairwise_masks, quantize, stack, weighted_mean
from fedjax_priv.layers.secure_sum import committed_sums, opening, sharing
from fedjax_priv.status import Status
from helpers import cohort_of, engine, same_bits, survivors, targets

KEY = jax.random.key(4)
N = 8
WHO = cohort_of(N, group=[0, 1, 0, 0, 1, 0, 1, 0])
GROUP = np.asarray(WHO.group)
QUORUMS = {"complete": sharing.quorum_of(5, "all", 3), "k-regular": sharing.quorum_of(5, 2, 2)}


@functools.cache
def opened_round(graph):
    """Private and public rows of a round, and who stands where."""
    quorum = QUORUMS[graph]
    private, roster, _ = jax.jit(functools.partial(sharing.open_round, quorum))(KEY, WHO)
    return private, roster, jax.jit(functools.partial(sharing.all_peers, quorum))(roster)


def successor(shares, at):
    """One word replaced by the next element of the field."""
    return shares.at[*at].set(field.add(shares[*at], np.uint32(1)))


@functools.partial(jax.jit, static_argnames="quorum")
def one_word_wrong(quorum, private, roster, alive, online, places):
    """What is opened, and what is rebuilt of it with the word at each place in turn replaced."""
    header, _ = opening.disclose(quorum, private, roster, (), alive, online)
    garbled = lambda at: opening.reconstruct(quorum, header._replace(shares=successor(header.shares, at)), roster)
    return header, jax.lax.map(garbled, places)


@pytest.mark.parametrize("graph", QUORUMS)
@pytest.mark.parametrize("lost", [[], [2]], ids=["shares to spare", "none to spare"])
def test_a_wrong_word_of_any_share_costs_its_group_or_is_not_used(graph, lost):
    """Every word of every share in turn. The other group is recovered, and what is recovered is right."""
    quorum, (private, roster, peers) = QUORUMS[graph], opened_round(graph)
    gone = [5] if lost and graph == "complete" else []
    alive, online = survivors(N, lost), survivors(N, [*lost, *gone])
    places = np.array(list(itertools.product(range(N), range(quorum.holders), range(2))))
    header, rebuilt = one_word_wrong(quorum, private, roster, alive, online, jnp.asarray(places))
    right, caught, needed = np.where(np.asarray(alive)[:, None], private.seed, private.key), 0, 0
    for number, (holder, place, _) in enumerate(places):
        secrets, known, recovered, wrong = (np.asarray(a)[number] for a in rebuilt)
        hit = np.isin(GROUP, GROUP[holder])
        assert recovered[~hit].all() and not wrong[~hit].any()
        assert (secrets[known] == right[known]).all()
        assert (recovered[hit] == ~wrong[hit]).all() and len(set(wrong[hit])) == 1
        caught += int(wrong[holder])
        needed += int(header.online[holder] and peers.there[holder, place])
    assert 0 < caught <= needed
    if graph == "complete":  # 4 of 5 answer for five users, two words each, 3 are used; 3 of 3 for three users
        assert caught == (5 * 3 + 3 * 3) * 2
        assert needed == (5 * (5 if not lost else 3) + 3 * 3) * 2


def garbling(layer):
    """A layer whose first client opens shares that are each off by one; in the second round everybody does."""

    def disclose(private, public, *args, **where):
        header, bits = layer.disclose(private, public, *args, **where)
        garbles = (public.round > 0) | (public.client == 0)
        return header._replace(shares=field.add(header.shares, garbles[:, None, None].astype(jnp.uint32))), bits

    return layer._replace(disclose=disclose)


def test_wrong_shares_cost_a_group_and_those_of_all_groups_the_round():
    data, n = targets(6, 5), 6
    layers = stack(mean=weighted_mean(), quantize=quantize(2.0**16, n), mask=garbling(pairwise_masks(2, group_size=3)))
    system = engine(cohort=everyone(2), layers=layers)
    step, before = jax.jit(system.step), system.init(KEY, jnp.zeros(5), data)
    after, info = step(KEY, before, data)
    assert int(info.status) == 0 and info.counted.sum() == 3 and not info.counted[0]
    assert sorted(info.group_status.tolist()) == [0, Status.WRONG_SHARES]
    mine = np.asarray(info.counted)
    weight = np.asarray(data.count)[mine] / np.asarray(data.count)[mine].sum()
    np.testing.assert_allclose(info.direction, -weight @ np.asarray(data.examples)[mine], atol=1e-3)
    last, info = step(KEY, after, data)
    assert int(info.status) == Status.WRONG_SHARES and info.group_status.tolist() == [Status.WRONG_SHARES] * 2
    assert same_bits(last, after._replace(round=after.round + 1))


def test_a_user_opens_what_the_list_of_its_own_holders_says():
    """Whether others survived changes nothing that it sends, neither shares nor bits: it was told nothing of them."""
    n = 12
    quorum = sharing.quorum_of(n, 4, 3)
    private, roster, _ = jax.jit(functools.partial(sharing.open_round, quorum))(jax.random.key(1), cohort_of(n))
    place = np.asarray(roster.circle.place)
    away = np.abs(place[:, None] - place[None, :])
    holds = np.minimum(away, n - away) <= 2
    close = jax.jit(lambda alive: opening.disclose(quorum, private, roster, (), alive, alive))
    rng, changes = np.random.default_rng(0), 0
    for _ in range(30):
        alive = rng.random(n) < 0.6
        user = rng.choice(np.flatnonzero(alive))
        others = np.where(holds[user], alive, rng.random(n) < 0.6)
        (header, bits), (other, other_bits) = close(jnp.asarray(alive)), close(jnp.asarray(others))
        mine = lambda header, bits, user=user: (header.shares[user], header.online[user], bits["unmask"].up[user])
        assert same_bits(mine(header, bits), mine(other, other_bits))
        assert bool(header.online[user]) == (alive[holds[user]].sum() >= 3)
        changes += int((alive != others).sum())
    assert changes > 30


def test_a_commitment_is_of_one_seed_and_no_word_of_its_mask():
    private, roster, _ = opened_round("complete")
    assert len(np.unique(np.asarray(roster.commitment))) == 2 * N
    masks = jax.jit(jax.vmap(lambda seed: expand(seed, "private mask", 0, 64)))(private.seed)
    for told, *hidden in zip(*map(np.asarray, (roster.commitment, private.seed, private.key, masks)), strict=True):
        assert not set(told.tolist()) & set(np.concatenate(hidden).tolist())
    off = np.array(private.seed)
    off[:, 1] = (off[:, 1].astype(np.int64) + 1) % int(field.Q)
    other = np.asarray(jax.jit(sharing.commitment)(off))
    assert (other != np.asarray(roster.commitment)).all(), "each word of a commitment depends on all of its seed"


def test_a_user_whose_key_arrived_otherwise_says_so_whichever_word_differs():
    layer, x = pairwise_masks(2, group_size=5, threshold=3), jnp.zeros((N, 4), jnp.uint32)

    @jax.jit
    def status(off):
        private, roster, _ = layer.advertise(KEY, (), WHO)
        roster = roster._replace(key=roster.key.at[3].add(off))
        return layer.encode(KEY, private, roster, x, WHO)[2].status

    for off in np.eye(2, dtype=np.uint32):
        assert status(off).tolist() == [int(Status.WRONG_SHARES) * (user == 3) for user in range(N)]


def test_a_sum_of_secrets_must_fit_both_words_of_the_commitments():
    secret = jnp.array([5, 9, 2], jnp.uint32)
    told = np.asarray(jax.jit(committed_sums.committed)(secret[None])[0])
    given = jax.jit(lambda commitment, enough: committed_sums.status(secret, commitment, enough))
    status = lambda commitment, enough: given(commitment, np.array(enough)).tolist()
    for word in np.eye(2, dtype=np.uint32):
        other = told + word
        assert status(other, True) == [int(Status.WRONG_SHARES)] and status(other, False) == [0]
    assert status(told, True) == [0]
