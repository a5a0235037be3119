"""Counterexample (i) to Theorem 1 of CDP-FL, a row of the figure: convex, smooth losses and whole batches."""

from typing import Any

import jax
import jax.numpy as jnp

from experiments.cdp_fl.audit import AT_ONCE, algorithm, samples, training
from fedjax_priv.audit import Canary, Finding, scores, server, two_worlds
from fedjax_priv.theory import cdp_fl as theory

SAMPLES = 20


def audited(config: Any) -> Finding:
    """At the sigma for which Theorem 1 states an eps."""
    case = theory.smooth_convex(config.stated, config.delta, num_samples=SAMPLES)
    rho = theory.proved_rho(case.training, lipschitz=1.0)
    proved = float(theory.proved_epsilon(rho, config.delta).epsilon)
    local = training(case.sigma, SAMPLES)
    inputs = samples(1, SAMPLES), samples(-1, SAMPLES)
    canary = Canary(inputs, lambda _: local, lambda data: data, lambda params: jnp.ones(1))
    worlds = scores(
        algorithm, canary, server(canary.toward), jax.random.key(config.seed), params=jnp.zeros(1),
        trials=config.trials, at_once=AT_ONCE,
    )  # fmt: skip
    bound = two_worlds(*worlds, delta=config.delta, confidence=config.confidence)
    above = {"claimed": config.stated, "proved": proved}
    return Finding(
        "the server, who sees the sum", "one sample of a client is replaced", "sample", config.stated, proved,
        bound.epsilon, bound.delta, bound.confidence, bound.limit, bound.why,
        [name for name, eps in above.items() if bound.epsilon > eps],
    )  # fmt: skip
