"""A round is compiled once, from the state that `init` returns, wherever a user's arrays lie and whatever they are."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.state_placement import initial
from helpers import engine, mesh_of, remembering, targets

N, D = 8, 5
KEY = jax.random.key(2)
MOMENTUM = optax.sgd(0.1, momentum=0.9)


def compilations(system, params, data, key=KEY, init=None, **how):
    """Of a plain loop of three rounds; and its last state."""
    step, state = jax.jit(system.step, **how), (init or system.init)(key, params, data)
    for _ in range(3):
        state, info = step(key, state, data)
        assert int(info.status) == 0
    return step._cache_size(), state


def on(number, tree):
    return jax.device_put(tree, jax.devices()[number])


def system_on(mesh=None, server=None):
    return engine(local=remembering(), mesh=mesh, server=server)


@pytest.mark.parametrize(
    "inputs",
    [
        lambda data: (np.zeros(D, np.float32), jax.tree.map(np.asarray, data)),
        lambda data: (jnp.full(D, 0.5), data),
        lambda data: (jnp.zeros(D), on(1, data)),
        lambda data: (on(0, jnp.zeros(D)), data),
    ],
    ids=["NumPy", "weak type", "data on a chosen device", "parameters on a chosen device"],
)
def test_what_a_user_passes_compiles_one_program(inputs):
    params, data = inputs(targets(N, D))
    assert compilations(system_on(server=MOMENTUM), params, data)[0] == 1


def test_a_key_on_a_chosen_device_compiles_one_program():
    assert compilations(system_on(), jnp.zeros(D), targets(N, D), on(1, KEY))[0] == 1


@pytest.mark.parametrize("mesh", [clients_mesh(jax.devices()[:1]), mesh_of(2), mesh_of(8)], ids=["1", "2", "8"])
def test_rows_of_clients_are_spread_over_a_mesh_that_divides_them(mesh):
    data, system = targets(N, D), system_on(mesh, MOMENTUM)
    for init in (system.init, jax.jit(system.init)):
        state = init(KEY, on(0, jnp.zeros(D)) if init is system.init else jnp.zeros(D), data)
        each = {shard.data.shape[0] for shard in state.memory.addressable_shards}
        assert each == {N // mesh.size}
        assert state.params.sharding.is_equivalent_to(NamedSharding(mesh, PartitionSpec()), 1)
        count, after = compilations(system, jnp.zeros(D), data, init=lambda *_, state=state: state)
        assert count == 1
        assert jax.tree.map(lambda a: a.sharding, after) == jax.tree.map(lambda a: a.sharding, state)


def test_a_state_placed_elsewhere_is_counted():
    """The control."""
    elsewhere = system_on().init
    assert compilations(system_on(mesh_of(2)), jnp.zeros(D), targets(N, D), init=elsewhere)[0] == 2


@pytest.mark.parametrize("devices", [1, 2])
def test_a_donated_state_holds_no_array_of_the_caller_and_none_twice(devices):
    """The optimizer keeps the parameters it starts from, and so does the caller."""
    keeps = optax.GradientTransformation(lambda params: params, lambda g, state, params=None: (g, state))
    params, data = jnp.zeros(D), targets(N, D)
    assert compilations(system_on(mesh_of(devices), keeps), params, data, donate_argnums=1)[0] == 1
    assert not any(a.is_deleted() for a in jax.tree.leaves((params, data)))


def test_a_first_state_may_hold_numbers_and_keys():
    state = system_on().init(KEY, jnp.zeros(D), targets(N, D))._replace(aggregate=(1, KEY))
    placed = initial(state, mesh_of(2), ())
    assert placed.aggregate[0].dtype == jnp.int32 and (placed.aggregate[1] == KEY).all()
    assert len(placed.aggregate[1].devices()) == 2
