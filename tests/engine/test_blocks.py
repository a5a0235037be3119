import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import ClientData, clients, losses, models
from fedjax_priv.base import CLIENTS
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.side_by_side import CPU_CACHE_BYTES
from fedjax_priv.systems import fedavg
from helpers import mesh_of, same_bits, targets, towards_target

pytestmark = pytest.mark.usefixtures("any_platform")


def square_and_count(shared, valid, a, b):
    """Ghosts must add nothing; rows of two dtypes and ranks come back."""
    return (valid.sum(), jnp.where(valid, a, 0).sum()), {"square": a * a, "row": b + shared[None, None, :]}


@pytest.mark.parametrize("n", [1, 7, 12])
@pytest.mark.parametrize("devices", [1, 3, 8])
@pytest.mark.parametrize("block", [1, 5, 100])
def test_rows_are_stacked_and_summands_added_without_ghosts(n, devices, block):
    a, b = jnp.arange(1, n + 1), jnp.ones((n, 2, 3)) * jnp.arange(n, dtype=jnp.float32)[:, None, None]
    run = jax.jit(
        lambda a, b: over_clients(
            square_and_count, jnp.ones(3), (a, b), row_bytes=1, block=block, mesh=mesh_of(devices)
        )
    )
    (count, total), out = run(a, b)
    assert (int(count), int(total)) == (n, n * (n + 1) // 2)
    assert out["square"].tolist() == [i * i for i in range(1, n + 1)]
    np.testing.assert_array_equal(out["row"], b + 1)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("block", [1, 2, 100])
@pytest.mark.parametrize("work", [None, [3, 0, 2, 9, 4, 1, 0]])
def test_clients_are_computed_on_the_device_that_is_asked(devices, block, work):
    device = jnp.array([2, 0, 2, 2, 0, 2, 2]) % devices

    def run_of(shared, valid, a):
        here = jax.lax.axis_index(CLIENTS)
        return (jnp.int32(1), jnp.where(valid, a, 0).sum()), jnp.stack([a, jnp.full_like(a, here)], axis=1)

    rows, shape = jnp.arange(1, 8), dict(row_bytes=1, block=block, mesh=clients_mesh(jax.devices()[:devices]))
    run = jax.jit(lambda work, device: over_clients(run_of, (), (rows,), work=work, device=device, **shape))
    (blocks, total), out = run(None if work is None else jnp.array(work), device)
    assert int(total) == 28
    np.testing.assert_array_equal(out, jnp.stack([rows, device], axis=1))
    size, own = min(block, 7), [int((device == one).sum()) for one in range(devices)]
    ends = [min(start + size, 7) for start in range(0, 7, size)]
    with_one = sum(end > 7 - number for number in own for end in ends)  # a device computes its own clients last
    assert int(blocks) == with_one, "a block without a client of its device is left out"


def test_a_sum_of_negative_zeros_has_the_same_bits_in_one_block_and_in_several():
    add = lambda shared, valid, a: (-a.sum(0), ())
    total = lambda block: over_clients(add, (), (jnp.zeros((4, 2)),), row_bytes=1, block=block)[0]
    assert same_bits(total(4), total(2)) and not np.signbit(total(4)).any()


def test_no_block_is_larger_than_asked_and_blocks_are_even():
    sizes = []

    def remember(shared, valid, a):
        sizes.append(a.shape[0])
        return (), a

    for n, block, even in ((100, 30, 25), (7, 7, 7), (10, 4, 4), (9, 4, 3)):
        over_clients(remember, (), (jnp.arange(n),), row_bytes=1, block=block)
        assert sizes[-1] == even <= block


def test_bad_block():
    with pytest.raises(ValueError, match="^block must be an integer >= 1, got 0"):
        over_clients(square_and_count, (), (jnp.arange(3), jnp.ones(3)), row_bytes=1, block=0)


@pytest.mark.parametrize("devices", [1, 2])
def test_an_open_block_is_as_large_as_fits_where_the_program_runs(devices):
    """And both sizes are traced where that is not known, each once."""
    sizes, rows = [], jnp.ones((101, 10_240))

    def remember(shared, valid, a):
        sizes.append(a.shape[0])
        return (), a

    held = CPU_CACHE_BYTES // 10 - 4 * 10_240  # ten clients fit, with their rows
    run = jax.jit(lambda rows: over_clients(remember, (), (rows,), row_bytes=held, mesh=mesh_of(devices)))
    traced = run.trace(rows)
    assert sizes == ([10, 101] if devices == 1 else [9]), "blocks are even: 11 of 10, or 6 of 9 on each of two devices"
    if devices == 1:
        trips = {platform: traced.lower(lowering_platforms=(platform,)).as_text() for platform in ("cpu", "cuda")}
        assert {platform: "tensor<11x10x10240xf32>" in text for platform, text in trips.items()} == {
            "cpu": True, "cuda": False,
        }  # fmt: skip
    np.testing.assert_array_equal(run(rows)[1], rows)


def test_fedavg_trains_two_clients_of_a_small_network_at_once_on_a_cpu_and_a_thousand_on_a_gpu():
    model, key, n = models.mlp((28, 28, 1), 10), jax.eval_shape(lambda: jax.random.key(0)), 1_000
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=2, num_steps=1)
    images = jax.ShapeDtypeStruct((n, 60, 28, 28, 1), jnp.float32), jax.ShapeDtypeStruct((n, 60), jnp.int32)
    data, system = ClientData(images, jax.ShapeDtypeStruct((n,), jnp.int32)), fedavg(local, mesh=None)
    state = jax.eval_shape(system.init, key, jax.eval_shape(model.init, key), data)
    traced = jax.jit(system.step).trace(key, state, data)
    for platform, block in {"cpu": 2, "cuda": n}.items():
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        kernels = {int(b) for b in re.findall(r"tensor<(\d+)x784x200xf32>", text)}
        assert max(kernels) == block


def test_an_open_block_gives_the_same_system():
    key, data = jax.random.key(0), targets(6, 3)
    run = lambda system: jax.jit(system.step)(key, system.init(key, jnp.zeros(3), data), data)
    systems = [fedavg(towards_target(), block=block, mesh=None) for block in (None, 1, 4)]
    assert [system.block for system in systems] == [None, 1, 4]
    assert all(same_bits(run(systems[0]), run(system)) for system in systems[1:])
