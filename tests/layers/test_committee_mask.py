"""Flamingo: its sums, what the committee opens, and what nobody can read."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import shamir
from fedjax_priv.crypto.prg import expand
from fedjax_priv.layers import committee_masks, enrolled_masks
from fedjax_priv.layers.secure_sum.circle import CONNECTED
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from helpers import Q, agreed_seeds, cohort_of, refuses, run_layer, same_bits, survivors, uniform

KEY = jax.random.key(4)
N, D = 7, 2048
SIZES: dict[str, Any] = {"group_size": N, "committee": 5, "threshold": 3}
GRAPHS = {"complete": committee_masks(**SIZES), "neighbours": committee_masks(**SIZES, neighbours=4)}
X = np.random.default_rng(1).integers(0, Q, (N, D), dtype=np.uint32)
WHO = cohort_of(N, round=3)
ROUND = jnp.int32(3)


@functools.cache
def played(graph, lost=()):
    """A round in which all updates are X."""
    return run_layer(GRAPHS[graph], KEY, X, WHO, survivors(N, [*lost]))


@functools.partial(jax.jit, static_argnums=0)
def rounds(layer, key, x, alive, online):
    def one(alive, online):
        result = run_layer(layer, key, x, WHO, alive, online)
        return result["received"], result["header"]

    return jax.vmap(one)(alive, online)


def test_sums_are_those_in_the_clear_for_every_set_of_survivors():
    """With a random part of them left for disclosure; where fewer than 4 uploads or 3 members are there, nothing is."""
    alive = np.array([[(number >> i) & 1 for i in range(N)] for number in range(2**N)], bool)
    online = alive & (np.random.default_rng(2).random(alive.shape) < 0.9)
    x = X[:, :40]
    received, header = rounds(GRAPHS["neighbours"], KEY, x, alive, online)
    plain = np.where(alive[:, :, None], x, 0).astype(np.uint64).sum(1) % Q
    member = np.asarray(played("neighbours")["public"].who.member)
    assert sorted({*member.tolist()}) == sorted(member.tolist()) and len(member) == 5
    answers = online[:, member] & (alive.sum(1) >= 4)[:, None]
    enough = answers.sum(1) >= 3
    assert 30 < enough.sum() < 64
    assert (np.asarray(received.value)[enough, 0] == plain[enough]).all()
    assert (received.count[:, 0] == np.where(enough, alive.sum(1), 0)).all()
    assert (header.sent == answers & enough[:, None]).all() and not np.asarray(header.keys)[~enough].any()


def constant_term(values, at):
    """Of the polynomial over F_q through some points, in Python integers."""
    total = 0
    for i, x in enumerate(at):
        others = [other for j, other in enumerate(at) if j != i]
        above, below = np.prod(others, dtype=object), np.prod([other - x for other in others], dtype=object)
        total += int(values[i]) * above * pow(int(below) % Q, -1, Q)
    return total % Q


def private_masks(result):
    """From shares of the last three members that answered, `[n, D]`; of the lost anything."""
    sent = np.flatnonzero(result["header"].sent)[-3:]
    at = [int(point) for point in shamir.points(5)[sent]]
    shares = np.asarray(result["header"].shares)[sent]
    seeds = [[constant_term(shares[:, i, word], at) for word in range(2)] for i in range(N)]
    of_one = jax.jit(jax.vmap(lambda seed: expand(seed, "private mask", ROUND, D)))
    return np.asarray(of_one(jnp.array(seeds, jnp.uint32))).astype(object)


def pair_masks(result, pairs):
    """What i adds for j, `[D]` each, from what i and j agreed on when they enrolled."""
    state, client = result["private"], np.asarray(WHO.client)
    seeds = agreed_seeds(state.secret[:, None], result["public"].public[None])
    words = jax.jit(lambda seed: expand(expand(seed, "round key", ROUND, 2), "pairwise mask", 0, D))
    sign = lambda i, j: 1 if client[j] > client[i] else -1
    return {(i, j): sign(i, j) * np.asarray(words(seeds[i, j])).astype(object) for i, j in pairs}


@pytest.mark.parametrize("graph", GRAPHS)
def test_an_upload_is_the_update_a_private_mask_and_one_for_each_neighbour(graph):
    result = played(graph)
    circle = np.asarray(result["public"].circle.order).tolist()
    place = {client: at for at, client in enumerate(circle)}
    near = lambda i, j: graph == "complete" or min((place[i] - place[j]) % N, (place[j] - place[i]) % N) <= 2
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j and near(i, j)]
    own, shared = private_masks(result), pair_masks(result, pairs)
    for i in range(N):
        masks = own[i] + sum(mask for (one, _), mask in shared.items() if one == i)
        assert ((np.asarray(result["upload"][i]).astype(object) - masks) % Q == X[i]).all()
    assert len(pairs) == N * (6 if graph == "complete" else 4)
    assert len(np.unique(own[:, 0])) == N and result["public"].who.member.tolist() != circle[:5]


def test_polynomials_of_shares_do_not_follow_from_the_secrets():
    """Else one share gives its secret away."""
    result = played("complete")
    secrets = jax.jit(lambda seed: expand(seed.T, "private seed", 0, 2).T)(result["private"].seed)
    weak = jax.jit(lambda own: shamir.share(own, own, threshold=3, num_shares=5))(secrets)
    shares = np.swapaxes(np.asarray(result["header"].shares), 0, 1)
    seeds = [
        [constant_term(shares[i, 1:4, word], [*map(int, shamir.points(5)[1:4])]) for word in range(2)] for i in range(N)
    ]
    assert np.asarray(secrets).tolist() == seeds and (np.asarray(weak) != shares).mean() > 0.99


def test_an_upload_that_arrives_late_stays_hidden():
    """The server knows all masks of the lost client's pairs. Without a private mask that is the update."""
    for layer, hidden in ((GRAPHS["complete"], True), (enrolled_masks(group_size=N), False)):
        result = run_layer(layer, KEY, np.zeros_like(X), WHO, survivors(N, [2]))
        pairs = pair_masks(result, [(2, j) for j in range(N) if j != 2])
        left = (np.asarray(result["upload"][2]).astype(object) - sum(pairs.values())) % Q
        assert uniform(left.astype(np.uint32)) == hidden and bool(left.any()) == hidden
        assert result["received"].count.tolist() == [N - 1] and not np.asarray(result["received"].value).any()


def test_members_open_no_private_mask_of_the_lost_and_no_key_between_survivors():
    lost = np.asarray(played("neighbours")["public"].circle.order)[:2]  # neighbours of each other
    result = played("neighbours", tuple(lost.tolist()))
    header, alive = result["header"], np.asarray(survivors(N, lost))
    assert not np.asarray(header.shares)[:, ~alive].any() and np.asarray(header.shares)[:, alive].all(2).any(0).all()
    opened = np.asarray(header.keys).any(2)
    order = np.asarray(result["public"].circle.order)
    place = np.argsort(order)
    away = np.array([1, 2, -2, -1])
    neighbour = order[(place[:, None] + away) % N]
    assert (opened == alive[:, None] & ~alive[neighbour]).all() and 0 < opened.sum() < 10
    secrets = {tuple(row) for row in np.concatenate([*map(np.asarray, result["private"][1:])]).tolist()}
    seen = [np.asarray(leaf) for leaf in jax.tree.leaves((header, result["public"])) if np.shape(leaf)[-1:] == (2,)]
    assert not secrets & {tuple(row) for leaf in seen for row in leaf.reshape(-1, 2).tolist()}


def test_one_member_fewer_than_the_threshold_opens_nothing():
    """Two shares of each seed give any seed, so what is left of the sum of zeros is uniform."""
    result = run_layer(GRAPHS["complete"], KEY, np.zeros_like(X), WHO, survivors(N))
    layer, opened = GRAPHS["complete"], result["header"]
    few = opened._replace(shares=opened.shares.at[2:].set(0), sent=opened.sent.at[2:].set(False))

    @jax.jit
    def decode(header):
        summed = layer.combine.lower(layer.combine.lift(result["upload"], survivors(N), WHO.group))
        return layer.decode(header, result["public"], summed)

    assert uniform(decode(few).value[0]) and decode(few).count.tolist() == [0]
    assert not np.asarray(decode(opened).value).any()
    assert layer.sums[:3] == (4, 3, "") and all(uniform(row) for row in result["upload"])


def test_all_neighbours_of_a_client_read_it_and_one_fewer_do_not():
    """The private mask of a survivor is opened, and each neighbour knows one of its other masks."""
    result = run_layer(GRAPHS["neighbours"], KEY, np.zeros_like(X), WHO, survivors(N))
    order = np.asarray(result["public"].circle.order)
    near = [order[(int(np.argsort(order)[0]) + away) % N] for away in (1, 2, -1, -2)]
    left = np.asarray(result["upload"][0]).astype(object) - private_masks(result)[0]
    masks = pair_masks(result, [(0, int(j)) for j in near])
    all_but_one = sum([*masks.values()][1:])
    assert not ((left - sum(masks.values())) % Q).any() and uniform(((left - all_but_one) % Q).astype(np.uint32))
    sums = committee_masks(**SIZES | {"threshold": 5}, neighbours=4).sums
    assert sums.opened_by == 4 and sums.condition == CONNECTED and GRAPHS["neighbours"].sums.opened_by == 3


def test_an_enrolment_lasts_and_a_round_uses_its_masks_and_its_graph_once():
    layer = GRAPHS["neighbours"]
    state = jax.jit(lambda: layer.init(KEY, 10))()
    state = jax.tree.map(lambda a: a[jnp.array([9, 1, 4, 2, 7, 3, 0])], state)

    @jax.jit
    def one(state, who, key):
        private, public, _ = layer.advertise(key, state, who)
        y, kept, _ = layer.encode(key, private, public, jnp.zeros((N, D), jnp.uint32), who)
        return y, kept, public.circle.order

    (y, kept, circle), (again, later, other) = (
        one(state, WHO, KEY),
        one(state, cohort_of(N, round=4), jax.random.key(5)),
    )
    assert same_bits(kept, state) and same_bits(later, state)
    assert (np.asarray(y) != np.asarray(again)).mean() > 0.99 and circle.tolist() != other.tolist()


def test_bits_of_one_message_and_of_the_committee():
    """With seeds of 256 bits an upload has 32 d + 528 k + 384 C."""
    assert (played("neighbours")["sent"].bits == 32 * D + 528 * 4 + (64 + 128) * 5).all()
    who = WHO._replace(selected=survivors(N, [2]))
    alone = run_layer(GRAPHS["complete"], KEY, X, who, who.selected)
    assert alone["bits"]["advertise"].down.tolist() == [160, 160, 0, *[160] * 4]  # the others of six
    layer, share = committee_masks(**SIZES, neighbours=4, prg="chacha20"), 256
    alive = survivors(N, [2, 5])
    online = survivors(N, [2, 5, 0])
    x = jnp.asarray(X[:, :16])
    result = jax.jit(lambda: run_layer(layer, KEY, x, who, alive, online))()
    member = np.asarray(result["public"].who.member)
    assert 2 not in member and result["bits"].keys() == {"advertise", "consistency", "unmask"}
    assert (np.delete(result["sent"].bits, 2) == 32 * 16 + 528 * 4 + 384 * 5).all()
    assert result["bits"]["advertise"].down.tolist() == [128, 128, 0, *[128] * 4]
    on_it = np.isin(np.arange(N), member)
    answers, told = on_it & np.asarray(online), on_it & np.asarray(alive)
    assert answers.sum() >= 3
    agree, unmask = ([*map(np.asarray, result["bits"][phase])] for phase in ("consistency", "unmask"))
    assert (agree[0] == 512 * answers).all() and (agree[1] == 8 * told + 512 * answers * (answers.sum() - 1)).all()
    broken = int(np.asarray(result["header"].keys).any(2).sum())
    assert broken == 4 and (unmask[0] == answers * (5 * share + 264 * broken)).all()
    assert (unmask[1] == answers * (5 * (share + 128) + 264 * broken)).all()
    assert (np.asarray(result["received"].value[0]) == X[np.asarray(alive), :16].astype(object).sum(0) % Q).all()


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    bare = committee_masks(**SIZES, elide=True)
    plain, masked = run_layer(bare, KEY, X, WHO, survivors(N)), played("complete")
    assert same_bits(masked["received"], plain["received"]) and same_bits(masked["bits"], plain["bits"])
    assert (np.asarray(plain["upload"]) == X).all() and bare.caveats == (ELIDED,)
    assert GRAPHS["complete"].caveats == ()


def made(**change):
    return committee_masks(**SIZES | change)


def of_many_clients():
    """A member is sent a key for each of half the pairs of 8,192 clients."""
    layer = made(group_size=8192)
    return run_layer(layer, KEY, jnp.zeros((8192, 2), jnp.uint32), cohort_of(8192), survivors(8192))


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: made(group_size=1), "group_size must be an integer >= 2, got 1"),
    (lambda: made(neighbours=3), "neighbours must be 'all' or an even integer >= 2 and below group_size = 7, got 3"),
    (lambda: made(committee=8), "committee must be at most group_size = 7, got 8"),
    (lambda: made(threshold=6), "threshold must be at most committee = 5, got 6"),
    (lambda: made(fewest=8), "fewest must be at most group_size = 7, got 8"),
    (lambda: made(fewest=1), "fewest must be an integer >= 2, got 1"),
    (lambda: made(key_agreement="x25519"), "chacha20"),
    (
        lambda: run_layer(made(group_size=6), KEY, X, WHO, survivors(N)),
        "group_size must be at least the size of the cohort, 7, got 6",
    ),
    (
        lambda: run_layer(GRAPHS["complete"], KEY, X[:4], cohort_of(4), survivors(4)),
        "committee must be at most the size of the cohort, 4, got 5",
    ),
    (
        lambda: run_layer(made(committee=2, threshold=2, fewest=6), KEY, X[:4], cohort_of(4), survivors(4)),
        "fewest must be at most the size of the cohort, 4, got 6",
    ),
    (
        lambda: jax.eval_shape(of_many_clients),
        r"a message must have fewer than 2\*\*32 bits \(512 MiB\), got 8859942912",
    ),
)
