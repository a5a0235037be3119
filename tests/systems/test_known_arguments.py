"""An argument that a system does not have is named, with what was meant or where to go."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import systems
from fedjax_priv.attacks import foe
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.systems._known_arguments import ELSEWHERE, _plain, of_known_arguments


@pytest.mark.parametrize("name", systems.__all__)
def test_every_system_names_what_it_does_not_have(name):
    with pytest.raises(TypeError, match=f"^{name} has no argument xyzzy; it takes "):
        getattr(systems, name)(None, xyzzy=1)


@pytest.mark.parametrize(
    ("system", "argument", "words"),
    [
        (
            "fedavg",
            "aggregate",
            "has no argument aggregate (systems.robust_fedavg and systems.compose take a rule); it",
        ),
        ("fedavg", "aggregator", "has no argument aggregator (systems.robust_fedavg and systems.compose take a rule)"),
        ("secagg", "thresold", "has no argument thresold (did you mean threshold?); it takes local, num_clients, "),
        ("fedavg", "neighbours", "has no argument neighbours; it takes local, cohort_size, dropout, exact, server, "),
    ],
)
def test_what_was_meant_and_where_to_go(system, argument, words):
    with pytest.raises(TypeError, match=re.escape(f"{system} {words}")):
        getattr(systems, system)(None, **{argument: 1})


@pytest.mark.parametrize("of", [np.int64, np.array, jnp.int32])
def test_scalars_are_pythons_numbers(of):
    assert type(_plain(of(2))) is int and _plain(of(2)) == 2
    for other in (of([1, 2]), jax.random.key(0)):
        assert _plain(other) is other
    assert jax.jit(lambda number: _plain(number) + 1)(2) == 3, "a traced one stays"


def test_sizes_may_be_scalars_of_any_kind():
    """They are hashed, asked for their bits and compared where rounds are traced."""
    data, params = ClientData(jnp.ones((4, 2, 3)), jnp.full(4, 2)), jnp.ones(3)
    local = local_sgd(lambda w, x: jnp.square(w[None] - x).sum(-1), learning_rate=0.1, batch_size=2, num_epochs=1)
    fedavg, common, vote = (
        of_known_arguments(inspect.unwrap(system))  # without the tests' check of types
        for system in (systems.fedavg, systems.common_secagg, systems.majority_vote)
    )
    for of in (np.int64, np.array, jnp.int32):
        for system in (
            fedavg(local, cohort_size=of(2)),
            common(local, num_clients=of(4), num_params=of(3), alpha=0.5),
            vote(local, num_clients=of(4), num_byzantine=of(1), attack=foe(2.0)),
        ):
            state = jax.eval_shape(system.init, jax.random.key(0), params, data)
            jax.eval_shape(system.step, jax.random.key(0), state, data)


def test_the_systems_it_sends_to_have_the_argument():
    for name, where in ELSEWHERE.items():
        for system in re.findall(r"systems\.(\w+)", where):
            parameters = inspect.signature(getattr(systems, system)).parameters
            assert name in parameters or name in ("layers", "channel"), (name, system)
