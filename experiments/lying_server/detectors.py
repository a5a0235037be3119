"""An image that the server looks for among the target's data, through a secure sum."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from experiments.lying_server.setting import HIDDEN, LEVELS, Config, federated, network
from experiments.problem import load
from fedjax_priv import clients
from fedjax_priv.attacks import detector_coordinates, property_detector
from fedjax_priv.base import ClientData, Key, LyingServer, Models, RoundState
from fedjax_priv.systems import secagg

UNIT, RIDGE, MARGIN = 0, 1e-2, 0.1
SERVERS = ("honest", "to the target", "to all", "to all, another has it")


def detected(config: Config) -> xr.Dataset:
    """How much more often the server says that the target has an image if it does than if it does not.

    The images are test images, which nobody trains on unless they are put in the place of a training image. The server
    knows the other test images. It says yes unless the sum is exactly zero at the coordinates of its unit.
    """
    images = load(config.task).x_test
    chosen = np.random.default_rng(config.seed).choice(len(images), config.trials, replace=False)
    advantage = [
        [_advantage(config, images, chosen, bind, kind) for kind in range(len(SERVERS))] for bind in (False, True)
    ]
    return xr.Dataset(
        {"advantage": (("bound", "server"), np.array(advantage))}, {"bound": [False, True], "server": [*SERVERS]}
    )


def _advantage(config: Config, images: np.ndarray, chosen: np.ndarray, bind: bool, kind: int) -> float:
    said, holds = [], np.arange(config.trials) % 2 == 0
    train, one, target = _train(config), _program(config, bind), config.target
    for image, there in zip(chosen, holds, strict=True):
        weights, threshold = detector(images, image)
        who = [target] * bool(there) + [(target + 1) % config.num_clients] * (kind == 3)
        x = train.examples[0].at[jnp.array(who, int), 0].set(images[image])
        said.append(bool(one(min(kind, 2), jnp.asarray(weights), threshold, x)))
    return float(np.mean(np.array(said)[holds]) - np.mean(np.array(said)[~holds]))


def detector(images: np.ndarray, image: int) -> tuple[np.ndarray, float]:
    """Weights and threshold of a unit that is 1 on one image, and 0 on the others at hand.

    Fisher's direction, from the mean of the others to the image, with the threshold a tenth of the way down to them.
    """
    flat = images.reshape(len(images), -1).astype(float)
    others = np.delete(flat, image, 0)
    spread = np.cov(others.T)
    spread += RIDGE * np.trace(spread) / len(spread) * np.eye(len(spread))
    weights = np.linalg.solve(spread, flat[image] - others.mean(0))
    height = MARGIN * (weights @ flat[image] - (others @ weights).max())
    threshold = weights @ flat[image] - height
    return (weights / height).astype(np.float32), float(threshold / height)


@functools.cache
def _train(config: Config) -> ClientData:
    return federated(config.task, config.num_clients, config.seed)


@functools.cache
def _program(config: Config, bind: bool) -> Callable[..., Array]:
    """Whether the sum of a round is other than zero at the unit's coordinates, by the kind of server."""
    model, loss = network(config)
    params, key, n = model.init(jax.random.key(config.seed)), jax.random.key(config.seed), config.num_clients

    def one(kind: Array, weights: Array, threshold: Array, x: Array) -> Array:
        train = _train(config)
        train = train._replace(examples=(x, train.examples[1]))
        system = secagg(
            clients.fedsgd(loss), num_clients=n, threshold=config.threshold, levels=LEVELS, bind_model=bind,
            elide=not bind, mesh=None, lying_server=_server(config, kind, weights, threshold),
        )  # fmt: skip
        info = system.step(key, system.init(key, params, train), train)[1]
        return ((info.direction != 0) & detector_coordinates(params, HIDDEN, UNIT)).any()

    return jax.jit(one)


def _server(config: Config, kind: Array, weights: Array, threshold: Array) -> LyingServer:
    """Hands out the model to all, a detector to the target, or one to all."""
    of = functools.partial(property_detector, config.target, config.num_clients, HIDDEN, UNIT, weights, threshold)

    def models(key: Key, state: RoundState) -> Models:
        only, everybody = (hand_out(key, state) for hand_out in (of().models, of(to_all=True).models) if hand_out)
        params = jax.tree.map(lambda two, a: jnp.concatenate([two, a[None]]), only.params, state.params)
        rows = jnp.stack([jnp.full(config.num_clients, 2), only.row, everybody.row])
        return Models(params, rows[kind])

    return LyingServer(models=models)
