"""Keys by name."""

import inspect

import jax
import pytest

from fedjax_priv.keys import each_named, named


def test_names_have_keys_of_their_own():
    keys = [jax.random.key_data(named(jax.random.key(1), f"stage {number}")).tolist() for number in range(300)]
    assert len({*map(tuple, keys)}) == 300


def test_keys_of_several_names_are_those_of_each_from_one_computation():
    key, names = jax.random.key(1), ["cohort", "local", "encode"]
    together = each_named(key, names)
    assert [*together] == names
    assert all((jax.random.key_data(together[name]) == jax.random.key_data(named(key, name))).all() for name in names)
    assert str(jax.make_jaxpr(lambda key: each_named(key, names))(key)).count("random_fold_in") == 1


def test_what_is_no_name_is_refused():
    key = jax.random.key(1)
    with pytest.raises(ValueError, match=r"^name must be a string, such as 'noise', got 3$"):
        inspect.unwrap(named)(key, 3)
    with pytest.raises(ValueError, match=r"^names must be strings in a list, got 'ab'$"):
        inspect.unwrap(each_named)(key, "ab")
