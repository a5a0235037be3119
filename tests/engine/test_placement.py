"""The block and the devices of a round reach what masks compute for one client after the other."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.layers import enrolled_mask as enrolled
from fedjax_priv.layers import enrolled_masks, pairwise_masks, quantize, sparse_masks, stack
from fedjax_priv.layers.secure_sum import masked_sum, sharing
from fedjax_priv.systems import cdp_fl, secagg, sparse_secagg
from fedjax_priv.testing import layer_round
from helpers import cohort_of, engine, mesh_of, one_round, survivors, targets, towards_target

N, D = 7, 9
KEY = jax.random.key(2)
MASKED = [
    (secagg, pairwise_masks(group_size=N), 2),  # times: to share secrets, and to take out masks
    (sparse_secagg, sparse_masks(alpha=0.5, group_size=N), 2),
    (cdp_fl, enrolled_masks(group_size=N), 1),
]


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


@pytest.mark.parametrize(("system", "layer", "times"), MASKED)
def test_a_system_hands_its_block_and_devices_to_its_masks(placed, system, layer, times):
    for block, mesh in ((2, None), (5, mesh_of(3))):
        trace(system(towards_target(), num_clients=N, block=block, mesh=mesh))
        assert placed == [(block, mesh)] * times
        placed.clear()
    jax.eval_shape(lambda: layer_round(layer, KEY, jnp.zeros((N, D), jnp.uint32), cohort_of(N), survivors(N)))
    assert placed == [(None, None)] * times, "the control: outside a round nobody hands anything on"


def around(**how):
    """A round of masks in a stack in a stack, in whose layer something was replaced."""
    masks = pairwise_masks(group_size=N, **how)
    changed = masks._replace(decode=lambda *args, **how: masks.decode(*args, **how)._replace(count=jnp.zeros(1, int)))
    return engine(layers=stack(quantize=quantize(2.0**16, N), below=stack(mask=changed)), block=3)


def test_a_stack_hands_them_on_to_a_stack_and_to_a_layer_that_was_changed(placed):
    """What was replaced in a layer stays replaced; that is seen without masks, too."""
    trace(around())
    assert placed == [(3, None)] * 2
    placed.clear()
    assert not one_round(around(elide=True), targets(N, D), D)[2].counted.any()
    assert placed == [(3, None)], "secrets are shared, and no mask is taken out"
