"""Private training: the eps proved, the least eps that an audit shows, and broken twins that it has to catch."""

from typing import NamedTuple

import jax

from experiments.audit import normaliser
from experiments.audit.all_systems import WHO, dataset, figure, judged, of_row
from experiments.audit.cases import CLIENTS, Case, subject
from experiments.audit.private_cases import ROUNDS, Twin, sound, twins
from experiments.claims import Claim, Source
from experiments.harness import Outcome
from fedjax_priv.audit import Finding, findings, upload_finding, verdict
from fedjax_priv.ledger import Entry, ledger
from fedjax_priv.ledger.budget import planned
from fedjax_priv.systems.releases import CentralNoise


class Config(NamedTuple):
    """One scale."""

    systems: tuple[str, ...] = tuple(sound())
    twins: tuple[str, ...] = (*twins(), normaliser.NAME)
    trials: int = 1200
    many_rounds: int = 400  # trials where a run has so many rounds as noise that is correlated takes
    masked_trials: int = 50
    delta: float = 1e-4
    confidence: float = 0.99
    seed: int = 0


def run(config: Config) -> Outcome:
    rows, broken = {}, {}
    for name, case in sound().items():
        if name in config.systems:
            rows |= {f"{name}: {who}": one for who, one in audited(config, case).items()}
    for name, twin in twins().items():
        if name in config.twins:
            ((who, one),) = audited(config, sound()[twin.of], twin).items()
            broken[f"{twin.of}, {name}: {who}"] = one
    if normaliser.NAME in config.twins:
        who = f"{WHO['outsider']}, add/remove"
        rows[f"DP-FedAvg, everyone: {who}"] = normaliser.found(config, broken=False)
        broken[f"DP-FedAvg, everyone, {normaliser.NAME}: {who}"] = normaliser.found(config, broken=True)
    result = dataset(rows | broken)
    said = [
        f"{CLIENTS} clients, delta = {config.delta:g}, {config.trials:,} runs with each of two adjacent inputs, "
        f"{config.many_rounds:,} of {ROUNDS} rounds where noise is correlated, {config.confidence:.0%} confidence each",
        "a broken twin is held to the eps proved of the sound system; masks were elided but in the runs on an upload "
        f"alone, {config.masked_trials} of two rounds",
    ]
    stand = [claim for name, one in rows.items() for claim in of_row(name, one)]
    return Outcome(figure(result), result, [*stand, *map(caught, broken, broken.values())], said)


def audited(config: Config, case: Case, twin: Twin | None = None) -> dict[str, Finding]:
    """Findings by the adversary's name; of a twin, about the one entry of the sound system's ledger that it breaks."""
    own, key = subject(case, config.seed), jax.random.key(config.seed)
    system = (own.unmasked or own.make)(own.local, None)
    plan = planned(system, key, own.params, own.data, case.rounds)

    def at(delta: float) -> list[Entry]:
        every = ledger(system, plan, own.data, delta=delta)
        if twin is None:
            return [one for one in every if one.proved.epsilon is not None]
        return [one for one in every if (one.view, one.neighbours) == (twin.view, twin.neighbours)]

    if twin is not None:
        own = own._replace(make=twin.make, unmasked=None)
    entries = at(config.delta)
    found = findings(
        own, entries, key, trials=config.many_rounds if case.rounds == ROUNDS else config.trials, rounds=case.rounds,
        delta=config.delta, confidence=config.confidence, kind=case.kind, at=at,
    )  # fmt: skip
    central = isinstance(own.release, CentralNoise)
    who = [WHO[one.view] + (f", {one.neighbours}" if central else "") for one in entries]
    named = dict(zip(who, found, strict=True))
    if own.unmasked is not None:
        upload = upload_finding(own, key, trials=config.masked_trials, confidence=config.confidence)
        named[WHO[upload.view]] = upload
    return named


def caught(name: str, one: Finding) -> Claim:
    """That an audit of a broken twin contradicts what is proved of the sound system."""
    claim = Claim(
        f"{name}: caught", f"{name}: the audit contradicts the eps that is proved of the sound system",
        f"{one.proved:.3g}", f"at least {one.at_least:.3g}", "proved" in one.contradicts,
        "a test of the figure, at its delta or at others, contradicts it",
        f"{one.counted}; shown by: {one.look}; at most {one.limit:.3g} could have been shown; {verdict(one)}",
        Source.OURS,
    )  # fmt: skip
    return judged("proved", claim, one)
