import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.fastest_block import fastest_block
from fedjax_priv.systems import fedavg
from helpers import mesh_of, same_bits, targets, towards_target


def square_and_count(shared, valid, a, b):
    """Ghosts must add nothing; rows of two dtypes and ranks come back."""
    return (valid.sum(), jnp.where(valid, a, 0).sum()), {"square": a * a, "row": b + shared[None, None, :]}


@pytest.mark.parametrize("n", [1, 7, 12])
@pytest.mark.parametrize("devices", [1, 3, 8])
@pytest.mark.parametrize("block", [1, 5, 100])
def test_rows_are_stacked_and_summands_added_without_ghosts(n, devices, block):
    a, b = jnp.arange(1, n + 1), jnp.ones((n, 2, 3)) * jnp.arange(n, dtype=jnp.float32)[:, None, None]
    run = jax.jit(lambda a, b: over_clients(square_and_count, jnp.ones(3), (a, b), block=block, mesh=mesh_of(devices)))
    (count, total), out = run(a, b)
    assert (int(count), int(total)) == (n, n * (n + 1) // 2)
    assert out["square"].tolist() == [i * i for i in range(1, n + 1)]
    np.testing.assert_array_equal(out["row"], b + 1)


def test_no_block_is_larger_than_asked_and_blocks_are_even():
    sizes = []

    def remember(shared, valid, a):
        sizes.append(a.shape[0])
        return (), a

    for n, block, even in ((100, 30, 25), (7, 7, 7), (10, 4, 4), (9, 4, 3)):
        over_clients(remember, (), (jnp.arange(n),), block=block)
        assert sizes[-1] == even <= block


def test_bad_block():
    with pytest.raises(ValueError, match="^block must be an integer >= 1, got 0"):
        over_clients(square_and_count, (), (jnp.arange(3), jnp.ones(3)), block=0)


def test_the_fastest_block_is_measured_once(monkeypatch):
    times, asked = {4: 3.0, 8: 2.0, 16: 1.0, 20: 1.5}, []

    def seconds(algorithm, *_):
        asked.append(algorithm.block)
        return times[algorithm.block]

    monkeypatch.setattr("fedjax_priv.engine.fastest_block._seconds_of_a_round", seconds)
    monkeypatch.setattr("fedjax_priv.engine.fastest_block._fastest", {})
    key, data = jax.random.key(0), targets(20, 3)
    system = fedavg(towards_target(), block="auto", mesh=None)
    assert [fastest_block(system, key, jnp.zeros(3), data).block for _ in range(2)] == [16, 16]
    assert asked == [4, 8, 16, 20]
    times.update({4: 2.0, 8: 3.0, 2: 1.0, 1: 4.0})
    small = targets(9, 3)
    assert fastest_block(system, key, jnp.zeros(3), small).block == 2
    assert asked[4:] == [4, 8, 2, 1]


def test_a_measured_block_gives_the_same_system():
    key, data = jax.random.key(0), targets(6, 3)
    system = fedavg(towards_target(), block="auto", mesh=None)
    chosen = fastest_block(system, key, jnp.zeros(3), data)
    assert chosen.in_blocks is None
    run = lambda algorithm: jax.jit(algorithm.step)(key, algorithm.init(key, jnp.zeros(3), data), data)
    assert same_bits(run(system), run(chosen))
    with pytest.raises(ValueError, match="block='auto'"):
        fastest_block(chosen, key, jnp.zeros(3), data)
