"""SparseSecAgg: exact sums of what is selected, what is sent and what the server can see.

Layers are few and runs of one shape, as most of the time goes into compiling them.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.prg import Prg, expand, philox
from fedjax_priv.layers import sparse_masks
from fedjax_priv.layers.secure_sum import bitmap, expansion
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.status import Status
from helpers import (
    Q,
    agreed_seeds,
    chi_square,
    cohort_of,
    neighbours_of,
    refuses,
    run_layer,
    same_bits,
    survivors,
    uniform,
)

KEY = jax.random.key(4)
unpacked = jax.jit(jax.vmap(bitmap.unpack, (0, None)), static_argnums=1)


def selected(result, d):
    """`[n, d]`, from the location sets that were sent."""
    return np.asarray(unpacked(result["sent"].clear, d))


USERS, GROUPS, OUTSIDE, LENGTH = 33, 3, 2, 600
GROUPED = sparse_masks(GROUPS, alpha=0.9, group_size=11, neighbours=4, threshold=2)


def grouped(rank, t):
    """A cohort of three groups, without the users that are not selected."""
    who = cohort_of(USERS, group=rank % GROUPS, round=t)
    return who._replace(selected=jnp.asarray(rank < USERS - OUTSIDE))


def test_the_sum_of_survivors_of_a_group_is_that_of_what_they_select():
    """60 random rounds, all bits, among neighbours; of complete graphs, benchmarks/random_rounds.py."""
    rng, recovered = np.random.default_rng(LENGTH), []
    x = rng.integers(0, Q, (USERS, LENGTH), dtype=np.uint32)
    for t in range(60):
        who = grouped(np.random.default_rng(t).permutation(USERS), t)
        group, alive = np.asarray(who.group), np.asarray(who.selected).copy()
        for g in range(GROUPS):
            members = rng.permutation(np.flatnonzero(alive & (group == g)))
            alive[members[: rng.integers(0, 1 + (len(members) - 2) // 3)]] = False
        result = run_layer(GROUPED, jax.random.fold_in(KEY, t), jnp.asarray(x), who, jnp.asarray(alive))
        kept = np.where(selected(result, LENGTH) & alive[:, None], x, 0).astype(np.uint64)
        for g, count in enumerate(np.asarray(result["received"].count)):
            mine = group == g
            assert count in ((alive & mine).sum(), 0)
            assert count == 0 or (np.asarray(result["received"].value[g]) == kept[mine].sum(0) % Q).all()
            recovered.append(bool(count))
        assert not np.asarray(result["sent"].status).any()
    assert np.mean(recovered) > 0.7


N, D, ALPHA = 7, 4096, 0.5
WHO = cohort_of(N, round=5)
X = jnp.asarray(np.random.default_rng(0).integers(0, Q, (N, D), dtype=np.uint32))
REGULAR = {"alpha": ALPHA, "group_size": N, "neighbours": 4, "threshold": 2}
LAYERS = {
    "dense": sparse_masks(expand="dense", alpha=ALPHA, group_size=N),
    "skip, k-regular": None,  # see `k_regular`
}
EXPANSIONS = {"dense": expansion.dense(ALPHA / 6, philox), "skip, k-regular": expansion.skip(ALPHA / 4, 14, philox)}


@jax.jit
def k_regular(volume, *round):
    """A round of the layer, and of broken ones in one program with it: a purpose of volume 0 has masks of zeros."""
    words = lambda seed, purpose, *rest: philox.words(seed, purpose, *rest) * volume.get(purpose, np.uint32(1))
    return run_layer(sparse_masks(prg=Prg(words), **REGULAR), *round)


def run(layer, x=X, who=WHO, lost=(), gone=(), key=KEY, silent=None):
    """A round of one of `LAYERS`, or of another layer; only the k-regular one may be `silent` for a purpose."""
    alive = survivors(N, lost) & who.selected
    round = key, x, who, alive, alive & survivors(N, gone)
    if layer != "skip, k-regular":
        return run_layer(LAYERS[layer] if isinstance(layer, str) else layer, *round)
    return k_regular({name: np.uint32(name != silent) for name in ("private mask", "pairwise mask")}, *round)


@functools.partial(jax.jit, static_argnames=("how", "d"))
def _pairs(how, secrets, keys, d):
    seeds = agreed_seeds(secrets[:, None], keys[None]).reshape(-1, 1, 2)
    yes = jnp.ones(seeds.shape[:2], bool)
    pairs = how.pairs(seeds, yes, yes, 5, d)
    return pairs.chosen, pairs.mask


def single_pairs(how, private, roster, d=D):
    """b_ij and r_ij of every two users `[n, n, d]`, each pair expanded by itself."""
    b, r = _pairs(how, private.key, roster.key, d)
    return np.asarray(b).reshape(N, N, d), np.asarray(r).reshape(N, N, d).astype(object)


@jax.jit
def _private_masks(seeds):
    return jax.vmap(lambda seed: expand(seed, "private mask", 5, D))(seeds)


def private_masks(private):
    """`[n, d]`, Python integers."""
    return np.asarray(_private_masks(private.seed)).astype(object)


@pytest.mark.parametrize("name", LAYERS)
def test_upload_is_the_formula_of_the_paper(name):
    """Eqs. 18 and 19 from single pairs, term by term in Python integers; location sets and bits are those of U_i."""
    result = run(name)
    private, roster = result["private"], result["public"]
    b, r = single_pairs(EXPANSIONS[name], private, roster)
    near, own = neighbours_of(roster.circle, 6 if name == "dense" else 4), private_masks(private)
    assert (b == b.transpose(1, 0, 2)).all() and (r == r.transpose(1, 0, 2)).all()
    for i in range(N):
        peers = np.flatnonzero(near[i])
        union = b[i, peers].any(0)
        upload = np.where(union, np.asarray(X[i]).astype(object) + own[i], 0)
        for j in peers:
            upload += b[i, j] * r[i, j] * (1 if j > i else -1)
        assert (np.asarray(result["upload"][i]) == upload % Q).all()
        assert (selected(result, D)[i] == union).all()
        assert int(result["sent"].bits[i]) == 32 * union.sum() + D
        assert sum(int(word).bit_count() for word in result["sent"].clear[i]) == union.sum()


@pytest.mark.parametrize("name", LAYERS)
def test_before_shares_are_opened_what_is_sent_is_uniform_whatever_the_update(name):
    """Each user's selected values and the sum of all; who selects what does not depend on the update."""
    seen = []
    for value in (0, 123_456_789):
        result = run(name, jnp.full((N, D), value, jnp.uint32))
        upload, chosen = np.asarray(result["upload"]), selected(result, D)
        seen.append(result["sent"])
        assert all(uniform(row[mine]) for row, mine in zip(upload, chosen, strict=True))
        assert not upload[~chosen].any()
        assert uniform((upload.astype(object).sum(0) % Q)[chosen.any(0)])
    assert same_bits(*seen)


@pytest.mark.parametrize("purpose", ["private mask", "pairwise mask"])
def test_without_one_kind_of_mask_it_is_not(purpose):
    """Without private masks the sum is that of the updates; without pairwise ones so is each upload, once opened."""
    x = jnp.full((N, D), 77, jnp.uint32)
    broken, whole = (run("skip, k-regular", x, silent=silent) for silent in (purpose, None))
    private = private_masks(whole["private"])

    def residual(result, own):
        upload, chosen = np.asarray(result["upload"]).astype(object), selected(result, D)
        return (upload - np.where(chosen, own, 0)) % Q, chosen

    if purpose == "private mask":
        for result, hidden in ((broken, False), (whole, True)):
            left, chosen = residual(result, 0)
            assert uniform((left.sum(0) % Q)[chosen.any(0)]) == hidden
    else:
        for result, hidden in ((broken, False), (whole, True)):
            left, chosen = residual(result, private)
            assert all(uniform(row[mine]) == hidden for row, mine in zip(left, chosen, strict=True))


def test_after_shares_are_opened_the_split_inside_a_component_is_hidden_and_that_alone():
    """Of survivors joined by b_ij = 1 at a coordinate the server learns the sum; each of them alone is uniform."""
    lost, x = [2], np.asarray(X)
    result = run("dense", lost=lost)
    private, roster = result["private"], result["public"]
    b, r = single_pairs(EXPANSIONS["dense"], private, roster)
    left = np.asarray(result["upload"]).astype(object)
    left -= np.where(selected(result, D), private_masks(private), 0)
    left -= sum((np.where(np.arange(N)[:, None] < j, 1, -1) * b[:, j] * r[:, j] for j in lost), 0)
    left, alive = left % Q, np.asarray(survivors(N, lost))
    joined = b & alive[:, None, None] & alive[None, :, None]
    reach = joined.transpose(2, 0, 1) | np.eye(N, dtype=bool)
    for _ in range(3):
        reach = (reach.astype(np.uint8) @ reach.astype(np.uint8)) > 0
    component = reach.argmax(2).T  # its first user
    sent = selected(result, D) & alive[:, None]
    sizes = np.where(sent, reach.sum(2).T, 0)
    assert (np.bincount(sizes.ravel(), minlength=4)[1:4] > 100).all(), "some alone, some in pairs, some in threes"
    at = np.arange(D)
    for first in range(N):
        mine = sent & (component == first)
        total, truth = (np.where(mine, values, 0).sum(0) % Q for values in (left, x.astype(object)))
        assert (total == truth)[mine.any(0)].all()
    for i in np.flatnonzero(alive):
        together = sent[i] & (sizes[i] > 1)
        assert uniform(((left[i] - x[i]) % Q)[together])
        assert ((left[i] - x[i]) % Q == 0)[sent[i] & (sizes[i] == 1)].all(), "alone, it is read"
    assert at.size == D


def test_a_share_p_of_coordinates_is_selected():
    """p = 1 - (1 - a)**peers (eq. 14), below alpha: within 5 standard errors over users that overlap in pairs."""
    rounds = 40
    for name, peers in (("dense", 6), ("skip, k-regular", 4)):
        share = np.concatenate([selected(run(name, key=jax.random.fold_in(KEY, t)), D).mean(1) for t in range(rounds)])
        p = 1 - (1 - ALPHA / peers) ** peers
        by_round = share.reshape(rounds, N).mean(1)
        error = by_round.std(ddof=1) / np.sqrt(rounds)
        assert error < 1e-3
        assert abs(by_round.mean() - p) < 5 * error
        assert abs(by_round.mean() - ALPHA) > 50 * error


def test_how_many_select_a_coordinate_does_not_depend_on_where_it_is():
    together = sum(selected(run("skip, k-regular", key=jax.random.fold_in(KEY, t)), D).sum(0) for t in range(20))
    in_runs = together.reshape(16, -1).sum(1)  # coordinates of a run share no draw; selections of one come in pairs
    assert chi_square(in_runs / 2, in_runs.mean() / 2)[1] > 1e-3


def test_opened_secrets_are_all_the_server_needs():
    """It computes the same of them a second time, and something else of other shares."""
    layer, result = sparse_masks(**REGULAR), run("skip, k-regular", lost=[1], gone=[2])
    header, roster, alive = result["header"], result["public"], survivors(N, [1])

    @jax.jit
    def decoded(header):
        lifted = layer.combine.lift(result["upload"], alive, WHO.group)
        return layer.decode(header, roster, layer.combine.lower(lifted))

    assert same_bits(decoded(header), result["received"])
    wrong = header._replace(shares=header.shares ^ np.uint32(1))
    assert not same_bits(decoded(wrong), result["received"])
    assert not header.located[1].any(), "of the location set of a lost user it knows nothing"
    assert same_bits(header.located[2], result["sent"].clear[2])


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    layer = sparse_masks(elide=True, **REGULAR)
    masked, elided = (run(one, lost=[1], gone=[2]) for one in ("skip, k-regular", layer))
    assert masked["received"].count.tolist() == [N - 1]
    assert same_bits(*((one["received"], one["bits"], one["sent"], one["header"]) for one in (masked, elided)))
    assert (np.asarray(elided["upload"]) == np.where(selected(elided, D), X, 0)).all(), "uploads are in the clear"
    assert layer.caveats == (ELIDED,)
    assert not LAYERS["dense"].caveats


def test_an_overflow_sets_its_bit_at_both_ends_and_masks_cancel(monkeypatch):
    most = expansion.AT_ONCE - 1
    monkeypatch.setattr(expansion, "most_ones", lambda *_: most)
    layer = sparse_masks(alpha=0.25, group_size=N)
    d = 256  # 11 ones of a pair on average
    result = run(layer, X[:, :d], lost=[3])
    monkeypatch.undo()
    b, _ = single_pairs(expansion.skip(0.25 / 6, 21, philox), result["private"], result["public"], d)
    full = (b.sum(2) > most) & ~np.eye(N, dtype=bool)
    assert (full == full.T).all() and 0 < full.any(1).sum() < N
    assert result["sent"].refused.tolist() == np.where(full.any(1), int(Status.CAP_OVERFLOW), 0).tolist()
    kept = np.where(selected(result, d) & np.asarray(survivors(N, [3]))[:, None], X[:, :d], 0).astype(object)
    assert (np.asarray(result["received"].value[0]) == kept.sum(0) % Q).all()


test_bad_arguments = refuses(
    lambda arguments: sparse_masks(**{"alpha": 0.5, "group_size": 6, **arguments}),
    ({"alpha": 0.0}, r"alpha must be a number in \(0, 1\], got 0.0"),
    ({"alpha": 1.1}, r"alpha must be a number in \(0, 1\], got 1.1"),
    ({"num_groups": 0}, "num_groups must be an integer >= 1, got 0"),
    ({"group_size": 1}, "group_size must be an integer >= 2, got 1"),
    ({"neighbours": 5}, "neighbours must be 'all' or an even integer >= 2 and below group_size = 6, got 5"),
    ({"threshold": 7}, "threshold must be at most group_size = 6, got 7"),
)


def test_a_traced_alpha_out_of_range_fails_the_round():
    def result(alpha):
        layer = sparse_masks(alpha=alpha, group_size=4, expand="dense")
        found = run_layer(layer, KEY, jnp.ones((4, 50), jnp.uint32), cohort_of(4), jnp.ones(4, bool))
        return found["sent"].refused

    refused = jax.jit(lambda alphas: jax.lax.map(result, alphas))(jnp.array([2.0, 0.0, -1.0, jnp.nan, 1.0, 0.3]))
    assert refused.tolist() == [[int(Status.CAP_OVERFLOW)] * 4] * 4 + [[0] * 4] * 2


def test_a_traced_alpha_needs_the_dense_expansion():
    with pytest.raises(
        ValueError, match="alpha must be a number known before the program is compiled, or expand='dense'"
    ):
        jax.jit(lambda alpha: sparse_masks(alpha=alpha, group_size=4).combine.num_groups)(0.5)
