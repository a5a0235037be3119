import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.channels import erasure
from helpers import cohort_of

KEY = jax.random.key(2)


def test_rates_of_both_survivor_sets():
    n, dropout, leave = 20_000, 0.3, 0.1
    channel, who = erasure(dropout, leave=leave), cohort_of(20_000)
    _, alive = channel.transmit(KEY, jnp.zeros((n, 1)), who)
    online = channel.respond(jax.random.fold_in(KEY, 1), alive, who)
    for share, expected in ((alive.mean(), 1 - dropout), (online.sum() / alive.sum(), 1 - leave)):
        assert abs(float(share) - expected) < 5 * np.sqrt(0.25 / n)
    assert not (online & ~alive).any()


def test_only_selected_clients_upload_and_nobody_is_lost_without_dropout():
    who = cohort_of(4)._replace(selected=jnp.array([True, False, True, True]))
    y, alive = erasure().transmit(KEY, jnp.ones((4, 2)), who)
    assert alive.tolist() == [True, False, True, True]
    assert (y == 1).all()


def test_the_rate_may_be_traced():
    count = jax.jit(lambda rate: erasure(rate).transmit(KEY, jnp.zeros((99, 1)), cohort_of(99))[1].sum())
    assert count(0.9) < count(0.5) < count(0.0) == 99


@pytest.mark.parametrize("how", [{"dropout": 1.0}, {"dropout": -0.1}, {"leave": 1.5}, {"dropout": np.nan}])
def test_bad_rates(how):
    with pytest.raises(ValueError, match=f"^{next(iter(how))} must be a number in"):
        erasure(**how)
