"""A process of its own, in which a rule on the host raises; importing this file starts no device."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import simulate, systems
from fedjax_priv.aggregators import from_host
from fedjax_priv.runs.ending import SimulationError
from helpers import targets, towards_target


def in_the_second_round():
    """On two devices, of which one calls the function while the other waits for it in a sum."""
    assert jax.device_count() == 2
    rounds, data = [], targets(6, 8)

    def rule(rows):
        rounds.append(0)
        return rows.mean(0) if len(rounds) == 1 else {}["lost"]

    system = systems.robust_fedavg(towards_target(), num_clients=6, aggregate=from_host(rule))
    with pytest.raises(SimulationError, match="^after 1 of 3 rounds: function of from_host raised KeyError") as caught:
        simulate(system, jax.random.key(1), jnp.zeros(8), data, rounds=3)
    assert isinstance(caught.value.__cause__.__cause__, KeyError) and caught.value.dataset.rounds_done == 1
