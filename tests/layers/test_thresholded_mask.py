"""Thresholded opening: what is opened, what is not, and what it takes to open it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import layers, leakage, systems
from fedjax_priv.base import ClientData, Sent, View
from fedjax_priv.crypto import field, lagrange, shamir
from fedjax_priv.crypto.digest import digest
from fedjax_priv.layers import (
    opened_top_k,
    paired_coordinates,
    plain_sparse_field,
    sparse_masks,
    stateless,
    thresholded_masks,
)
from fedjax_priv.layers.secure_sum import bitmap, bound_masks, thresholded_opening
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.leakage.separation_attack import _tiny_sums
from fedjax_priv.status import Status
from fedjax_priv.testing import layer_round
from helpers import Q, cohort_of, of_the_round, refuses, run_layer, same_bits, survivors, towards_target, uniform

KEY = jax.random.key(4)
N, D, ROUNDS = 6, 9, 2000


def some_coordinates():
    """Field elements `[b, d]` where a mask `[b, d]` says so."""
    zeroed = lambda key, x, who: jnp.where(x[1], x[0], 0)
    located = lambda x, y: Sent(32 * x[1].sum(1, dtype=jnp.uint32) + jnp.uint32(D), clear=jax.vmap(bitmap.pack)(x[1]))
    return stateless(zeroed, sent=located, combine=layers.field_sum())


def opening(threshold=2, below=None, **how):
    sizes: dict[str, Any] = dict(num_values=D, group_size=N, threshold=threshold, committee=4, quorum=3) | how
    return thresholded_masks(below or some_coordinates(), **sizes)


def drawn(rounds, seed=0, density=0.4):
    """Values, coordinates, who is selected, whose upload arrives and who answers, in so many rounds."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, Q, (rounds, N, D), dtype=np.uint32)
    chosen = rng.random((rounds, N, D)) < rng.random((rounds, 1, 1)) * 2 * density
    selected = rng.random((rounds, N)) < 0.95
    alive = selected & (rng.random((rounds, N)) < 0.85)
    return x, chosen, selected, alive, alive & (rng.random((rounds, N)) < 0.9)


@functools.cache
def played(threshold, quorum, count, seed):
    """So many random rounds, and what they give."""
    layer, draws = opening(threshold, quorum=quorum), drawn(count, seed)

    def one(key, x, chosen, selected, alive, online):
        who = cohort_of(N, round=3)._replace(selected=selected)
        result = layer_round(layer, key, (x, chosen), who, alive, online)
        return {name: result[name] for name in ("received", "header", "public", "bits", "sent")}

    found = jax.jit(jax.vmap(one))(jax.random.split(KEY, count), *draws)
    return draws, jax.tree.map(np.asarray, found)


def plain_sums(x, chosen, alive):
    sent = chosen & alive[..., None]
    return sent.sum(1), np.where(sent, x, 0).astype(np.uint64).sum(1) % Q


def test_thousands_of_random_rounds_are_the_plain_sum_where_enough_clients_sent_and_zero_elsewhere():
    """Random coordinates, cohorts, survivors and committees. Members that are gone are replaced while 3 of 4 answer."""
    (x, chosen, _, alive, online), found = played(2, 3, ROUNDS, 0)
    number, plain = plain_sums(x, chosen, alive)
    received, answered, opened = found["received"], found["header"].answered, number >= 2
    assert (answered == np.take_along_axis(online, found["public"].committee.member, 1)).all()
    enough = (answered.sum(1) >= 3) & opened.any(1)
    assert (received.count[:, 0] == np.where(enough, alive.sum(1), 0)).all()
    value = received.value[:, 0]
    assert (value[enough] == np.where(opened, plain, 0)[enough]).all()
    assert 750 < enough.sum() < 1750 and (enough & (answered.sum(1) < 4)).sum() > 250
    assert 0.2 < opened[enough].mean() < 0.8 and ((answered.sum(1) >= 3) & ~opened.any(1)).sum() > 10
    gone = ~answered & (answered.sum(1) >= 3)[:, None]
    given = found["header"].shares.any(-1)  # of each client, from each holder, for each member
    assert (given == (alive[:, :, None, None] & answered[:, None, :, None] & gone[:, None, None, :])).all()
    few = ~enough & opened.any(1)  # a control: fewer than the quorum give garbage
    assert (value[few] != plain[few])[opened[few]].mean() > 0.99


def test_bits_of_clients_and_of_members():
    """Bitmaps, shares and the list of survivors go to members that are there; they answer where sums are opened."""
    (x, chosen, selected, alive, online), found = played(2, 3, ROUNDS, 0)
    member = (found["public"].committee.member[:, :, None] == np.arange(N)).any(1) & selected
    opened, number = (plain_sums(x, chosen, alive)[0] >= 2).sum(1), lambda rows: rows.sum(1, keepdims=True)
    keys, unmask = found["bits"]["committee"], found["bits"]["unmask"]
    assert found["bits"].keys() == {"committee", "unmask"}
    others = np.where(member, number(selected) - 1, number(member))
    assert (keys.up == 64 * selected).all() and (keys.down == 64 * selected * others).all()
    assert (found["sent"].bits == 32 * chosen.sum(2) + D + 4 * 4 * 64).all()
    assert (unmask.down == (member & alive) * (8 + number(alive) * (D + 4 * 64))).all()
    answers = member & online
    gone = np.where(number(answers) >= 3, 4 - number(answers), 0)
    assert (unmask.up == answers * (32 * opened[:, None] + 64 * gone * number(alive))).all() and 0 < gone.mean() < 1


def test_a_threshold_of_one_opens_all_and_without_spares_each_member_must_answer():
    (x, chosen, _, alive, _), found = played(1, 4, 60, 1)
    number, plain = plain_sums(x, chosen, alive)
    enough = found["header"].answered.all(1) & (number > 0).any(1)
    assert (found["received"].count[:, 0] == np.where(enough, alive.sum(1), 0)).all() and 10 < enough.sum() < 50
    assert (found["received"].value[:, 0][enough] == plain[enough]).all()
    assert (found["sent"].bits == 32 * chosen.sum(2) + D).all()


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    draws, masked = played(2, 3, ROUNDS, 0)
    at = int(np.flatnonzero(masked["received"].count[:, 0])[0])
    masked = jax.tree.map(lambda a: jnp.asarray(a[at]), masked)
    x, chosen, selected, *there = (part[at] for part in draws)
    who = cohort_of(N, round=3)._replace(selected=jnp.asarray(selected))
    plain = run_layer(
        opening(elide=True), jax.random.split(KEY, ROUNDS)[at], (x, chosen), who, *map(jnp.asarray, there)
    )
    assert same_bits(masked["received"], plain["received"]) and same_bits(masked["bits"], plain["bits"])
    assert same_bits(masked["sent"], plain["sent"]) and ELIDED in opening(elide=True).caveats
    assert (np.asarray(plain["upload"]) == np.where(chosen, x, 0)).all() and ELIDED not in opening().caveats


sent_of = jax.jit(bound_masks.sent, static_argnums=1)
WIDE = 2048


def wide(below, **how):
    return thresholded_masks(below, num_values=WIDE, group_size=N, threshold=3, committee=3, quorum=2, **how)


@functools.cache
def wide_round():
    """Zeros at random coordinates, and the layer that sums them."""
    rng = np.random.default_rng(2)
    position = np.stack([rng.permutation(WIDE)[: WIDE // 2] for _ in range(N)])
    x = Sparse(jnp.zeros((N, WIDE // 2), jnp.uint32), jnp.asarray(position))
    layer = wide(plain_sparse_field(WIDE))
    return layer, run_layer(layer, KEY, x, cohort_of(N, round=3), survivors(N))


def test_before_they_are_opened_an_upload_and_every_sum_are_uniform():
    _, result = wide_round()
    sent = np.asarray(sent_of(result["sent"].clear, WIDE))
    for row, chosen in zip(np.asarray(result["upload"]), sent, strict=True):
        assert uniform(row[chosen]) and not row[~chosen].any()
    opened = sent.sum(0) >= 3
    received = np.asarray(result["received"].value[0])
    assert uniform(np.asarray(result["upload"]).astype(np.uint64).sum(0)[sent.any(0)] % Q)
    assert not received.any() and all(uniform(row[opened]) for row in np.asarray(result["header"].sums))
    assert not np.asarray(result["header"].sums)[:, ~opened].any() and 0.5 < opened.mean() < 0.8


def test_a_quorum_of_members_reads_every_value_and_one_fewer_none():
    """Uploads are zero. Colluding members hold shares of the seeds of all masks, and know the seeds of their own."""
    layer, result = wide_round()
    private, clear = result["private"], result["sent"].clear
    terms = thresholded_opening.terms_of(WIDE, None, N, 3, 3, 2)

    @jax.jit
    def left(holders):
        member = result["public"].key[result["public"].committee.member]
        seeds = bound_masks.seeds_of_clients(terms.extent, private.key, member, clear)
        shares = thresholded_opening._shares(terms, private.seed, seeds.reshape(N, -1))
        weights = lagrange.basis(jnp.asarray(shamir.points(3)), jnp.zeros(1, jnp.uint32), holders)[0]
        rebuilt = field.sum(field.mul(shares, weights[None, :, None, None]), 1)
        known = jnp.where(holders[None, :, None], seeds, rebuilt)
        masks = bound_masks.sum_of_masks(terms.extent, known, jnp.ones((N, 3), bool), clear, jnp.int32(3))
        return field.sub(result["upload"], masks)

    assert layer.sums.opened_by == 2 and not left(jnp.array([True, False, True])).any()
    sent = np.asarray(sent_of(clear, WIDE))
    alone = np.asarray(left(jnp.array([True, False, False])))
    assert all(uniform(row[chosen]) for row, chosen in zip(alone, sent, strict=True))


def test_what_is_opened_for_an_absent_member_says_nothing_of_its_own_upload():
    """All send all coordinates. An agreed key serves two clients that are both members, once in either direction."""
    x = Sparse(jnp.zeros((N, WIDE), jnp.uint32), jnp.broadcast_to(jnp.arange(WIDE), (N, WIDE)))
    layer = wide(plain_sparse_field(WIDE))
    run = jax.jit(lambda online: run_layer(layer, KEY, x, cohort_of(N, round=3), survivors(N), online))
    member = np.asarray(run(survivors(N))["public"].committee.member)
    result = run(survivors(N, [member[0]]))
    assert result["received"].count[0] == N and not np.asarray(result["received"].value).any()
    extent, everybody = bound_masks.Extent(WIDE, WIDE), jnp.ones((N, 1), bool)

    @jax.jit
    def opened_masks(header, clear):
        weights = lagrange.basis(jnp.asarray(shamir.points(3)), jnp.zeros(1, jnp.uint32), header.answered)[0]
        opened = field.sum(field.mul(header.shares[:, :, 0], weights[None, :, None]), 1)
        return bound_masks.sum_of_masks(extent, opened[:, None], everybody, clear, jnp.int32(3))

    masks = np.asarray(opened_masks(result["header"], result["sent"].clear)).astype(object)
    upload = np.asarray(result["upload"]).astype(object)
    assert uniform((upload[member[0]] - masks[member].sum(0)) % Q) and uniform((upload - masks).ravel() % Q)


def test_a_bitmap_forged_for_one_member_gives_a_uniform_sum():
    """A bit more of one client: the member's sum is of other masks, and what the server decodes is uniform."""
    layer, result = wide_round()
    clear = result["sent"].clear
    forged = np.array(clear)
    forged[1, 0] ^= 4

    @jax.jit
    def lied_to(clear, forged):
        disclose = lambda clear: layer.disclose(result["private"], result["public"], clear, survivors(N), survivors(N))[
            0
        ]
        both = jax.lax.map(disclose, jnp.stack([clear, forged]))
        honest, lied = (jax.tree.map(lambda a, i=i: a[i], both) for i in (0, 1))
        summed = layers.field_sum().lower(
            layers.field_sum().lift(result["upload"], survivors(N), jnp.zeros(N, jnp.int32))
        )
        header = honest._replace(sums=honest.sums.at[2].set(lied.sums[2]))
        return honest, lied, layer.decode(header, result["public"], summed)

    honest, lied, rows = lied_to(clear, forged)
    got = np.asarray(rows.value[0])
    touched = np.asarray(sent_of(clear, WIDE))[1] & (np.asarray(honest.contributors) >= 3)
    away = touched & (np.asarray(lied.contributors) == np.asarray(honest.contributors))
    assert uniform(got[away]) and not got[~touched & (np.asarray(lied.contributors) < 3)].any()
    low, high = np.asarray(jax.jit(jax.vmap(digest))(np.stack([clear[1], forged[1]])))
    assert (low != high).all()


USERS, LENGTH, BOUND = 12, 400, 1000
ALIVE = survivors(USERS, [1, 6])
ATTACKED = jax.random.key(5)  # elects nobody that is lost
PAIRS: dict[str, Any] = dict(alpha=0.6, group_size=USERS)
SMALL = np.random.default_rng(3).integers(-BOUND, BOUND, (USERS, LENGTH))


def attacked(layer, x=SMALL):
    return run_layer(layer, ATTACKED, jnp.asarray(x % Q, jnp.uint32), cohort_of(USERS, round=3), ALIVE)


def read_of(result, uploads, roster, header):
    """Sums of up to three that the server reads, as (coordinate, clients)."""
    view = View(jnp.where(ALIVE[:, None], uploads, 0), (), ALIVE, {"mask": roster}, {"mask": header}, ())
    reading = leakage.separate(view, leakage.sparse_protocol(**PAIRS), bound=BOUND)
    assert reading.false_hits < 0.1
    return [
        (int(at), sorted(who[who >= 0].tolist())) for at, who in zip(reading.coordinate, reading.clients, strict=True)
    ]


def opened_for(base):
    return thresholded_masks(base, num_values=LENGTH, group_size=USERS, threshold=3, committee=5, quorum=5)


def without_the_opened(result):
    """Uploads, from one of which at each coordinate the members' sums are taken: what the server knows."""
    sent = np.asarray(sent_of(result["header"].located, LENGTH))
    assert np.asarray(result["header"].answered).all()
    first, known = sent.argmax(0), np.asarray(result["header"].sums).astype(np.uint64).sum(0)
    uploads = np.asarray(result["upload"]).astype(np.uint64)
    uploads[first, np.arange(LENGTH)] += Q - known % Q
    return jnp.asarray(uploads % Q, jnp.uint32), sent


def test_the_attack_on_sparse_secagg_finds_the_total_and_nothing_finer():
    """The control, the same round without the committee's masks: what components are there is read."""
    result = attacked(opened_for(sparse_masks(**PAIRS)))
    told, private = (result["public"].below, result["header"].below), result["private"]

    @jax.jit
    def bare():
        member = result["public"].key[result["public"].committee.member]
        extent, everybody = bound_masks.Extent(LENGTH, LENGTH), jnp.ones((USERS, 5), bool)
        seeds = bound_masks.seeds_of_clients(extent, private.key, member, result["sent"].clear)
        mask = bound_masks.sum_of_masks(extent, seeds, everybody, result["sent"].clear, jnp.int32(3))
        return field.sub(result["upload"], mask)

    assert len(read_of(result, bare(), *told)) > 500
    assert read_of(result, result["upload"], *told) == []
    uploads, sent = without_the_opened(result)
    found, number = read_of(result, uploads, *told), sent.sum(0)
    assert {at for at, _ in found} == {*np.flatnonzero(number == 3).tolist()} and len(found) > 10
    assert all(who == np.flatnonzero(sent[:, at]).tolist() for at, who in found)


def test_masks_of_the_committee_alone_hide_as_much():
    result = attacked(opened_for(paired_coordinates(**PAIRS)))
    uploads, sent = without_the_opened(result)
    coordinate, client = np.nonzero(sent.T)
    for values, total in ((result["upload"], False), (uploads, True)):
        rows = np.asarray(values)[client, coordinate]
        for size in (1, 2, 3):
            hits = _tiny_sums(coordinate, rows, np.arange(len(rows)), size, size * BOUND, Q)[0]
            assert (
                {*coordinate[hits[:, :1]].ravel()} == {*np.flatnonzero(sent.sum(0) == 3)}
                if total and size == 3
                else not hits.size
            )


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: opening(0), "threshold must be an integer >= 1, got 0"),
    (lambda: opening(7), "threshold must be at most group_size = 6, got 7"),
    (lambda: opening(committee=7), "committee must be at most group_size = 6, got 7"),
    (lambda: opening(quorum=5), "quorum must be at most committee = 4, got 5"),
    (lambda: opening(quorum=0), "quorum must be an integer >= 1, got 0"),
    (lambda: opening(num_values=0), "num_values must be an integer >= 1, got 0"),
    (lambda: opening(most=10), "most must be at most num_values = 9, got 10"),
    (lambda: opening(group_size=1), "group_size must be an integer >= 2, got 1"),
    (
        lambda: run_layer(opening(group_size=5), KEY, drawn(1), cohort_of(N), survivors(N)),
        "group_size must be at least the size of the cohort, 6, got 5",
    ),
    (
        lambda: run_layer(opening(), KEY, drawn(1), cohort_of(3), survivors(3)),
        "committee must be at most the size of the cohort, 3, got 4",
    ),
    (
        lambda: run_layer(opening(num_values=8), KEY, [a[0] for a in drawn(1)], cohort_of(N), survivors(N)),
        "num_values must be the coordinates of an upload, 9, got 8",
    ),
    (
        lambda: run_layer(opening(below=layers.plain_field()), KEY, drawn(1)[0][0], cohort_of(N), survivors(N)),
        "below must be a layer that sends a bitmap of its coordinates, such as plain_sparse_field.d.",
    ),
    (
        lambda: systems.thresholded_secagg(of_the_round(0), num_clients=7, num_params=5, base="pairwise"),
        "base must be 'none' unless select='pairs', got 'pairwise' with select='rand_k'",
    ),
    (
        lambda: opened_top_k(5, 2, num_clients=7, threshold=2).advertise(
            KEY, opened_top_k(5, 2, num_clients=7, threshold=2).init(KEY, 6), cohort_of(6)
        ),
        "num_clients must be the size of every cohort, 6, got 7",
    ),
    (lambda: opened_top_k(5, 6, num_clients=7, threshold=2), "k must be at most num_params = 5, got 6"),
)


def test_bitmaps_of_a_round_that_are_more_than_is_counted():
    """A member is shown 3,000 bitmaps of 1,663,370 bits and a list: 4,990,113,000 bits, which would wrap."""
    n, d = 3000, 1_663_370
    how = dict(num_clients=n, num_params=d, alpha=0.01, threshold=2, committee=1, quorum=1, elide=True, mesh=None)
    system = systems.thresholded_secagg(towards_target(), **how)
    data = ClientData(jax.ShapeDtypeStruct((n, d), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32))
    state = jax.eval_shape(system.init, KEY, jax.ShapeDtypeStruct((d,), jnp.float32), data)
    with pytest.raises(ValueError, match=rf"must have fewer than 2\*\*32 bits \(512 MiB\), got {n * d + n}"):
        jax.eval_shape(system.step, KEY, state, data)


def test_a_client_that_sends_more_than_there_is_room_for_is_refused():
    x, chosen, *_ = drawn(1, seed=9)
    result = run_layer(opening(elide=True, most=2), KEY, (x[0], chosen[0]), cohort_of(N, round=3), survivors(N))
    many = chosen[0].sum(1) > 2
    assert (np.asarray(result["sent"].refused) == np.where(many, int(Status.CAP_OVERFLOW), 0)).all()
    assert 0 < many.sum() < N
