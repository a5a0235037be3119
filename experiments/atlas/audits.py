"""Audits of the atlas: one game for each distinct release, shared by the cells that have it.

An adversary tells apart two updates of client 0, far longer than the clip and opposite, from the row of the server that
holds it: alone in the clear, or with the other clients of its sum, whose updates are 0 and known. It is a round in
which nobody is lost. Noise of each kind has a twin that adds none and is held to the same eps.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from experiments.atlas.stacks import Cell, stack_of
from experiments.atlas.training import Config, Problem, Program, options, system
from fedjax_priv.audit import Finding, Worlds, direction_canary, scores
from fedjax_priv.audit.adversaries import direction
from fedjax_priv.audit.verdicts import Tried, claims_of, finding
from fedjax_priv.audit.worlds import Canary, Seen
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers.secure_sum import bound_masks
from fedjax_priv.ledger import ledger
from fedjax_priv.ledger.budget import planned
from fedjax_priv.ledger.entry import Entry
from fedjax_priv.systems.composition import Stack
from fedjax_priv.systems.composition.parts import Numbers, layers_and_release, rule

CONFIDENCE = 0.95
_UNMASKED = {"secagg": "field"}
_LONGER = 0.9
"""Norm of the canary over sqrt(d) C: no entry of it is longer than the clip."""


class Game(NamedTuple):
    """What an audit of one release shows; of a round."""

    once: float  # eps proved
    shown: float  # eps is at least this
    contradicted: float  # 1: the audit contradicts what is proved
    twin: float = np.nan  # of the twin without noise, eps is at least this; NaN: another game has the twin
    caught: float = np.nan  # 1: the audit of the twin contradicts what is proved


class Auditor:
    """Plays each game once."""

    def __init__(self, config: Config, shared: Problem):
        self._config, self._shared = config, shared
        self._played: dict[tuple, Game] = {}
        self._twins: set[str] = set()  # kinds of noise whose twin was played

    def __call__(self, program: Program) -> Game | None:
        """The game of a program; None where no eps is proved, or no trials are asked for."""
        if program.noise == "none" or not self._config.trials:
            return None
        made = system(self._config, self._shared, program, rule=0, attack=0, dropout=0.0)
        if (entry := _entry(self._config, self._shared, made)).proved.epsilon is None:
            return None
        key = made.release, clients_in_a_row(program), program.transport == "thresholded"
        if key not in self._played:
            self._played[key] = self._play(program, entry)
        return self._played[key]

    def _play(self, program: Program, entry: Entry) -> Game:
        found = functools.partial(_found, self._config, self._shared, program, entry)
        sound, caught = found(noisy=True), lambda one: float("proved" in one.contradicts)
        assert sound.proved is not None
        game = Game(sound.proved, sound.at_least, caught(sound))
        if program.noise in self._twins:
            return game
        self._twins.add(program.noise)
        twin = found(noisy=False)
        return game._replace(twin=twin.at_least, caught=caught(twin))


def clients_in_a_row(program: Program) -> int:
    """Clients whose uploads are added up where the server sees them."""
    return stack_of(Cell(program.transport, "mean", program.noise, program.compression, 0.0)).clients_in_a_row


def _entry(config: Config, shared: Problem, made: Algorithm) -> Entry:
    """The server's, of one round in which nobody is lost."""
    plan = planned(made, jax.random.key(config.seed), jnp.zeros(shared.size), shared.clients, 1)
    return next(one for one in ledger(made, plan, shared.clients, delta=config.delta) if one.view == "server")


def _found(config: Config, shared: Problem, program: Program, entry: Entry, *, noisy: bool) -> Finding:
    """What is shown of the row of client 0, of the system or of its twin.

    All noise is Gaussian, or so fine a Skellam noise that no test of so few trials tells it from Gaussian.
    """
    entry = entry._replace(gaussian=True)
    worlds = _worlds(config, shared, program, noisy)
    how: Any = {"delta": config.delta, "confidence": CONFIDENCE, "who": entry.adversary}
    return finding(entry, claims_of(entry, [], None), [Tried("direction", worlds)], **how)


def _worlds(config: Config, shared: Problem, program: Program, noisy: bool) -> Worlds:
    size, d = clients_in_a_row(program), shared.size
    key = jax.random.key(config.seed)
    canary = direction_canary(key, size, d, _LONGER * d**0.5 * config.clip, alone=True)
    make = functools.partial(_alone, config, shared, program, size, noisy)
    score = functools.partial(_along, canary, program.transport == "thresholded")
    return scores(
        make, canary, score, jax.random.fold_in(key, noisy), params=jnp.zeros(d), trials=config.trials, at_once=1
    )


def _alone(
    config: Config, shared: Problem, program: Program, size: int, noisy: bool, local: Local, observe: Any
) -> Algorithm:
    """The system of one row: its clients, all honest, and the mean. Pairwise masks, which cancel, are left out."""
    given: dict[str, Any] = {**options(config, program if noisy else program._replace(noise="none"))}
    masks = {"elide": True} if given["secure"] == "thresholded" else {}
    numbers = Numbers(shared.size, config.ratio, None, config.levels, False, masks, {})
    given = {name: value for name, value in given.items() if name not in ("ratio", "levels", "elide")}
    given.update(clip=config.clip, buffer_size=size, secure=_UNMASKED.get(given["secure"], given["secure"]))
    row = Stack(size, **given)
    return federated_round(
        cohort=everyone(), local=local, layers=layers_and_release(row, numbers)[0], channel=erasure(0.0),
        aggregate=rule(row, numbers), num_clients=size, mesh=None, block=size, observe=observe,
    )  # fmt: skip


def _along(canary: Canary, chosen: bool, seen: Seen) -> Array:
    """How far the sum goes along the canary: at the coordinates that client 0 sent, where clients choose them."""
    u = canary.toward(seen.before)
    if chosen:
        u = jnp.where(bound_masks.sent(seen.info.observed.clear["mask"][:1], u.size)[0], u, 0)
    return u @ direction(seen)
