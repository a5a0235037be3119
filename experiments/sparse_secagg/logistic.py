"""Logistic regression with weight decay, digits below 5 or not: a strongly convex problem and its constants."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize
from scipy.special import expit

from fedjax_priv import data
from fedjax_priv.base import ClientData
from fedjax_priv.theory import sparse_secagg as theory


class Logistic(NamedTuple):
    """F_i(w) = mean log(1 + exp(-y x.w)) + decay / 2 |w|^2, y in {-1, 1}; equal weights."""

    x: list[np.ndarray]  # by user, [m, d], the last column is one
    y: list[np.ndarray]  # by user, [m]
    decay: float

    @property
    def num_params(self) -> int:
        """Length d of w."""
        return self.x[0].shape[1]

    @property
    def pooled(self) -> "Logistic":
        """F itself, as the loss of a single user; all users have equally many samples."""
        return Logistic([np.concatenate(self.x)], [np.concatenate(self.y)], self.decay)


class Constants(NamedTuple):
    """What the theorem needs, in float64."""

    weights: np.ndarray
    smoothness: float
    strong_convexity: float
    heterogeneity: float
    optimum: np.ndarray  # w*
    least: float  # F*

    def theorem(self, variance: float, second_moment: float) -> theory.Problem:
        """The theorem's problem, given the largest observed variance and second moment of a stochastic gradient."""
        distance = float(np.linalg.norm(self.optimum))  # w_0 = 0
        return theory.Problem(
            self.weights, self.smoothness, self.strong_convexity, variance, second_moment, self.heterogeneity, distance
        )


def users(num_clients: int, decay: float, seed: int) -> tuple[Logistic, ClientData]:
    """The problem, and its samples as a round takes them: IID, equally many for each user."""
    digits = data.digits()
    size = len(digits.y_train) // num_clients
    x = np.pad(digits.x_train.reshape(-1, 64), ((0, 0), (0, 1)), constant_values=1)
    y = np.where(digits.y_train < 5, -1, 1).astype(np.float32)
    rows = np.random.default_rng(seed).permutation(len(y))[: size * num_clients].reshape(num_clients, size)
    problem = Logistic([x[row].astype(np.float64) for row in rows], [y[row].astype(np.float64) for row in rows], decay)
    return problem, ClientData((x[rows], y[rows]), jnp.full(num_clients, size, jnp.int32))


def constants(problem: Logistic) -> Constants:
    """Hessians are at most X'X / (4 m) + decay, and at least decay."""
    n = len(problem.x)
    largest = max(float(np.linalg.eigvalsh(x.T @ x / len(x))[-1]) for x in problem.x)
    optimum, least = _minimum(problem.pooled, 0)
    own = np.mean([_minimum(problem, i)[1] for i in range(n)])
    return Constants(
        weights=np.full(n, 1 / n), smoothness=problem.decay + largest / 4, strong_convexity=problem.decay,
        heterogeneity=float(least - own), optimum=optimum, least=least,
    )  # fmt: skip


def _minimum(problem: Logistic, i: int) -> tuple[np.ndarray, float]:
    x, y, decay = problem.x[i], problem.y[i], problem.decay

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = y * (x @ w)
        slope = -(x.T @ (y * expit(-margin))) / len(y) + decay * w
        return float(np.logaddexp(0, -margin).mean() + decay / 2 * w @ w), slope

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
    return found.x, float(found.fun)


def gradient(decay: float, w: Float[Array, " d"], x: Float[Array, "b d"], y: Float[Array, " b"]) -> Float[Array, " d"]:
    """Of the mean over a batch."""
    return -(x.T @ (y * jax.nn.sigmoid(-y * (x @ w)))) / y.size + decay * w


def evaluate(data: ClientData, known: Constants, batch_size: int, w: Float[Array, " d"]) -> dict[str, Array]:
    """F(w) - F*, and the largest variance and second moment over users of a gradient of `batch_size` samples.

    The gap is the sum of what the loss changes at each sample from w* to w: no small difference of large numbers.
    """
    x, y = (jnp.asarray(rows) for rows in data.examples)
    decay, best = known.strong_convexity, jnp.asarray(known.optimum, jnp.float32)
    margin, least = y * (x @ w), y * (x @ best)
    gap = (jax.nn.softplus(-margin) - jax.nn.softplus(-least)).mean() + decay / 2 * ((w - best) @ (w + best))
    each = -(y * jax.nn.sigmoid(-margin))[..., None] * x
    mean = each.mean(1) + decay * w[None, :]
    variance = jnp.square(each - each.mean(1, keepdims=True)).sum(-1).mean(1) / batch_size
    return {
        "gap": gap,
        "variance": variance.max(),
        "second_moment": (variance + jnp.square(mean).sum(-1)).max(),
    }
