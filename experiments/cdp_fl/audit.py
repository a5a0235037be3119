"""An audit of counterexample (i): rounds of the system, with both data sets, against what is stated and proved."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fedjax_priv.base import Algorithm, ClientData, Local, View
from fedjax_priv.clients import everyone, local_sgd
from fedjax_priv.systems import cdp_fl
from fedjax_priv.theory import cdp_fl as theory

SELECTED, STEPS, RATE = 10, 10, 0.5
"""r, tau and eta; G = 1."""
AT_ONCE = 500


class Audit(NamedTuple):
    """P[E] - e^eps P'[E] of the event E that counterexample (i) says is the worst, and what follows."""

    measured: float
    low: float  # of a confidence interval
    high: float
    exact: float
    theorem_1: float  # eps of Theorem 1 at delta = low
    table: float  # eps of the table at delta = low
    row: int


def audit(epsilon: float, delta: float, runs: int, num_samples: int, confidence: float, seed: int) -> Audit:
    """At the sigma for which Theorem 1 states eps; the law of the sum is the same for any number of samples m = gamma.

    A bound on delta from below contradicts a claim whose eps at that delta is smaller.
    """
    from scipy.stats import binomtest  # slow to import

    case = theory.smooth_convex(epsilon, delta, local_steps=STEPS, num_selected=SELECTED, num_samples=num_samples)
    keys = jax.random.split(jax.random.key(seed), (2, runs))
    drawn = sampler(case.sigma, num_samples)
    signs = (-1, 1)  # of the changed gradient; steps go the other way
    hits = [
        int((drawn(key, samples(sign, num_samples)) > case.threshold).sum())
        for key, sign in zip(keys, signs, strict=True)
    ]
    each = [binomtest(count, runs) for count in hits]
    here, there = (one.proportion_ci((1 + confidence) / 2) for one in each)
    difference = lambda p, q: float(p - np.exp(epsilon) * q)
    low = difference(here.low, there.high)
    seen = max(low, np.finfo(float).tiny)
    proved = theory.proved_epsilon(theory.proved_rho(case.training, lipschitz=1.0), seen)
    return Audit(
        difference(*(one.statistic for one in each)), low, difference(here.high, there.low), case.delta,
        float(theory.epsilon(case.training, seen)), float(proved.epsilon), int(proved.row),
    )  # fmt: skip


def sampler(sigma: float, num_samples: int) -> Callable[[Array, ClientData], Array]:
    """The sum of the uploads over eta sigma, of one round for each key."""
    system = algorithm(training(sigma, num_samples))

    def one(key: Array, data: ClientData) -> Array:
        state, _ = system.step(key, system.init(key, jnp.zeros(1), data), data)
        return SELECTED * state.params[0] / (RATE * sigma)

    return jax.jit(lambda keys, data: jax.lax.map(lambda key: one(key, data), keys, batch_size=AT_ONCE))


def training(sigma: float, num_samples: int) -> Local:
    return local_sgd(
        loss, learning_rate=RATE, batch_size=num_samples, num_steps=STEPS, sample_clip=1.0, gradient_noise=sigma
    )


def algorithm(local: Local, observe: Callable[[View], PyTree] | None = None) -> Algorithm:
    return cdp_fl(
        local, num_clients=SELECTED, cohort_size=SELECTED, cohort=everyone(), elide=True, block=SELECTED, mesh=None,
        observe=observe,
    )  # fmt: skip


def loss(theta: Array, examples: tuple[Array, Array]) -> Array:
    """`slope theta + pull theta^2 / (2 eta)`: convex, smooth, and a step of pull 1 goes back to 0."""
    slope, pull = examples
    return slope * theta[0] + pull * jnp.square(theta[0]) / (2 * RATE)


def samples(sign: int, num_samples: int) -> ClientData:
    """Device 0 has the changed sample, and others of gradient 0; all samples elsewhere pull."""
    slope, pull = np.zeros((2, SELECTED, num_samples), np.float32)
    slope[0, 0], pull[1:] = sign, 1
    return ClientData((slope, pull), jnp.full(SELECTED, num_samples, jnp.int32))
