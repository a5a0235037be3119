"""A broken twin of DP-FedAvg that divides by the number of clients that came: whoever is absent moves it by twice C/N.

A canary that is absent is no update of 0, so this pair has its own rounds: client 0 sends minus what all others send,
or is not there.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from experiments.audit.cases import CLIENTS, USUAL
from fedjax_priv.audit import Canary, Finding, scores, server
from fedjax_priv.audit.canaries import sending
from fedjax_priv.audit.ledger_entries import DELTAS
from fedjax_priv.audit.verdicts import Tried, claims_of, finding
from fedjax_priv.base import Aggregator, Algorithm, ClientData, Cohort, Draw, Kept, Key, Local, Received
from fedjax_priv.channels import erasure
from fedjax_priv.clients import bounded, everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack
from fedjax_priv.ledger import Entry, Figure
from fedjax_priv.ledger.central_noise import ADJACENT, EXACT, OUTSIDER
from fedjax_priv.ledger.entry import none
from fedjax_priv.server_noise import independent, noisy_sum
from fedjax_priv.theory import gaussian

NAME, SIZE, NOISE = "divided by who came", 8, 2.0
"""Parameters of the model, and the noise multiplier."""


def found(config: Any, *, broken: bool) -> Finding:
    """Of the twin, or of the sound system."""
    canary = _absent_or_not(jnp.ones(SIZE) / SIZE**0.5)
    make = lambda local, observe: _system(local, observe, broken=broken)
    worlds = scores(
        make, canary, server(canary.toward), jax.random.key(config.seed), params=jnp.zeros(SIZE), trials=config.trials,
    )  # fmt: skip
    claim = none("no figure of the paper is for this run")
    figures = [Figure(float(gaussian.epsilon(delta, 1 / NOISE)), delta, EXACT) for delta in (config.delta, *DELTAS)]
    entries = [
        Entry(OUTSIDER, ADJACENT["add/remove"], claim, one, view="outsider", gaussian=True, neighbours="add/remove")
        for one in figures
    ]
    return finding(
        entries[0], claims_of(entries[0], entries[1:], None), [Tried("absent", worlds)], delta=config.delta,
        confidence=config.confidence, who=entries[0].adversary,
    )  # fmt: skip


def _system(local: Local, observe: Any, *, broken: bool) -> Algorithm:
    """DP-FedAvg of clients that have samples."""
    aggregate = noisy_sum(independent(), NOISE, 1 / CLIENTS)
    return federated_round(
        cohort=_with_samples(), local=bounded(local, clip=1.0), layers=stack(send=plain()), channel=erasure(0.0),
        aggregate=_of_those_that_came(aggregate) if broken else aggregate, num_clients=CLIENTS, observe=observe,
        **USUAL,
    )  # fmt: skip


def _of_those_that_came(sound: Aggregator) -> Aggregator:
    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, Kept]:
        direction, kept = sound.apply(key, state, received)
        return direction * CLIENTS / jnp.maximum(received.count.sum(), 1).astype(jnp.float32), kept

    return sound._replace(apply=apply)


def _with_samples() -> Draw:
    """Everyone who is in the population: a client without samples is not."""
    every = everyone()

    def apply(key: Key, state: PyTree, round: Array, count: Any) -> tuple[Cohort, PyTree]:
        who, state = every.apply(key, state, round, count)
        return who._replace(selected=jnp.asarray(count) > 0), state

    return Draw(every.init, apply)


def _absent_or_not(u: Array) -> Canary:
    updates = jnp.broadcast_to(-u, (CLIENTS, SIZE)).at[0].set(u)
    inputs = tuple(jnp.ones(CLIENTS, jnp.int32).at[0].set(there) for there in (1, 0))
    data = lambda count: ClientData((jnp.zeros((CLIENTS, 1)),), count)
    return Canary((inputs[0], inputs[1]), lambda _: sending(updates), data, lambda params: u)
