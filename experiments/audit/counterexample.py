"""Counterexample (i) to Theorem 1 of CDP-FL, a row of the figure: convex, smooth losses and whole batches."""

from typing import Any

import jax
import jax.numpy as jnp

from experiments.cdp_fl.audit import AT_ONCE, algorithm, samples, training
from fedjax_priv.audit import Canary, Finding, scores, server
from fedjax_priv.audit.ledger_entries import DELTAS
from fedjax_priv.audit.verdicts import Tried, claims_of, finding
from fedjax_priv.ledger import Entry, Figure
from fedjax_priv.ledger.local_noise import ADJACENT
from fedjax_priv.theory import cdp_fl as theory

SAMPLES = 20


def audited(config: Any) -> Finding:
    """At the sigma for which Theorem 1 states an eps."""
    case = theory.smooth_convex(config.stated, config.delta, num_samples=SAMPLES)
    local = training(case.sigma, SAMPLES)
    inputs = samples(1, SAMPLES), samples(-1, SAMPLES)
    canary = Canary(inputs, lambda _: local, lambda data: data, lambda params: jnp.ones(1))
    worlds = scores(
        algorithm, canary, server(canary.toward), jax.random.key(config.seed), params=jnp.zeros(1),
        trials=config.trials, at_once=AT_ONCE,
    )  # fmt: skip
    entries = [_entry(case, delta) for delta in (config.delta, *DELTAS)]
    return finding(
        entries[0], claims_of(entries[0], entries[1:], None), [Tried("sample", worlds)], delta=config.delta,
        confidence=config.confidence, who=entries[0].adversary,
    )  # fmt: skip


def _entry(case: Any, delta: float) -> Entry:
    """Of its ledger: the sum is a Gaussian mechanism."""
    stated = theory.epsilon(case.training, delta)
    proved = theory.proved_epsilon(theory.proved_rho(case.training, lipschitz=1.0), delta).epsilon
    figures = Figure(float(stated), delta, "Theorem 1"), Figure(float(proved), delta, "proved")
    return Entry("the server, who sees the sum", ADJACENT, *figures, gaussian=True)
