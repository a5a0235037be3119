"""The block and the devices of a round reach what masks compute for one client after the other."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.layers import enrolled_mask as enrolled
from fedjax_priv.layers import enrolled_masks, pairwise_masks, quantize, sparse_masks, stack
from fedjax_priv.layers.secure_sum import masked_sum, sharing
from fedjax_priv.systems import cdp_fl, secagg, sparse_secagg
from helpers import cohort_of, engine, mesh_of, run_layer, survivors, targets, towards_target

N, D = 7, 9
KEY = jax.random.key(2)
SYSTEMS = {"pairwise": secagg, "sparse": sparse_secagg, "enrolled": cdp_fl}
LAYERS = {
    "pairwise": pairwise_masks(group_size=N),
    "sparse": sparse_masks(alpha=0.5, group_size=N),
    "enrolled": enrolled_masks(group_size=N),
}
TIMES = {"pairwise": 2, "sparse": 2, "enrolled": 1}  # to share secrets, and to take out masks


@pytest.fixture
def placed(monkeypatch):
    """Block and mesh of each such computation that was traced."""
    seen = []
    for module in (enrolled, masked_sum, sharing):

        def record(*args, real=module.over_clients, **how):
            seen.append((how["block"], how["mesh"]))
            return real(*args, **how)

        monkeypatch.setattr(module, "over_clients", record)
    return seen


def trace(system):
    data = targets(N, D)
    jax.eval_shape(system.step, KEY, jax.eval_shape(system.init, KEY, jnp.zeros(D), data), data)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(("block", "devices"), [(2, 1), (5, 3)])
def test_a_system_hands_its_block_and_devices_to_its_masks(placed, name, block, devices):
    system = SYSTEMS[name](towards_target(), num_clients=N, block=block, mesh=mesh_of(devices))
    trace(system)
    assert placed == [(block, system.mesh)] * TIMES[name]


def test_so_does_a_block_that_was_measured(placed):
    open_ = secagg(towards_target(), num_clients=N, block="auto", mesh=None)
    for block in (3, 4):
        trace(open_.in_blocks(block))
    assert placed == [(3, None)] * 2 + [(4, None)] * 2


def test_a_stack_hands_them_on_to_a_stack_and_to_a_layer_that_was_changed(placed):
    """What was replaced in a layer stays replaced."""
    masks = LAYERS["pairwise"]
    changed = masks._replace(decode=lambda *args, **how: masks.decode(*args, **how)._replace(count=jnp.zeros(1, int)))
    layers = stack(quantize=quantize(2.0**16, N), below=stack(mask=changed))
    system = engine(layers=layers, block=3)
    data = targets(N, D)
    _, info = jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(D), data), data)
    assert placed == [(3, None)] * 2
    assert not info.counted.any()


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_outside_a_round_has_the_usual_block(placed, name):
    """The control: without a round nobody hands anything on."""
    run_layer(LAYERS[name], KEY, jnp.zeros((N, D), jnp.uint32), cohort_of(N), survivors(N))
    assert placed == [(8, None)] * TIMES[name]
