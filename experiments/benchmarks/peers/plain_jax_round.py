"""Plain JAX. `--form vmap`: a round in one jit, all clients at once; `map`: in one jit, one client after the other;
`loop`: Python loops over clients and batches, around a jitted step."""

import argparse
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax_models import mean_loss
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main

Round = Callable[[list, jax.Array, jax.Array], list]


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    x, y = (a.reshape(work.clients, -1, work.batch, *a.shape[2:]) for a in (x, y))
    state, images, labels = jax.device_put((params, x, y))
    fedavg_round = FORMS[_form()](work)
    for _ in range(rounds):
        state = jax.block_until_ready(fedavg_round(state, images, labels))
        clock.done()
    return [np.asarray(p) for p in state]


def _step(params: list, batch: tuple) -> list:
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, jax.grad(mean_loss)(params, *batch))


def _client(work: Work, params: list, batches: tuple) -> list:
    for _ in range(work.epochs):
        params, _ = jax.lax.scan(lambda params, batch: (_step(params, batch), None), params, batches)
    return params


def _vmap(work: Work) -> Round:
    def fedavg_round(params: list, x: jax.Array, y: jax.Array) -> list:
        local = jax.vmap(lambda *batches: _client(work, params, batches))(x, y)
        return jax.tree.map(lambda p: p.mean(0), local)

    return jax.jit(fedavg_round)


def _map(work: Work) -> Round:
    def fedavg_round(params: list, x: jax.Array, y: jax.Array) -> list:
        def add(total: list, batches: tuple) -> tuple[list, None]:
            return jax.tree.map(jnp.add, total, _client(work, params, batches)), None

        total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (x, y))
        return jax.tree.map(lambda t: t / work.clients, total)

    return jax.jit(fedavg_round)


def _loop(work: Work) -> Round:
    step = jax.jit(lambda params, x, y, client, number: _step(params, (x[client, number], y[client, number])))
    add = jax.jit(lambda total, params: jax.tree.map(jnp.add, total, params))

    def fedavg_round(params: list, x: jax.Array, y: jax.Array) -> list:
        total = jax.tree.map(jnp.zeros_like, params)
        for client in range(work.clients):
            local = params
            for number in range(work.epochs * x.shape[1]):
                local = step(local, x, y, client, number % x.shape[1])
            total = add(total, local)
        return jax.tree.map(lambda t: t / work.clients, total)

    return fedavg_round


FORMS = {"vmap": _vmap, "map": _map, "loop": _loop}


def _form() -> str:
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", choices=FORMS, default="vmap")
    return parser.parse_known_args()[0].form


if __name__ == "__main__":
    main(train, ("jax", "jaxlib", "numpy"))
