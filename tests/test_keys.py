"""Keys by name."""

import jax

from fedjax_priv.keys import named


def test_names_have_keys_of_their_own():
    keys = [jax.random.key_data(named(jax.random.key(1), f"stage {number}")).tolist() for number in range(300)]
    assert len({*map(tuple, keys)}) == 300
