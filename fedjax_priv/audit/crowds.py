"""Many canaries in one run, each set to one of two values by its own coin (Steinke, Nasr and Jagielski 2023)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.audit.canaries import no_samples, sending, unit
from fedjax_priv.audit.sample_canaries import sample_gradient
from fedjax_priv.audit.worlds import Make, Score, watched
from fedjax_priv.base import ClientData, Key, Local
from fedjax_priv.losses import Loss


class Crowd(NamedTuple):
    """An input with m canaries; see `Canary`.

    `one_run` bounds eps of two inputs that differ in one coin.
    """

    given: PyTree
    local: Callable[[PyTree], Local]
    data: Callable[[PyTree], ClientData]
    toward: Callable[[PyTree], Float[Array, "m d"]]  # parameters -> unit vectors: where each canary pulls if it is in
    included: np.ndarray  # bool [m], the coins


def client_crowd(key: Key, num_clients: int, num_params: int, norm: float, *, opposite: bool = True) -> Crowd:
    """Every client is a canary: plus or minus `norm` times its own random direction (Andrew et al. 2023).

    `one_run` bounds eps of replacing a client's data or, if not `opposite`, of adding or removing a client.

    Args:
      key: of directions and coins.
      num_clients: n.
      num_params: d.
      norm: above 0.
      opposite: True: a client that is out sends minus its canary. False: it sends 0. Test figures about a client that
        takes part or not with False only: with True even a true one would be contradicted.

    Raises:
      ValueError: a size below 1, or a norm that is not above 0.

    Examples:
      >>> crowd = client_crowd(jax.random.key(0), num_clients=100, num_params=1000, norm=1.0)
    """
    _validate.integer(num_clients=num_clients, num_params=num_params)
    _validate.positive(norm=norm)
    _validate.one_of((True, False), opposite=opposite)
    directions, coins = jax.random.split(key)
    u = jax.vmap(unit)(jax.random.normal(directions, (num_clients, num_params)))
    included = jax.random.bernoulli(coins, shape=(num_clients,))
    updates = jnp.where(included[:, None], norm, -norm if opposite else 0.0) * u
    return Crowd(updates, sending, lambda updates: no_samples(num_clients), lambda params: u, np.asarray(included))


def label_crowd(key: Key, local: Local, loss: Loss, data: ClientData, others: Int[Array, "n m"]) -> Crowd:
    """Every sample is a canary: it has another label, or its own. Clients train on the samples.

    `one_run` bounds eps of replacing the label of a sample.

    Args:
      key: of the coins.
      local: training, such as `clients.local_sgd(...)`.
      loss: the loss that `local` descends.
      data: of all clients, `(x [n, m, ...], y [n, m])`; every client has m samples.
      others: the other labels; each must differ from its sample's label.

    Raises:
      ValueError: clients of unequal size, or an entry of `others` that equals its sample's label.
    """
    x, y = (jnp.asarray(rows) for rows in data.examples)
    if not (np.asarray(data.count) == y.shape[1]).all():
        raise ValueError(f"data must have {y.shape[1]} samples of every client, got {sorted(set(data.count.tolist()))}")
    if same := int((np.asarray(others) == np.asarray(y)).sum()):
        raise ValueError(f"others must differ from the labels of data, got {same} of {y.size} that do not")
    included = jax.random.bernoulli(key, shape=y.shape)
    labels = jnp.asarray(others, y.dtype)
    given = data._replace(examples=(x, jnp.where(included, labels, y)))
    gradient = sample_gradient(loss, local)
    gap = lambda params, x, y, other: unit(gradient(params, (x, other)) - gradient(params, (x, y)))
    flat = x.reshape(-1, *x.shape[2:]), y.ravel(), labels.ravel()
    toward = lambda params: jax.vmap(gap, (None, 0, 0, 0))(params, *flat)
    return Crowd(given, lambda _: local, lambda data: data, toward, np.asarray(included).ravel())


def crowd_scores(make: Make, crowd: Crowd, score: Score, key: Key, *, params: PyTree, rounds: int = 1) -> np.ndarray:
    """Scores `[m]` of one run with a crowd, for `one_run`.

    Args:
      make: makes the system from a local training.
      crowd: the input, with m canaries.
      score: scores what an adversary sees of a round, one score for each canary.
      key: root key of the run.
      params: of the first model.
      rounds: of the run, whose scores are added.

    Raises:
      ValueError: `rounds` is not an integer >= 1.
    """
    _validate.integer(rounds=rounds)
    run = jax.jit(watched(make, crowd.local, crowd.data, score, params, rounds))
    return np.asarray(run(key, crowd.given))
