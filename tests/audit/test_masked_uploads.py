"""Masked uploads are as good as random words where masks are sound, and not where they are broken."""

import itertools

import broken
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testing.system_cases import SYSTEMS

from fedjax_priv.aggregators import mean
from fedjax_priv.audit import masked_uploads
from fedjax_priv.audit.masked_uploads import Pads, judged, pads
from fedjax_priv.audit.readings import looked_at
from fedjax_priv.crypto import prg
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.keys import named
from fedjax_priv.layers import group_sums, mask
from fedjax_priv.layers.mask import secagg_protocol
from fedjax_priv.layers.secure_sum import sharing, signed_sum
from fedjax_priv.systems import compose, secagg, share
from helpers import towards_target

CLIENTS, PARAMS, TRIALS = 3, 8, 770
CONFIDENCE = 0.999
"""A sound system is contradicted with a probability of at most 1 - CONFIDENCE."""
MASKS = [
    "sound", "all masks zero", "pairwise masks zero", "the last word is not masked", "one word for all coordinates",
    "masks of 24 bits", "masks without their middle bytes", "the second half is the first",
    "the same masks every round", "the same masks in every run", "the middle upload is in the clear",
]  # fmt: skip
KEY = jax.random.key(3)


def expand(seed, name, round, d, how, part=0):
    round = broken.where("the same masks every round", 0, round)
    words = prg.expand(seed, name, round, d, how, part)
    zero = jnp.zeros_like(words)
    words = broken.where("all masks zero", zero, words)
    words = broken.where("pairwise masks zero", zero if name == "pairwise mask" else words, words)
    words = broken.where("the last word is not masked", words.at[-1].set(0), words)
    words = broken.where("one word for all coordinates", jnp.broadcast_to(words[:1], words.shape), words)
    twice = jnp.concatenate([words[: d // 2], jnp.roll(words[: d - d // 2], 1)])
    words = broken.where("the second half is the first", twice, words)
    words = broken.where("masks without their middle bytes", words & jnp.uint32(0xFF0000FF), words)
    return broken.where("masks of 24 bits", words & 0xFFFFFF, words)


def open_round(quorum, key, *rest, real=sharing.open_round):
    key = jax.lax.select(broken.on("the same masks every round"), broken.frozen_key(), key)
    key = jax.lax.select(broken.on("the same masks in every run"), jax.random.fold_in(KEY, broken.NOW["round"]), key)
    return real(quorum, key, *rest)


def number_of(key):
    return jax.random.randint(jax.random.fold_in(key, 7), (), 0, len(MASKS))


def system(local, observe, *, elide=False):
    return secagg(local, num_clients=CLIENTS, elide=elide, observe=observe, mesh=None, block=CLIENTS)


def leaky(local, observe):
    """The upload of the client in the middle may travel in the clear, though the sum is right."""
    masked, plain = system(local, observe), system(local, observe, elide=True)

    def step(key, state, data):
        (after, info), (_, clear) = (one.step(key, state, data) for one in (masked, plain))
        uploads = info.observed.uploads
        leaked = uploads.at[1].set(clear.observed.uploads[1])
        uploads = broken.where("the middle upload is in the clear", leaked, uploads)
        return after, info._replace(observed=info.observed._replace(uploads=uploads))

    return masked._replace(step=step)


@pytest.fixture(scope="module")
def found():
    """Pads of systems with each break, in one run: the break of a trial comes from its key."""

    def switch(key, name):
        broken.NOW["number"], broken.NOW["names"] = number_of(key), MASKS
        return named(key, name)

    broken_field = FIELD._replace(expand=expand)
    with pytest.MonkeyPatch.context() as patch:
        for module in (mask, group_sums, signed_sum):
            patch.setattr(module, "FIELD", broken_field)
        patch.setattr(sharing, "open_round", open_round)
        patch.setattr(masked_uploads, "named", switch)
        every = pads(
            broken.rooted(leaky), lambda local, observe: system(local, observe, elide=True), KEY,
            params=jnp.zeros(PARAMS), num_clients=CLIENTS, trials=TRIALS, at_once=TRIALS,
            protocol=secagg_protocol(group_size=CLIENTS),
        )  # fmt: skip
        broken.NOW.clear()
    which = np.asarray(jax.jit(jax.vmap(number_of))(jax.random.split(KEY, TRIALS)))
    return {name: Pads(*(words[which == i] for words in every)) for i, name in enumerate(MASKS)}


@pytest.mark.parametrize("which", MASKS)
def test_broken_masks_are_contradicted_and_sound_ones_are_not(which, found):
    said = judged(found[which], 0, CONFIDENCE)
    assert said.contradicts == ([] if which == "sound" else ["proved"])
    assert said.limit > 0.5
    assert which == "sound" or said.at_least > 0.5


def test_uploads_in_the_clear_are_known(found):
    """All words, and all once the private mask is off; masks that are sound hide every one."""
    share = lambda name: [(words == 0).mean() for words in found[name][:2]]
    assert share("all masks zero") == [1, 1] and share("pairwise masks zero")[1] == 1
    assert share("pairwise masks zero")[0] == 0 and share("sound") == [0, 0]


def test_one_upload_in_the_clear_is_that_of_its_client(found):
    zero = (found["the middle upload is in the clear"].pad == 0).mean((0, 1, 3))
    np.testing.assert_array_equal(zero, [0, 1, 0])


@pytest.mark.parametrize("pair", [(0, 2), (1, 4), None])
def test_one_word_that_any_two_clients_share_is_seen(pair):
    words = np.random.default_rng(0).integers(0, FIELD.size, (60, 2, 5, 8), dtype=np.uint32)
    if pair:
        words[:, :, pair[0], 3] = words[:, :, pair[1], 3]
    said = judged(Pads(words, words, words, np.zeros(60, bool)), 0, CONFIDENCE)
    assert said.contradicts == (["proved"] if pair else [])


@pytest.mark.parametrize(("share", "seen"), [(0.3, True), (0.02, False)])
def test_a_mask_that_is_missing_in_few_runs_passes(share, seen):
    """As the guide says, of the 200 runs of the command."""
    rng = np.random.default_rng(2)
    words = rng.integers(0, FIELD.size, (200, 2, 5, 8), dtype=np.uint32)
    words[rng.random(200) < share, :, 0] = 0
    assert judged(Pads(words, words, words, np.zeros(200, bool)), 0, 0.95).contradicts == (["proved"] if seen else [])


def opposite_halves(words):
    words[..., 40:] = (FIELD.size - words[..., :40].astype(np.int64)).astype(np.uint32)


def a_stream_that_goes_on(words):
    words[:, 1, :, :-4] = words[:, 0, :, 4:]


def one_word_of_one_client(words):
    assert 41 not in looked_at(80, 32)
    words[:, 0, 2, 41] = 0


@pytest.mark.parametrize("spoil", [None, opposite_halves, a_stream_that_goes_on, one_word_of_one_client])
def test_words_of_an_upload_are_compared_at_all_coordinates_and_rounds(spoil):
    words = np.random.default_rng(1).integers(0, FIELD.size, (100, 2, 4, 80), dtype=np.uint32)
    if spoil:
        spoil(words)
    few = words[..., looked_at(80, 32)]
    said = judged(Pads(few, few, words, np.zeros(100, bool)), 0, CONFIDENCE)
    assert said.contradicts == (["proved"] if spoil else [])


def buffered(local, observe, *, elide=False):
    how = dict(num_clients=6, buffer_size=3, dropout=0.2, aggregate=mean(), mesh=None, block=6)
    return share(local, elide=elide, observe=observe, **how)


def of_buffers():
    """Pads of groups of three, some lost, and which trials have no pairwise masks, by their keys."""
    now, keys = {}, jax.random.split(KEY, 40)
    without = lambda key: jax.random.randint(jax.random.fold_in(key, 7), (), 0, 2) == 1

    def switch(key, name):
        now["zero"] = without(key)
        return named(key, name)

    def expand(seed, name, *rest):
        words = prg.expand(seed, name, *rest)
        return jnp.where(now["zero"], jnp.zeros_like(words), words) if name == "pairwise mask" else words

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked_uploads, "named", switch)
        patch.setattr(mask, "FIELD", FIELD._replace(expand=expand))
        found = pads(
            buffered, lambda local, observe: buffered(local, observe, elide=True), KEY, params=jnp.zeros(40),
            num_clients=6, trials=len(keys), protocol=buffered(towards_target(), None).release.masks,
        )  # fmt: skip
    return found, np.asarray(jax.jit(jax.vmap(without))(keys))


def test_opened_masks_are_those_that_survivors_do_not_share():
    """What is left cancels among a group's survivors, whoever is lost, if the server can make up for it.

    Without pairwise masks, uploads are read once private masks are off. What the system releases says how it masks.
    """
    found, zero = of_buffers()
    left = found.compared[~zero].astype(np.int64).reshape(-1, 6, 40)
    cancels = {
        size: sum((left[:, of].sum(1) % FIELD.size == 0).all(1) for of in itertools.combinations(range(6), size))
        for size in (1, 2, 3)
    }
    assert not cancels[1].any() and cancels[2].any() and cancels[3].any()
    recovered = cancels[2] + cancels[3]
    assert recovered.max() == 2 and recovered.mean() > 1.5
    assert recovered.min() < 2  # two of a group are lost
    in_the_clear = (found.opened == 0).all(3).mean((1, 2))
    assert in_the_clear[zero].mean() > 0.6 and not in_the_clear[~zero].any()
    assert not (found.pad == 0).any()


def with_noise_alone(secure):
    return lambda local, n, **how: compose(
        local, num_clients=n, secure=secure, private="local", clip=1.0, noise_variance=1.0, weigh="expected", **how
    )


IN_PAIRS = SYSTEMS | {f"compose, {secure}": with_noise_alone(secure) for secure in ("secagg", "sparse_secagg")}


@pytest.mark.parametrize("name", IN_PAIRS)
def test_systems_that_mask_in_pairs_say_how(name):
    """Otherwise the audit would take no opened mask off. Masks in pairs are those that are opened by lists."""
    algorithm = IN_PAIRS[name](towards_target(), 8, mesh=None)
    if algorithm.step.args[0].layers.sums.by_list:
        assert algorithm.release.masks.quorum.threshold == algorithm.step.args[0].layers.sums.threshold


def test_true_masks_change_no_aggregate(found):
    """The reason why other audits may leave them out; masks that do not cancel would."""
    assert not found["sound"].differs.any()
    odd = found["sound"]._replace(differs=~found["sound"].differs)
    assert judged(odd, 0, CONFIDENCE).contradicts
