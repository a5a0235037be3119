import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy import stats

from fedjax_priv.crypto import philox_stream, prg
from helpers import accelerator_forms

Q = 2**32 - 5
SEED = jnp.array([0x12345678, 0x9ABCDEF0], jnp.uint32)
LONG = jnp.concatenate([SEED, SEED, SEED[::-1], SEED])
GENERATORS = {"philox": prg.philox, "threefry": prg.threefry, "chacha20": prg.chacha20}


def seed_of(name):
    return LONG if name == "chacha20" else SEED


words_of = {
    name: jax.jit(generator.words, static_argnames=("purpose", "count")) for name, generator in GENERATORS.items()
}
expand = jax.jit(prg.expand, static_argnames=("purpose", "d", "prg"))

# Random123's published known answers: counter, key, output
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def parsed(text):
    return tuple(int(word, 16) for word in text.split())


def philox_in_python(counter, key):
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 % 2**32, (p0 >> 32) ^ c3 ^ k1, p0 % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_known_answers(counter, key, answer):
    counter, key, answer = map(parsed, (counter, key, answer))
    assert philox_in_python(counter, key) == answer
    for rolled in (False, True):
        output = philox_stream.philox4x32(tuple(map(jnp.uint32, counter)), tuple(map(jnp.uint32, key)), rolled)
        assert tuple(map(int, output)) == answer


def words_in_python(seed, round, part, count, rows=1):
    """Rows of blocks; in each row the first words of all blocks, then the second ones, ..."""
    columns = -(-count // (4 * rows))
    blocks = [philox_in_python((b, zlib.crc32(b"mask"), round, part), seed) for b in range(rows * columns)]
    return [
        block[lane] for row in range(rows) for lane in range(4) for block in blocks[row * columns : (row + 1) * columns]
    ][:count]


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (128, 1), (129, 1), (4095, 1), (4096, 4), (4999, 4)])
def test_words_are_philox_of_block_purpose_round_and_part(count, rows):
    for part in (0, 9):
        words = words_of["philox"](SEED, "mask", 7, count, part).tolist()
        assert words == words_in_python((0x12345678, 0x9ABCDEF0), 7, part, count, rows)


def test_words_of_a_key_are_the_stream_of_its_seed():
    key = jax.random.key(2)
    words, seed = prg.bits(key, "mask", (3, 43)), prg.seed_of(key)
    assert words.shape == (3, 43) and words.ravel().tolist() == words_in_python(seed.tolist(), 0, 0, 129)
    assert prg.signs(seed, "mask", 129).tolist() == [1 - 2 * (word % 2) for word in words.ravel().tolist()]
    assert (prg.seed_of(jax.random.fold_in(key, 1)) != seed).all() and prg.bits(key, "mask", (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("count", [19, 43])
def test_words_of_seeds_side_by_side(count):
    seeds = jax.random.bits(jax.random.key(0), (2, 3, 2), jnp.uint32)
    words = np.asarray(words_of["philox"](seeds, "mask", 7, count, 5))
    assert words.shape == (count, 3, 2)
    for at in np.ndindex(3, 2):
        k0, k1 = (int(limb[at]) for limb in np.asarray(seeds))
        assert words[:, *at].tolist() == words_in_python((k0, k1), 7, 5, count)
    threefry = words_of["threefry"](seeds.reshape(2, 6), "mask", 7, 43, 5)
    assert (threefry[:, 4] == words_of["threefry"](seeds.reshape(2, 6)[:, 4], "mask", 7, 43, 5)).all()


SHAPES = [(42, ()), (4999, ()), (3, (2, 2))]  # words, seeds


def test_words_are_the_same_on_every_platform():
    program = lambda: [
        prg.philox.words(jax.random.bits(jax.random.key(1), (2, *seeds), jnp.uint32), "mask", 7, count, 5)
        for count, seeds in SHAPES
    ]
    many = lambda: len(str(jax.make_jaxpr(lambda: prg.philox.words(SEED, "mask", 7, 1100))()))
    on_cpu, length = jax.jit(program)(), many()
    with accelerator_forms():
        elsewhere = jax.jit(program)()
        assert many() < 0.8 * length
    for mine, theirs in zip(on_cpu, elsewhere, strict=True):
        assert (mine == theirs).all()


def test_words_in_the_field_are_left_as_they_are():
    d = 1000
    words = words_of["philox"](SEED, "mask", 7, d + 32)
    assert (np.asarray(words) < Q).all()
    assert (expand(SEED, "mask", 7, d) == words[:d]).all()


def test_words_outside_the_field_are_replaced_by_a_spare_of_their_run():
    d, outside = 70, {0: Q, 31: Q + 4, 32: Q + 1, 69: 2**32 - 1}  # runs of 32: 0-31, 32-63, 64-69
    raw = np.arange(100, 100 + d + 3, dtype=np.uint32)
    raw[list(outside)] = list(outside.values())
    raw[d:] = 5555, Q - 1, Q + 3  # spares: the last one is outside as well, and folded
    expected = np.arange(100, 100 + d)
    expected[list(outside)] = 5555, 5555, Q - 1, 3
    given = prg.Prg(lambda seed, purpose, round, count, part: jnp.asarray(raw[:count]))
    assert (np.asarray(prg.expand(SEED, "mask", 0, d, given)) == expected).all()
    mirrored = np.stack([raw, np.r_[raw[:d][::-1], raw[d:][::-1]]], 1)  # another seed's words next to them
    given = prg.Prg(lambda seed, purpose, round, count, part: jnp.asarray(mirrored[:count]))
    assert (np.asarray(prg.expand(SEED, "mask", 0, d, given))[:, 0] == expected).all()


def p_value(words, shift=24):
    """Chi-square test of eight bits, from bit `shift` up."""
    return stats.chisquare(np.bincount((np.asarray(words) >> shift) & 255, minlength=256)).pvalue


@pytest.mark.parametrize("name", GENERATORS)
def test_elements_are_uniform_and_the_test_would_notice(name):
    words = expand(seed_of(name), "mask", 3, 200_000, GENERATORS[name])
    assert (np.asarray(words) < Q).all()
    assert min(p_value(words, shift) for shift in (0, 8, 16, 24)) > 1e-3
    assert p_value(words % np.uint32(Q - Q // 50)) < 1e-9  # control: a field 2% too small, folded
    assert p_value(words >> 1) < 1e-9  # control: 31 bits


def test_replacements_are_uniform_and_folding_would_not_be():
    runs = 50_000
    outside = jnp.full(32 * runs, Q, jnp.uint32) + jnp.arange(32 * runs, dtype=jnp.uint32) % 5
    replaced = prg.replace_outside(outside, prg.philox.words(SEED, "mask", 3, runs))[::32]
    assert min(p_value(replaced, shift) for shift in (0, 8, 16, 24)) > 1e-3
    assert p_value(outside[::32] - np.uint32(Q), 0) < 1e-9


@pytest.mark.parametrize("name", GENERATORS)
def test_streams_differ_by_seed_purpose_round_and_part(name):
    d, generator = 64, GENERATORS[name]
    seed = seed_of(name)
    bits = np.eye(len(seed), dtype=np.uint32)
    seeds = [seed, seed[::-1], *(seed + bit for bit in bits[[0, -1]])]
    streams = [
        expand(seed, purpose, t, d, generator, part)
        for seed in seeds
        for purpose in ("mask", "where")
        for t in (0, 1)
        for part in (0, 1)
    ]
    words = np.concatenate([np.asarray(stream) for stream in streams])
    assert np.unique(words).size == words.size  # 2,048 words: a chance meeting has probability 5e-4
    assert (expand(seed, "mask", 0, d, generator) == streams[0]).all()


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("d", [1, 1000])
def test_alone_batched_and_unjitted_alike(name, d):
    generator = GENERATORS[name]
    seeds = jax.random.bits(jax.random.key(0), (3, generator.seed_words), jnp.uint32)
    rounds = jnp.arange(3)
    batched = jax.jit(jax.vmap(lambda seed, t: prg.expand(seed, "mask", t, d, generator)))(seeds, rounds)
    for row, seed, t in zip(batched, seeds, range(3), strict=True):
        assert row.shape == (d,)
        assert (row == prg.expand(seed, "mask", t, d, generator)).all()


def test_the_same_words_on_every_device():
    seeds = jax.random.bits(jax.random.key(0), (4, 2), jnp.uint32)
    rows = jax.jit(jax.vmap(lambda seed: prg.expand(seed, "mask", 0, 100)))
    mesh, split = Mesh(np.array(jax.devices()[:4]), ("clients",)), PartitionSpec("clients")
    spread = jax.jit(jax.shard_map(rows, mesh=mesh, in_specs=split, out_specs=split))
    assert (np.asarray(spread(seeds)) == np.asarray(rows(seeds))).all()
    assert (rows(jax.device_put(seeds, NamedSharding(mesh, split))) == rows(seeds)).all()


def test_bad_size():
    with pytest.raises(ValueError, match="d must be an integer >= 1, got 0"):
        prg.expand(SEED, "mask", 0, 0)


def test_elements_of_two_words_each():
    found = prg.elements(jnp.array([5, Q - 1, Q, Q + 4], jnp.uint32), jnp.array([7, 7, 8, Q + 1], jnp.uint32))
    assert found.tolist() == [5, Q - 1, 8, 1]


def test_masks_are_refused_where_jax_computes_with_64_bits():
    """Sums of words would be of 64 bits, and fail somewhere inside."""
    jax.config.update("jax_enable_x64", True)
    try:
        with pytest.raises(ValueError, match="^jax_enable_x64 must be False where masks are added"):
            prg.generator("philox")
    finally:
        jax.config.update("jax_enable_x64", False)
    assert prg.generator("philox").seed_words == 2
