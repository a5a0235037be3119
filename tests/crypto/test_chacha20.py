"""ChaCha20 against the vectors of RFC 8439 and against another library, and its streams in every layout."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import chacha20_stream, prg
from fedjax_priv.crypto.chacha20_stream import chacha20, quarter_round
from fedjax_priv.layers.secure_sum import signed_sum
from helpers import QUICK, Q, accelerator_forms

KEY = np.frombuffer(bytes(range(32)), "<u4")
block = jax.jit(
    lambda key, counter, nonce, rolled: jnp.stack(chacha20(tuple(key), counter, tuple(nonce), rolled=rolled)),
    static_argnames="rolled",
)


def words(text):
    return [int(word, 16) for word in text.split()]


def test_the_quarter_round_of_the_rfc():
    """Section 2.1.1."""
    given = jnp.array(words("11111111 01020304 9b8d6f43 01234567"), jnp.uint32)
    assert [int(word) for word in quarter_round(*given)] == words("ea2a92f4 cb1cf8ce 4581472e 5881c4bb")


VECTORS = [
    (  # section 2.3.2
        KEY, 1, "000000090000004a00000000",
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2",
    ),
    (  # appendix A.1, test vector 1
        KEY * 0, 0, "00" * 12,
        "ade0b876 903df1a0 e56a5d40 28bd8653 b819d2bd 1aed8da0 ccef36a8 c70d778b "
        "7c5941da 8d485751 3fe02477 374ad8b8 f4b8436a 1ca11815 69b687c3 8665eeb2",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "counter", "nonce", "answer"), VECTORS)
def test_blocks_of_the_rfc(key, counter, nonce, answer):
    nonce = np.frombuffer(bytes.fromhex(nonce), "<u4")
    assert block(key, np.uint32(counter), nonce, rolled=True).tolist() == words(answer)


def stream_elsewhere(seed, purpose, round, part, blocks):
    """Blocks from 0 on by the library `cryptography`, `[blocks, 16]`: the counter is the first word of its nonce."""
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    nonce = np.array([0, zlib.crc32(purpose.encode()), round, part], "<u4").tobytes()
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(np.asarray(seed, "<u4").tobytes(), nonce), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(64 * blocks)), "<u4").reshape(blocks, 16)


def in_order(blocks, rows):
    """Rows of blocks; in a row the first words of all blocks, then the second words, and so on."""
    return blocks.reshape(rows, -1, 16).swapaxes(1, 2).ravel()


SEED = np.random.default_rng(0).integers(0, 2**32, 8, dtype=np.uint32)
stream = jax.jit(prg.chacha20.words, static_argnames=("purpose", "count"))


@pytest.mark.parametrize("count", [1, 65, 4999])
def test_streams_are_those_of_another_library(count):
    rows = 8 if count >= 4096 else 1
    blocks = stream_elsewhere(SEED, "mask", 7, 9, -(-count // (16 * rows)) * rows)
    assert (stream(SEED, "mask", 7, count, 9) == in_order(blocks, rows)[:count]).all()


def test_seeds_side_by_side_and_the_form_for_accelerators():
    seeds = np.random.default_rng(1).integers(0, 2**32, (8, 2, 3), dtype=np.uint32)
    side_by_side = np.asarray(stream(seeds, "mask", 7, 43))
    for at in np.ndindex(2, 3):
        assert (side_by_side[:, *at] == in_order(stream_elsewhere(seeds[:, *at], "mask", 7, 0, 3), 1)[:43]).all()
    with accelerator_forms():
        assert (stream(seeds, "mask", 7, 43) == side_by_side).all()


@pytest.mark.parametrize("d", [40, 4201], ids=["words", "blocks"])
def test_sums_of_masks_are_sums_of_streams(d, monkeypatch):
    """One pair does not meet, and one has the sign -; one word in eight lies outside the field, and so spares are used.

    Many words in the forms for a CPU and for accelerators.
    """
    plain = chacha20_stream.chacha20
    raised = lambda word: jnp.where(word % 4 == 0, word | np.uint32(2**32 - 8), word)  # 4 of 8 such words are outside
    rolled = lambda *args, **how: tuple(map(raised, plain(*args, rolled=True)))  # the same words, compiled sooner
    monkeypatch.setattr(chacha20_stream, "chacha20", rolled)
    seeds = np.random.default_rng(2).integers(0, 2**32, (1, 3, 8), dtype=np.uint32)
    meets, plus = jnp.array([[True, False, True]]), jnp.array([[True, True, False]])
    sums = jax.jit(
        lambda: signed_sum.signed_sum(jnp.asarray(seeds), meets, plus, "mask", 3, d, prg.chacha20),
        compiler_options=QUICK,
    )
    one = jax.jit(lambda seed: prg.expand(seed, "mask", 3, d, prg.chacha20), compiler_options=QUICK)
    first, last = (np.asarray(one(seeds[0, at])).astype(object) for at in (0, 2))
    assert (first < Q).all() and 0.02 < (first >= Q - 8).mean() < 0.3
    assert (np.asarray(sums()[0]) == (first - last) % Q).all()
    if d > 40:
        with accelerator_forms():
            assert (np.asarray(sums()[0]) == (first - last) % Q).all()


def test_the_generator_of_a_seed_without_one_is_that_of_its_length():
    seed = jnp.asarray(SEED)
    assert (prg.expand(seed, "mask", 0, 9) == prg.expand(seed, "mask", 0, 9, prg.chacha20)).all()
    assert prg.generator("chacha20") is prg.generator(prg.chacha20) is prg.chacha20
    assert [prg.generator(name).seed_words for name in ("philox", "threefry", "chacha20")] == [2, 2, 8]


def test_one_block_of_many_seeds_is_compiled_once_and_not_for_each_of_its_words():
    """Its rounds are a loop over a double round, of 32 exclusive ors; there were 64 copies of all ten."""
    seeds = jax.ShapeDtypeStruct((8, 1000), jnp.uint32)
    compiled = jax.jit(lambda seeds: prg.expand(seeds, "test", 0, 8, prg.chacha20)).lower(seeds).compile()
    assert compiled.as_text().count(" xor(") <= 3 * 32
