"""Plain JAX: a step of DP-SGD in one jit, `vmap` over samples."""

import jax
import jax.numpy as jnp
import numpy as np
from jax_models import mean_loss
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    def clipped(params: list, x: jax.Array, y: jax.Array) -> list:
        grads = jax.grad(mean_loss)(params, x[None], y[None])
        norm = jnp.sqrt(sum((g**2).sum() for g in grads))
        return [g / jnp.maximum(1.0, norm / work.clip) for g in grads]

    @jax.jit
    def step(key: jax.Array, params: list, x: jax.Array, y: jax.Array) -> tuple[jax.Array, list]:
        key, *keys = jax.random.split(key, 1 + len(params))
        grads = jax.vmap(clipped, in_axes=(None, 0, 0))(params, x, y)
        sums = [
            g.sum(0) + work.noise * work.clip * jax.random.normal(k, p.shape)
            for g, k, p in zip(grads, keys, params, strict=True)
        ]
        return key, [p - LEARNING_RATE * s / work.batch for p, s in zip(params, sums, strict=True)]

    key, weights, images, labels = jax.device_put((jax.random.key(0), params, x[0], y[0]))
    for _ in range(rounds):
        key, weights = jax.block_until_ready(step(key, weights, images, labels))
        clock.done()
    return [np.asarray(p) for p in weights]


if __name__ == "__main__":
    main(train, ("jax", "jaxlib", "numpy"))
