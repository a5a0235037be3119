"""SecAgg and SecAgg+: what is sent and what the server can see; each with a broken protocol that must be caught.

Layers are few and runs of one shape, as most of the time goes into compiling them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.prg import Prg, expand, philox
from fedjax_priv.layers import pairwise_masks, plain_field
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.status import Status
from helpers import Q, agreed_seeds, cohort_of, neighbours_of, refuses, run_layer, same_bits, survivors, uniform

N, D = 7, 4096
KEY = jax.random.key(3)
WHO = cohort_of(N, round=5)
REGULAR = {"group_size": N, "neighbours": 4, "threshold": 2}
COMPLETE = pairwise_masks(group_size=N)
GRAPHS = {"complete": 6, "k-regular": 4}
X = jnp.asarray(np.random.default_rng(0).integers(0, Q, (N, D), dtype=np.uint32))


def prg_of(volume):
    """A generator whose words are multiplied by the volume of their purpose."""
    return Prg(lambda seed, purpose, *rest: philox.words(seed, purpose, *rest) * volume[purpose])


@jax.jit
def k_regular(volume, *round):
    """A round of the layer, and of broken ones in one program with it: a purpose of volume 0 has masks of zeros."""
    return run_layer(pairwise_masks(prg=prg_of(volume), **REGULAR), *round)


def volume_of(private=1, pairwise=1):
    return {"private mask": np.uint32(private), "pairwise mask": np.uint32(pairwise)}


WHOLE = volume_of()


def run(layer, x=X, who=WHO, lost=(), gone=(), key=KEY, volume=WHOLE):
    """A round in which `lost` do not upload, and `gone` of the others leave before disclosure.

    `layer` is one or the name of a graph; `volume` is for the k-regular one.
    """
    alive = ~np.isin(np.arange(N), lost) & np.asarray(who.selected)
    round = key, x, who, alive, alive & ~np.isin(np.arange(N), gone)
    if layer != "k-regular":
        return run_layer(COMPLETE if layer == "complete" else layer, *round)
    return k_regular(volume, *round)


def total(x, alive=slice(None)):
    return np.asarray(x)[alive].astype(object).sum(0) % Q


@jax.jit
def masks(volume, private, public):
    """Private ones `[n, d]` and pairwise ones `[n, n, d]`, each expanded by itself."""
    word = lambda purpose: jax.vmap(lambda seed: expand(seed, purpose, 5, D, prg_of(volume)))
    pairwise = jax.vmap(word("pairwise mask"))(agreed_seeds(private.key[:, None], public[None]))
    return word("private mask")(private.seed), pairwise


@pytest.mark.parametrize(("graph", "volume"), [("complete", WHOLE), ("k-regular", volume_of(3, 5))])
def test_upload_is_the_formula_of_the_paper(graph, volume):
    """Eq. 9 over neighbours, term by term in Python integers; the signs cancel between the two users of a pair."""
    result, degree = run(graph, volume=volume), GRAPHS[graph]
    private, roster = result["private"], result["public"]
    own, pairwise = (np.asarray(a).astype(object) for a in masks(volume, private, roster.key))
    near = neighbours_of(roster.circle, degree)
    assert (near.sum(0) == degree).all()
    for i in range(N):
        upload = np.asarray(X[i]).astype(object) + own[i]
        for j in np.flatnonzero(near[i]):
            upload += pairwise[i, j] if j > i else -pairwise[i, j]
        assert (np.asarray(result["upload"][i]) == upload % Q).all()


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_sum_of_any_survivors_that_suffice(graph):
    """4 of 7 on the complete graph; two of each one's holders on the k-regular one."""
    rng, counts = np.random.default_rng(1), []
    for t in range(60):
        alive = rng.permutation(N) < rng.integers(4, N + 1)
        online = alive & (rng.random(N) < 0.9)
        received = run(
            graph, lost=np.flatnonzero(~alive), gone=np.flatnonzero(~online), key=jax.random.fold_in(KEY, t)
        )["received"]
        assert (np.asarray(received.value[0]) == total(X, alive)).all() == (received.count[0] > 0)
        assert received.count[0] in (0, alive.sum())
        if graph == "complete":
            assert (received.count[0] > 0) == (online.sum() >= 4)
        counts.append(int(received.count[0]))
    assert np.count_nonzero(counts) >= 40


@pytest.mark.parametrize("graph", GRAPHS)
def test_before_shares_are_opened_an_upload_is_uniform_whatever_the_update(graph):
    for value in (0, 123_456_789):
        x = jnp.full((N, D), value, jnp.uint32)
        masked = run(graph, x)["upload"]
        assert all(uniform(row) for row in masked)
        assert uniform(total(masked)), "the sum hides behind the private masks"
        assert not uniform(plain_field().encode(KEY, (), (), x, WHO)[0][0])


def test_without_private_masks_the_sum_does_not_hide():
    masked = run("k-regular", jnp.full((N, D), 123_456_789, jnp.uint32), volume=volume_of(private=0))["upload"]
    assert not uniform(total(masked))


@pytest.mark.parametrize(
    ("graph", "volume"),
    [("complete", WHOLE), ("k-regular", WHOLE), ("k-regular", volume_of(pairwise=0))],
    ids=["complete", "k-regular", "without pairwise masks"],
)
def test_after_shares_are_opened_the_server_learns_the_sum_and_no_more(graph, volume):
    """It takes the opened private masks off each upload: only sums over all survivors stop being uniform."""
    x, alive = jnp.full((N, D), 77, jnp.uint32), np.asarray(survivors(N, [2]))
    result = run(graph, x, lost=[2], volume=volume)
    assert (result["received"].value == 77 * (N - 1)).all()
    private, _ = masks(WHOLE, result["private"], result["public"].key)
    residual = (np.asarray(result["upload"]).astype(object) - np.asarray(private))[alive] % Q
    parts = [residual[0], residual[3], residual[:2].sum(0) % Q, residual[1:].sum(0) % Q]
    assert [uniform(part) for part in parts] == [volume["pairwise mask"] > 0] * len(parts)


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_user_that_is_not_selected_is_no_part_of_the_sum(graph):
    who = WHO._replace(selected=survivors(N, [2]))
    received = run(graph, who=who)["received"]
    assert (np.asarray(received.value[0]) == total(X, np.asarray(who.selected))).all()
    assert received.count.tolist() == [N - 1]


GROUPS = pairwise_masks(2, group_size=4, neighbours=2, threshold=2)


def test_groups_are_recovered_on_their_own():
    """The one of three is a complete graph by itself; with a survivor alone it is lost, and the other is not."""
    who = cohort_of(N, group=[0, 1, 0, 1, 0, 1, 1])
    mine = np.asarray(who.group) == 1
    for lost, counts in (([], [3, 4]), ([0], [2, 4]), ([0, 2], [0, 4])):
        received = run(GROUPS, who=who, lost=lost)["received"]
        assert received.count.tolist() == counts
        assert (np.asarray(received.value[1]) == total(X, mine)).all()
        alive = ~mine & np.asarray(survivors(N, lost))
        assert (np.asarray(received.value[0]) == total(X, alive)).all() == (counts[0] > 0)


def test_a_group_larger_than_it_was_made_for_sets_its_bit():
    sent = run(GROUPS, who=cohort_of(N, group=[0, 0, 0, 0, 1, 0, 1]))["sent"]
    assert sent.refused.tolist() == [Status.CAP_OVERFLOW] * 4 + [0, Status.CAP_OVERFLOW, 0]


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    layer = pairwise_masks(elide=True, **REGULAR)
    masked, elided = (run(one, lost=[1], gone=[2]) for one in ("k-regular", layer))
    assert masked["received"].count.tolist() == [N - 1]
    assert same_bits(*((one["received"], one["bits"], one["sent"], one["header"]) for one in (masked, elided)))
    assert same_bits(elided["upload"], X), "uploads are in the clear"
    assert not (masked["upload"] == X).any()
    assert layer.caveats == (ELIDED,)
    assert not COMPLETE.caveats


test_bad_arguments = refuses(
    lambda arguments: pairwise_masks(**arguments),
    ({"group_size": 1}, "group_size must be an integer >= 2"),
    ({"group_size": 4, "threshold": 5}, "threshold must be at most group_size = 4"),
    (
        {"group_size": 4, "neighbours": 3},
        "neighbours must be 'all' or an even integer >= 2 and below group_size = 4, got 3",
    ),
    ({"num_groups": 0, "group_size": 4}, "num_groups must be an integer >= 1"),
)
