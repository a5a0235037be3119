"""What a ledger says of Gaussian noise on each upload, where attackers choose coordinates."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.attacks import same_set, sign_flip
from fedjax_priv.ledger import ledger, planned
from fedjax_priv.systems import compose
from helpers import targets, towards_target

N, D = 6, 8
DATA = targets(N, D)
IGNORANT = "Byzantine clients know no other's update"


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize(("attack", "conditional"), [("nobody", False), ("values", False), ("coordinates", True)])
def test_attackers_who_propose_see_updates_before_noise(attack, conditional, alpha):
    """A proposal is public and may say what noise would hide; what they send in its place is above their own noise."""
    attacks = {"values": {"attack": sign_flip()}, "coordinates": {"coordinate_attack": same_set()}}
    system = compose(
        towards_target(), num_clients=N, num_params=D, compress="conspar", ratio=0.5, alpha=alpha, private="local",
        clip=1.0, noise_variance=1.0, num_byzantine=1, **attacks.get(attack, {}),
    )  # fmt: skip
    run = planned(system, jax.random.key(0), jnp.zeros(D), DATA, 2)
    _, values = ledger(system, run, DATA, delta=1e-5)
    assert (values.proved.epsilon is not None) == (alpha == 1)  # else proposals tell more
    assert (IGNORANT in values.proved.why) == conditional
