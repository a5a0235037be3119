"""Keys, seeds and shares: who holds what, what is opened, and what the server can make of it."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Placement
from fedjax_priv.crypto import field, key_agreement, shamir
from fedjax_priv.crypto.prg import elements, philox, seed_of
from fedjax_priv.keys import named
from fedjax_priv.layers.secure_sum import opening, sharing
from helpers import Q, cohort_of, refuses, same_bits, survivors

N = 9
KEY = jax.random.key(3)
WHO = cohort_of(N, round=5)
GRAPHS = {"complete": "all", "k-regular": 4}
lagrange_weights, reconstruct = jax.jit(shamir.lagrange_weights), jax.jit(shamir.reconstruct)


def quorum_of(graph="complete", group_size=N, threshold=None):
    return sharing.quorum_of(group_size, GRAPHS[graph], threshold)


QUORUMS = {graph: quorum_of(graph) for graph in GRAPHS}


@functools.partial(jax.jit, static_argnames="quorum")
def open_round(quorum, key, who):
    private, roster, bits = sharing.open_round(quorum, key, who)
    return private, roster, sharing.all_peers(quorum, roster), bits


@functools.partial(jax.jit, static_argnames="quorum")
def close_round(quorum, private, roster, alive, online):
    header, bits = opening.disclose(quorum, private, roster, (), alive, online)
    return header, opening.reconstruct(quorum, header, roster), bits


def run(quorum, lost=(), gone=(), who=WHO, key=KEY, spoil=None):
    """`lost` do not upload; `gone` of the others leave before disclosure; `spoil` garbles what users hold by then."""
    alive = survivors(N, lost) & who.selected
    private, roster, peers, opening = open_round(quorum, key, who)
    held = spoil(private) if spoil else private
    header, rebuilt, closing = close_round(quorum, held, roster, alive, alive & survivors(N, gone))
    return {
        "private": private, "roster": roster, "peers": peers, "header": header, "secrets": rebuilt.secrets,
        "recovered": rebuilt.recovered, "bits": {**opening, **closing},
    }  # fmt: skip


def by_owner(rows, peers):
    """Rows `[holder, m, ...]` by place on the circle as `[holder, owner, ...]`, zero where there is none."""
    rows, slot, there = map(np.asarray, (rows, peers.slot, peers.there))
    table = np.zeros((N, N, *rows.shape[2:]), rows.dtype)
    for holder, place in zip(*np.nonzero(there), strict=True):
        table[holder, slot[holder, place]] = rows[holder, place]
    return table


def who_holds(peers):
    """`[holder, owner]`."""
    return by_owner(np.ones(peers.there.shape, bool), peers)


def test_what_a_user_draws_depends_on_a_name_and_its_number():
    """One by one, key by key; a word drawn for two purposes would give a secret away."""
    private, _, peers, _ = open_round(QUORUMS["complete"], KEY, WHO)
    user = 2
    stream = philox.words(seed_of(named(KEY, "secrets")), "secrets", WHO.client[user], 5 * 2)
    key, spare, seed, other, polynomial = stream.reshape(5, 2)
    assert same_bits(private.key[user], key_agreement.exponents(key, spare))
    assert same_bits(private.seed[user], elements(seed, other))
    secrets = jnp.concatenate([private.key[user], private.seed[user]])
    shares = shamir.share(polynomial[None], secrets[None], threshold=N // 2 + 1, num_shares=N)
    assert same_bits(by_owner(private.shares, peers)[:, user], shares[0])


@pytest.mark.parametrize("graph", GRAPHS)
def test_what_is_recovered_of_every_user_whoever_survives(graph):
    """Against the rules in NumPy, over two groups, a user outside, and 200 survivor sets."""
    who = cohort_of(N, group=[0, 1, 0, 0, 1, 0, 0, 0, 0])._replace(selected=survivors(N, [3]))
    group, chosen, rng = np.asarray(who.group), np.asarray(who.selected), np.random.default_rng(0)
    quorum, outcomes = sharing.quorum_of(6, "all" if graph == "complete" else 2, 2), []
    private, roster, peers, _ = open_round(quorum, KEY, who)
    holds = who_holds(peers)
    for _ in range(200):
        alive = chosen & (rng.random(N) < rng.random())
        online = alive & (rng.random(N) < rng.random() ** 0.3)
        _, rebuilt, _ = close_round(quorum, private, roster, jnp.asarray(alive), jnp.asarray(online))
        secrets, recovered = rebuilt.secrets, rebuilt.recovered
        met = (holds & ~np.eye(N, dtype=bool))[alive].any(0)  # by a survivor other than oneself
        answers = online & (holds[alive].sum(0) >= 2)
        lacking = chosen & (alive | met) & (holds[answers].sum(0) < 2)
        fine = np.array([alive[group == g].any() and not lacking[group == g].any() for g in group])
        assert np.asarray(recovered).tolist() == fine.tolist()
        expected, known = np.where(alive[:, None], private.seed, private.key), chosen & (holds[answers].sum(0) >= 2)
        assert np.asarray(rebuilt.known).tolist() == known.tolist() and not rebuilt.wrong.any()
        assert (np.asarray(secrets)[known] == expected[known]).all()
        assert (np.asarray(secrets)[~known] != expected[~known]).any(1).all()
        outcomes += fine.tolist()
    assert 0.1 < np.mean(outcomes) < 0.9


@pytest.mark.parametrize("graph", GRAPHS)
def test_never_both_kinds_of_share_of_one_user(graph):
    """Also if users leave between upload and disclosure: what is opened depends on uploads alone."""
    alive = np.asarray(survivors(N, [1, 4]))
    for gone in ([], [2], [2, 5, 7]):
        result = run(QUORUMS[graph], lost=[1, 4], gone=gone)
        online = alive & np.asarray(survivors(N, gone))
        shares, opened = (by_owner(a, result["peers"]) for a in (result["private"].shares, result["header"].shares))
        shown = online[:, None] & who_holds(result["peers"])
        for owner in range(N):
            key, seed = shares[:, owner, :2], shares[:, owner, 2:]
            right, wrong = (seed, key) if alive[owner] else (key, seed)
            mine = shown[:, owner]
            assert mine.sum() >= 2
            assert (opened[mine, owner] == right[mine]).all()
            assert not (opened[mine, owner] == wrong[mine]).any()
            assert not opened[~mine, owner].any()


def junk_like(a, seed):
    return jnp.asarray(np.random.default_rng(seed).integers(0, Q, a.shape, dtype=np.uint32))


def spoilt(alive, online, peers, opened):
    """Junk in what is not opened (or, `opened`, only in what is) once uploads are sent."""
    is_key = np.arange(4)[None, None, :] < 2
    shown = np.asarray(online)[:, None, None] & (is_key != np.asarray(alive)[np.asarray(peers.slot)][..., None])

    def spoil(private):
        junk = junk_like(private.shares, 0)
        if opened:
            return private._replace(shares=jnp.where(shown, junk, private.shares))
        return private._replace(
            key=junk_like(private.key, 1),
            seed=junk_like(private.seed, 2),
            shares=jnp.where(shown, private.shares, junk),
        )

    return spoil


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("lost", [[], [4]])
def test_the_server_reads_survivors_shares_only(graph, lost):
    """Law 10: junk in all that is not opened changes nothing; junk in what is opened does."""
    alive = survivors(N, lost)
    online = alive & survivors(N, [1])
    result = run(QUORUMS[graph], lost, [1])
    assert result["recovered"].all()
    closed, wrong = (
        run(QUORUMS[graph], lost, [1], spoil=spoilt(alive, online, result["peers"], opened)) for opened in (False, True)
    )
    seen = lambda result: (result["header"], result["secrets"], result["recovered"], result["bits"])
    assert same_bits(seen(result), seen(closed))
    assert not (result["secrets"] == wrong["secrets"]).any()


def test_fewer_survivors_than_the_threshold_open_nothing():
    who = cohort_of(N, group=[0, 1, 0, 1, 0, 1, 0, 1, 0])
    result = run(quorum_of(group_size=5, threshold=3), lost=[0, 2, 4], who=who)
    assert result["recovered"].tolist() == [False, True] * 4 + [False]
    opened = by_owner(result["header"].shares, result["peers"])
    odd = np.arange(N) % 2 == 1
    assert opened[np.ix_(odd, odd)].all()
    assert not opened[~odd].any()
    assert not opened[:, ~odd].any()


def test_a_user_answers_if_enough_of_its_own_holders_survived():
    """The threshold is one of each user's holders: a neighbour's may be met where one's own is not."""
    quorum = QUORUMS["k-regular"]
    roster, poor = run(quorum)["roster"], 5
    at = lambda step: int(roster.circle.order[(int(roster.circle.place[poor]) + step) % N])
    result = run(quorum, lost=[at(-2), at(-1), at(1)])  # itself and one more of its 5 holders are left, 3 are needed
    held, opened = who_holds(result["peers"]), by_owner(result["header"].shares, result["peers"])
    assert not opened[poor].any()
    assert not result["header"].online[poor]
    assert not result["recovered"].any(), "its own private mask stays in the sum"
    assert held[at(2), at(4)] and opened[at(2), at(4)].all(), "others answer"


@pytest.mark.parametrize(("gone", "recovered"), [([0], True), ([0, 3, 5, 7], True), ([0, 3, 5, 7, 8], False)])
def test_a_user_may_upload_and_leave_before_disclosure(gone, recovered):
    """Two survivor sets: those who stay must hold enough shares, 5 of 9."""
    result = run(QUORUMS["complete"], gone=gone)
    assert (result["bits"]["unmask"].up > 0).tolist() == survivors(N, gone).tolist(), "those who stay answer anyhow"
    assert result["recovered"].tolist() == [recovered] * N


@pytest.mark.parametrize("graph", GRAPHS)
def test_as_many_shares_as_the_threshold_reconstruct_and_one_fewer_do_not(graph):
    """A holder's point is its place in the group on the complete graph, else its place among the owner's peers."""
    result = run(QUORUMS[graph])
    private, peers, place = result["private"], result["peers"], np.asarray(result["roster"].circle.place)
    places = by_owner(peers.back, peers) if graph == "k-regular" else np.tile(place[:, None], (1, N))
    shares, held = by_owner(private.shares, peers), who_holds(peers)
    for owner in range(N):
        secret = np.concatenate([private.key[owner], private.seed[owner]])
        holders = np.flatnonzero(held[:, owner])[::-1]
        for fewer, enough in ((0, True), (1, False)):
            mine = holders[: QUORUMS[graph].threshold - fewer]
            chosen = jnp.zeros(N, bool).at[mine].set(True)
            weights = lagrange_weights(shamir.points(N)[places[:, owner]], chosen)
            assert (np.asarray(reconstruct(jnp.asarray(shares[:, owner]), weights)) == secret).all() == enough


@pytest.mark.parametrize("graph", GRAPHS)
def test_everything_is_new_each_round(graph):
    """A key opened in one round must not mask in another."""
    first, second = (
        run(QUORUMS[graph], key=jax.random.fold_in(KEY, t), who=cohort_of(N, round=t))["private"] for t in (0, 1)
    )
    for a, b in ((first.key, second.key), (first.seed, second.seed), (first.shares, second.shares)):
        assert not (a == b).any()


def test_the_graph_is_new_each_round_unless_it_is_complete():
    orders = lambda graph: [run(QUORUMS[graph], key=jax.random.fold_in(KEY, t))["roster"].circle.order for t in (0, 1)]
    assert not same_bits(*orders("k-regular"))
    assert same_bits(*orders("complete"))


def test_secrets_come_from_a_client_s_number_and_polynomials_from_the_round():
    somewhere = WHO._replace(client=jnp.array([9, 0, 7, 3, 8, 1, 5, 6, 4]))
    first, other = (run(QUORUMS["complete"], who=who)["private"] for who in (WHO, somewhere))
    assert same_bits((first.key[3], first.seed[3]), (other.key[3], other.seed[3]))
    assert same_bits((first.key[0], first.seed[0]), (other.key[1], other.seed[1]))
    again = run(QUORUMS["complete"], key=jax.random.fold_in(KEY, 1))
    slope = lambda private: field.sub(private.shares[1, 8], private.shares[0, 0])  # of user 0; whatever its secret
    assert not (slope(first) == slope(again["private"])).any()


def test_secrets_and_graph_come_from_different_random_keys(monkeypatch):
    used, bits = [], jax.random.bits

    def recorded(key, *args):
        jax.debug.callback(lambda data: used.append(tuple(np.asarray(data).tolist())), jax.random.key_data(key))
        return bits(key, *args)

    monkeypatch.setattr(jax.random, "bits", recorded)
    open_ = functools.partial(sharing.open_round, quorum_of("k-regular"), placement=Placement(block=N))
    jax.block_until_ready(jax.jit(open_)(KEY, WHO))
    jax.effects_barrier()
    assert len(used) == len(set(used)) == 2


def test_no_word_serves_two_purposes():
    """Of a secret that is opened, nothing can be learned about another, of this user or of any other."""
    key, seed, polynomial = (np.asarray(a) for a in sharing._draw(quorum_of("k-regular"), KEY, WHO.client))
    assert len({*key.ravel(), *(key - 1).ravel(), *seed.ravel(), *polynomial.ravel()}) == 4 * key.size


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_secrets_of_users_are_their_own(graph):
    private = run(QUORUMS[graph])["private"]
    for secret in (private.key, private.seed, private.shares):
        assert len(np.unique(np.asarray(secret))) == secret.size


def test_every_secret_has_a_polynomial_of_its_own():
    """On the complete graph all stand at the same points: what two shares differ by does not depend on the secret."""
    result = run(QUORUMS["complete"])
    shares = by_owner(result["private"].shares, result["peers"]).astype(object)
    assert len(set(((shares[1] - shares[0]) % Q).ravel())) == 4 * N


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_user_that_is_not_selected_neither_holds_nor_shares(graph):
    who = WHO._replace(selected=survivors(N, [2]))
    result = run(QUORUMS[graph], who=who)
    assert result["recovered"].all()
    held = who_holds(result["peers"])
    assert not held[2].any()
    assert not held[:, 2].any()
    assert not by_owner(result["private"].shares, result["peers"])[2].any()
    assert not any(link.up[2] | link.down[2] for link in result["bits"].values())
    others = 64 * (7 if graph == "complete" else 4)
    assert result["bits"]["advertise"].down.tolist() == [others, others, 0, *[others] * 6]


@pytest.mark.parametrize(("graph", "holders"), [("complete", N), ("k-regular", 5)])
def test_bits_of_each_phase(graph, holders):
    """Keys and commitments are two words, shares of two secrets four, opened ones two; survivors a bitmap of bytes."""
    result = run(QUORUMS[graph], lost=[2], gone=[3])
    alive, online = (np.asarray(survivors(N, away)) for away in ([2], [2, 3]))
    expected = {
        "advertise": (np.full(N, 128), np.full(N, 64 * (holders - 1))),
        "share": (np.full(N, 128 * (holders - 1)), np.full(N, 128 * (holders - 1))),
        "unmask": (64 * holders * online, (16 if holders == N else 8) * alive),
    }
    assert result["bits"].keys() == expected.keys()
    for phase, (up, down) in expected.items():
        assert result["bits"][phase].up.tolist() == up.tolist()
        assert result["bits"][phase].down.tolist() == down.tolist()
    sent = np.count_nonzero(by_owner(result["header"].shares, result["peers"]).any(2), axis=1)
    assert result["bits"]["unmask"].up.tolist() == (64 * sent).tolist()


test_bad_arguments = refuses(
    lambda arguments: inspect.unwrap(sharing.quorum_of)(*arguments),
    ((1, "all", None), "group_size must be an integer >= 2, got 1"),
    ((4, "all", 1), "threshold must be an integer >= 2, got 1"),
    ((4, "all", 5), "threshold must be at most group_size = 4, got 5"),
    ((9, 4, 6), r"threshold must be at most neighbours \+ 1 = 5, got 6"),
    ((9, 0, None), "neighbours must be 'all' or an even integer >= 2 and below group_size = 9, got 0"),
    ((4, "some", None), "neighbours must be 'all' or an even integer >= 2 and below group_size = 4, got 'some'"),
    ((4, 1, None), "neighbours must be 'all' or an even integer >= 2 and below group_size = 4, got 1"),
    ((4, 2.0, None), "neighbours must be 'all' or an even integer >= 2 and below group_size = 4, got 2.0"),
    ((9, 3, None), "neighbours must be 'all' or an even integer >= 2 and below group_size = 9, got 3"),
    ((8, 8, None), "neighbours must be 'all' or an even integer >= 2 and below group_size = 8, got 8"),
)


@pytest.mark.parametrize(
    ("size", "graph", "threshold"), [(2, "all", 2), (6, "all", 4), (7, "all", 4), (9, 4, 3), (9, 8, 5)]
)
def test_default_threshold(size, graph, threshold):
    """floor(holders / 2) + 1."""
    assert sharing.quorum_of(size, graph, None).threshold == threshold
