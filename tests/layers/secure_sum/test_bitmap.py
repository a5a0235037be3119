import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers.secure_sum import bitmap


@pytest.mark.parametrize("d", [1, 31, 32, 33, 100, 1024])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_set_comes_back_from_a_bit_for_each_coordinate(d, share):
    chosen = np.random.default_rng(d).random(d) < share
    packed = jax.jit(bitmap.pack)(jnp.asarray(chosen))
    assert packed.dtype == jnp.uint32 and packed.shape == (-(-d // 32),)
    assert sum(int(word).bit_count() for word in packed) == chosen.sum(), "padding is empty"
    assert (np.asarray(bitmap.unpack(packed, d)) == chosen).all()


def test_each_coordinate_has_a_bit_of_its_own():
    d = 70
    words = np.asarray(jax.vmap(bitmap.pack)(jnp.eye(d, dtype=bool)))
    assert len({tuple(row) for row in words.tolist()}) == d
    assert (np.bitwise_or.reduce(words, 0) == np.asarray(bitmap.pack(jnp.ones(d, bool)))).all()


def test_bits_of_a_message_and_one_whose_bits_would_not_fit():
    chosen = np.random.default_rng(0).random((3, 100)) < 0.4
    packed = jax.vmap(bitmap.pack)(jnp.asarray(chosen))
    np.testing.assert_array_equal(bitmap.bits_with(packed, 100), 100 + 32 * chosen.sum(1))
    most = (2**32 - 1) // 33
    bitmap.bits_with(packed, most)
    with pytest.raises(ValueError, match=rf"fewer than 2\*\*32 bits \(512 MiB\), got {33 * (most + 1)}"):
        bitmap.bits_with(packed, most + 1)
