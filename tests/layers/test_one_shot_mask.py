"""One-shot aggregation: its sums, what the committee opens, and the control that linear algebra breaks."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv import systems
from fedjax_priv.crypto import field, lattice, shamir
from fedjax_priv.layers import one_shot_masks
from fedjax_priv.layers.one_shot_mask import HINT, NO_ERRORS, secrets_of, share_seed, sum_of_secrets, terms_of
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from helpers import Q, cohort_of, of_the_round, refuses, run_layer, same_bits, survivors, uniform

KEY = jax.random.key(4)
N, D, LENGTH, SPACING = 7, 2048, 8, 295
SIZES: dict[str, Any] = {"group_size": N, "spacing": SPACING, "committee": 5, "threshold": 3, "length": LENGTH}
TERMS = terms_of(**SIZES, fewest=None, coins=21)
LAYER = one_shot_masks(**SIZES)
MOST = (Q // 2 - 147) // LAYER.sums.spacing // N
SIGNED = np.random.default_rng(1).integers(-MOST, MOST + 1, (N, D))
X = (SIGNED % Q).astype(np.uint32)
WHO = cohort_of(N, round=3)


def played(layer=LAYER, x=X, lost=(), gone=(), who=WHO):
    """A round; all of one layer are one program."""
    return run_layer(layer, KEY, x, who, survivors(N, lost), survivors(N, [*lost, *gone]))


@functools.cache
def everybody():
    return played()


def test_the_committee_opens_the_sum_of_the_secrets_and_the_rest_is_the_sum_of_the_errors():
    """What the server learns in addition."""
    result, alive = everybody(), [*range(N)]

    @jax.jit
    def parts(seed, header, upload):
        secrets, opened = secrets_of(TERMS, seed, jnp.int32(3)), sum_of_secrets(TERMS, header)
        left = field.sub(field.sum(upload)[None], lattice.noiseless(opened, jnp.int32(3), D))
        return secrets, opened, left, lattice.errors(seed, jnp.int32(3), D, 21)

    secrets, opened, left, errors = map(np.asarray, parts(result["private"], result["header"], result["upload"]))
    assert (opened[0] == secrets.astype(object).sum(0) % Q).all()
    drawn = np.append(secrets, jax.vmap(share_seed, (0, None))(result["private"], jnp.int32(3)))
    assert len(np.unique(drawn)) == N * (LENGTH + 2) and 0.2 < (secrets > Q // 2).mean() < 0.8
    signed = (left[0].astype(np.int64) + Q // 2) % Q - Q // 2
    assert (signed - SPACING * SIGNED[alive].sum(0) == errors.sum(0)).all() and len(np.unique(errors)) > 20


def test_one_member_fewer_than_the_threshold_opens_nothing():
    """Two sums of shares give anything: what is left of the sum of uploads is uniform, though updates are zero."""
    result = played(x=np.zeros_like(X))
    left = jax.jit(lambda layer_header, upload: field.sub(
        field.sum(upload)[None], lattice.noiseless(sum_of_secrets(TERMS, layer_header), jnp.int32(3), D)
    ))  # fmt: skip
    opened = result["header"]
    first = np.arange(5) < 2
    few = opened._replace(sums=opened.sums * first[:, None].astype(np.uint32), sent=np.asarray(opened.sent) & first)
    assert all(uniform(row) for row in np.asarray(result["upload"]))
    assert uniform(left(few, result["upload"])[0]) and not uniform(left(opened, result["upload"])[0])
    assert jax.jit(LAYER.decode)(few, result["public"], result["received"]).count.tolist() == [0]
    sent = np.asarray(result["public"].member)
    assert len({*sent.tolist()}) == len(sent) == 5


def test_as_many_members_as_the_threshold_read_an_update_from_its_shares_and_one_fewer_does_not():
    """With as many sums of shares as the threshold the server opens one secret as it opens their sum."""
    result, round = everybody(), jnp.int32(3)

    @jax.jit
    def left(held):
        seed = result["private"][:1]
        coefficients, secret = jax.vmap(lambda seed: share_seed(seed, round))(seed), secrets_of(TERMS, seed, round)
        shares = shamir.share(coefficients, secret, threshold=3, num_shares=5)[0]
        opened = sum_of_secrets(TERMS, result["header"]._replace(sums=jnp.where(held[:, None], shares, 0), sent=held))
        masked = field.sub(result["upload"][:1], lattice.noiseless(opened, round, D))
        return lattice.nearest(masked, SPACING)[0], masked[0]

    members = jnp.arange(5)
    assert LAYER.sums.opened_by == 3 and (left(members < 3)[0] == SIGNED[0]).all()
    assert uniform(left(members < 2)[1]) and not uniform(left(members < 3)[1])


def solved(rows, values):
    """The s with `rows s = values` over F_q, in Python integers."""
    rows = [[int(a) for a in row] + [int(value)] for row, value in zip(rows, values, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = next(i for i in range(column, size) if rows[i][column] % Q)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = pow(rows[column][column], -1, Q)
        rows[column] = [a * scale % Q for a in rows[column]]
        for i in range(size):
            if i != column and (factor := rows[i][column]):
                rows[i] = [(a - factor * b) % Q for a, b in zip(rows[i], rows[column], strict=True)]
    return np.array([row[-1] for row in rows], object)


def read_by_linear_algebra(upload):
    """An update `[D]` from one upload and its first `LENGTH` numbers, which the attacker knows."""
    a = np.concatenate(
        [np.asarray(jax.jit(lattice.public_matrix, static_argnums=2)(3, part, LENGTH)) for part in (0, 1)], 1
    )
    a, upload = a.T.astype(object), np.asarray(upload).astype(object)
    secret = solved(a[:LENGTH], (upload - SPACING * X.astype(object)[0])[:LENGTH] % Q)
    return (upload - a @ secret) * pow(SPACING, -1, Q) % Q


def test_without_errors_linear_algebra_reads_an_update():
    """The control `coins=0`; with errors the same attack finds uniform numbers."""
    weak = played(one_shot_masks(**SIZES, coins=0))
    assert (read_by_linear_algebra(weak["upload"][0]) == X[0]).all()
    found = read_by_linear_algebra(everybody()["upload"][0])
    assert uniform(found[LENGTH:]) and (found[LENGTH:] != X[0, LENGTH:]).mean() > 0.99
    assert (np.asarray(weak["received"].value[0]) == X.astype(object).sum(0) % Q).all()


def test_bits_of_one_message_and_of_the_committee():
    who = WHO._replace(selected=survivors(N, [2]))
    alive = survivors(N, [2, 5])
    online = survivors(N, [2, 5, 0])
    result = played(lost=[2, 5], gone=[0], who=who)
    member, share = np.asarray(result["public"].member), 32 * LENGTH
    assert 2 not in member and result["bits"].keys() == {"unmask"}
    assert result["sent"].bits == 32 * D + 5 * share + 64  # a commitment
    up, down = (np.asarray(a) for a in result["bits"]["unmask"])
    on_it = np.isin(np.arange(N), member)
    assert (up == np.where(on_it & np.asarray(online), share, 0)).all()
    assert (down == np.where(on_it & np.asarray(alive), 5 * share, 0)).all()
    assert (np.asarray(result["received"].value[0]) == X[np.asarray(alive)].astype(object).sum(0) % Q).all()


def test_too_few_uploads_or_members_open_nothing():
    """The header shows no sum of a member that does not answer, nor any where fewer than 4 uploads arrived."""
    member = np.asarray(everybody()["public"].member).tolist()
    outside = [client for client in range(N) if client not in member]
    for lost, gone, count in (([], member[:2], N), ([], member[:3], 0), (outside[:2], [], 5), (range(4), [], 0)):
        result = played(lost=[*lost], gone=gone)
        sent = np.asarray(result["header"].sent)
        assert result["received"].count.tolist() == [count]
        assert not np.asarray(result["header"].sums)[~sent].any()
        if count:
            alive = np.setdiff1d(np.arange(N), lost)
            assert (np.asarray(result["received"].value[0]) == X[alive].astype(object).sum(0) % Q).all()
        assert (sent == ~np.isin(member, gone)).all() if len(lost) < 4 else not sent.any()


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    bare = one_shot_masks(**SIZES, elide=True)
    plain, masked = played(bare), everybody()
    assert same_bits(masked["received"], plain["received"]) and same_bits(masked["bits"], plain["bits"])
    assert (np.asarray(plain["upload"]) == X).all() and bare.caveats == (ELIDED,)
    assert HINT in LAYER.caveats and "8 numbers" in LAYER.caveats[1]
    assert one_shot_masks(**SIZES, coins=0).caveats == (HINT, NO_ERRORS)


def made(**change):
    return one_shot_masks(**SIZES | change)


def of_long_secrets():
    """A member is sent a share of 2**14 numbers by each of 8,192 clients, and their factors."""
    layer = made(group_size=8192, length=2**14)
    return run_layer(layer, KEY, jnp.zeros((8192, 2), jnp.uint32), cohort_of(8192), survivors(8192))


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: made(length=16_385), "length must be at most the terms of an exact product = 16384, got 16385"),
    (
        lambda: made(group_size=20_000, committee=17_000, fewest=2, spacing=295),
        "committee must be at most the terms of an exact product = 16384, got 17000",
    ),
    (lambda: made(group_size=1), "group_size must be an integer >= 2, got 1"),
    (lambda: made(spacing=294), "spacing must be odd, so that no sum is halfway between two multiples, got 294"),
    (lambda: made(spacing=2**30 + 1), "spacing must be at most q / 4 / group_size = 153391688, got 1073741825"),
    (lambda: made(committee=8), "committee must be at most group_size = 7, got 8"),
    (lambda: made(committee=1), "committee must be an integer >= 2, got 1"),
    (lambda: made(threshold=6), "threshold must be at most committee = 5, got 6"),
    (lambda: made(threshold=1), "threshold must be an integer >= 2, got 1"),
    (lambda: made(fewest=8), "fewest must be at most group_size = 7, got 8"),
    (lambda: made(fewest=1), "fewest must be an integer >= 2, got 1"),
    (lambda: made(length=0), "length must be an integer >= 1, got 0"),
    (lambda: made(coins=33), "coins must be at most the bits of a word = 32, got 33"),
    (lambda: made(coins=-1), "coins must be an integer >= 0, got -1"),
    (
        lambda: run_layer(made(group_size=6), KEY, X, WHO, survivors(N)),
        "group_size must be at least the size of the cohort, 7, got 6",
    ),
    (
        lambda: run_layer(LAYER, KEY, X[:4], cohort_of(4), survivors(4)),
        "committee must be at most the size of the cohort, 4, got 5",
    ),
    (
        lambda: systems.one_shot_secagg(of_the_round(X), num_clients=7, num_params=5, failure=1.0),
        r"failure must be a number in \[0, 1\), got 1.0",
    ),
    (
        lambda: systems.one_shot_secagg(of_the_round(X), num_clients=6000, num_params=3, failure=0.0),
        "^num_clients = 6000, coins = 21 and failure = 0 must leave room for sums in the field: sums may be at most "
        "q / 4 / clients = 178956 apart, errors of masks need 252001; fewer clients or coins, or a larger failure",
    ),
    (
        lambda: systems.secure_fedbuff(
            of_the_round(X),
            num_clients=100,
            num_params=3,
            buffer_size=50,
            masks="one_shot",
            weight_levels=2**20,
            failure=0.0,
        ),
        "^buffer_size = 50, weight_levels = 1048576, coins = 21 and failure = 0 must leave room for sums in the field",
    ),
    (
        lambda: jax.eval_shape(of_long_secrets),
        r"a message must have fewer than 2\*\*32 bits \(512 MiB\), got 4295229440",
    ),
)
