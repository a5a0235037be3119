import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers import plain, plain_sparse
from fedjax_priv.status import Status
from helpers import cohort_of, run_layer, survivors

BIG, FIELD, NAN = 2.0**15, Status.FIELD_OVERFLOW, Status.NOT_FINITE


@pytest.mark.parametrize(("layer", "size"), [(plain, 1), (plain_sparse, 3)])
def test_exact_is_a_bool(layer, size):
    with pytest.raises(ValueError, match="^exact must be one of True, False, got 'no'$"):
        inspect.unwrap(layer)(size, exact="no")


@pytest.mark.parametrize(("exact", "expected"), [(True, [0, FIELD, FIELD, NAN, NAN]), (False, [0, 0, 0, NAN, NAN])])
def test_what_a_sum_cannot_hold_sets_its_bit(exact, expected):
    x = jnp.asarray([[np.nextafter(np.float32(BIG), np.float32(0))], [-BIG], [1e9], [np.inf], [np.nan]], jnp.float32)
    sent = run_layer(plain(exact=exact), jax.random.key(0), x, cohort_of(5), survivors(5))["sent"]
    assert sent.refused.tolist() == expected


@pytest.mark.parametrize("clients", [1, 9])
def test_one_nan_among_many_numbers_sets_its_bit(clients):
    """A maximum passes over it on a CPU."""
    x = np.ones((clients, 8000), np.float32)
    x[-1, 5] = np.nan
    encode = jax.jit(lambda x: run_layer(plain(), jax.random.key(0), x, cohort_of(clients), survivors(clients))["sent"])
    assert encode(x).refused.tolist() == [0] * (clients - 1) + [NAN]
