"""JAX Privacy: a step of DP-SGD with its `clipped_grad` and `gaussian_privatizer`."""

# pyright: reportMissingImports=false

from typing import Any

import jax
import jax_privacy
import numpy as np
import optax
from jax_models import mean_loss
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    gradient = jax_privacy.clipped_grad(
        mean_loss, l2_clip_norm=work.clip, normalize_by=work.batch, batch_argnums=(1, 2)
    )
    stddev = work.noise * gradient.sensitivity()
    descent = optax.chain(
        jax_privacy.noise_addition.gaussian_privatizer(stddev=stddev, prng_key=0), optax.sgd(LEARNING_RATE)
    )

    @jax.jit
    def step(params: list, state: optax.OptState, x: jax.Array, y: jax.Array) -> tuple[Any, optax.OptState]:
        updates, state = descent.update(gradient(params, x, y), state, params)
        return optax.apply_updates(params, updates), state

    weights, images, labels = jax.device_put((params, x[0], y[0]))
    state = descent.init(weights)
    for _ in range(rounds):
        weights, state = jax.block_until_ready(step(weights, state, images, labels))
        clock.done()
    return [np.asarray(p) for p in weights]


if __name__ == "__main__":
    main(train, ("jax-privacy", "jax", "jaxlib", "numpy"))
