"""Privacy noise, wherever it is drawn: on every coordinate, of every client, and anew in every round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.crypto import field
from fedjax_priv.layers import align, gaussian_noise, skellam_noise
from helpers import cohort_of

N, D, M, ROUNDS, VARIANCE = 200, 5, 4, 4, 9.0
WHO, STEPS = cohort_of(N), 2


def from_layer(layer, zero=0.0):
    encode = jax.jit(lambda key: layer.encode(key, (), {}, jnp.full((N, D), zero), WHO)[0])
    return lambda key: encode(key)


def skellam():
    noise = from_layer(skellam_noise(VARIANCE, max_norm=1.0, max_terms=N), jnp.uint32(0))
    return lambda key: field.to_signed(noise(key))


def local_steps(**how):
    """Updates of steps with gradient 0, at learning rate 1, over the number of steps."""
    local = local_sgd(
        lambda params, examples: 0 * examples @ params, learning_rate=1.0, batch_size=M // STEPS, sample_clip=1.0,
        gradient_noise=np.sqrt(VARIANCE / STEPS), **how,
    )  # fmt: skip
    params, data = jnp.zeros(D), ClientData(jnp.ones((N, M, D)), jnp.full(N, M))
    return jax.jit(lambda key: local.apply(key, local.init(N, params), params, data, WHO)[0])


NOISES = {
    "gaussian": lambda: from_layer(gaussian_noise(VARIANCE)),
    "aligned": lambda: from_layer(align(VARIANCE, max_norm=1.0)),
    "skellam": skellam,
    "steps": lambda: local_steps(num_steps=STEPS),
    "epochs": lambda: local_steps(num_epochs=1),
    "momentum": lambda: local_steps(num_epochs=1, momentum=jnp.float32(0)),
}


@pytest.mark.parametrize("make", NOISES.values(), ids=NOISES.keys())
def test_noise_is_on_every_coordinate_of_every_client_in_every_round(make):
    """Mean squares within 6 standard errors; no two coordinates, rounds or neighbours are alike."""
    draw = make()
    drawn = np.stack([np.asarray(draw(jax.random.fold_in(jax.random.key(1), r)), float) for r in range(ROUNDS)])
    unit = drawn / np.sqrt(VARIANCE)  # [round, client, coordinate]
    error = lambda count: 6 * np.sqrt((2 + 1 / VARIANCE) / count)  # of a mean of `count` squares; Skellam has more
    assert np.abs((unit**2).mean((0, 1)) - 1).max() < error(ROUNDS * N)
    assert np.abs((unit**2).mean((1, 2)) - 1).max() < error(N * D)
    assert (unit != 0).any((0, 2)).all()
    assert np.abs(unit.mean((0, 1))).max() < 6 / np.sqrt(ROUNDS * N)
    for first, second in ((unit[:-1], unit[1:]), (unit[:, :-1], unit[:, 1:]), (unit[..., :-1], unit[..., 1:])):
        assert abs((first * second).mean()) < 6 / np.sqrt(first.size)
    np.testing.assert_array_equal(drawn[1], np.asarray(draw(jax.random.fold_in(jax.random.key(1), 1)), float))
