"""Variances of noise over the air that are given for each client: equal ones are one variance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import systems
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.channels import constant, turned
from fedjax_priv.ledger import ledger, planned, worst

N, D, KEY = 3, 8, jax.random.key(0)
SYSTEMS = {
    "known gains": (systems.wireless, {"fading": constant()}),
    "orthogonal links": (systems.wireless, {"fading": constant(), "access": "orthogonal"}),
    "turned phases": (systems.wireless, {"fading": turned(constant(), deviation=0.1)}),
    "antennas": (systems.blind_wireless, {"antennas": 2}),
}


def proved(name, variance):
    make, how = SYSTEMS[name]
    system = make(sending(jnp.zeros((N, D))), noise_variance=variance, mesh=None, **how)
    run = planned(system, KEY, jnp.zeros(D), no_samples(N), rounds=2)
    return [entry.proved for entry in ledger(system, run, no_samples(N), delta=1e-5)]


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_equal_variances_are_one_variance(name, noise):
    """The same figures; a client whose variance is another one ends them."""
    for one, each in zip(proved(name, noise), proved(name, np.full(N, noise)), strict=True):
        assert (worst(one) or 0) > 0
        np.testing.assert_array_equal(one.epsilon, each.epsilon)
    for unequal in proved(name, np.append(np.full(N - 1, noise), 0.4)):
        assert unequal.epsilon is None and "noise variances differ" in unequal.why
