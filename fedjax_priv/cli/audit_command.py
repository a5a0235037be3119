"""The command `audit`."""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich import box
from rich.table import Table

from fedjax_priv import _validate
from fedjax_priv.audit import Finding, Subject, findings, gains_of_run, of_first_client, upload_finding, verdict
from fedjax_priv.audit.bounds.guessing import check_trials
from fedjax_priv.base import ClientData, Release
from fedjax_priv.cli.byzantine import ATTACK_OPTIONS
from fedjax_priv.cli.commands import Outcome
from fedjax_priv.cli.experiment import experiment, options_by_part
from fedjax_priv.cli.options import Options, options_of, pick
from fedjax_priv.cli.terminal import Terminal
from fedjax_priv.keys import named
from fedjax_priv.ledger import Entry, ledger
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems.releases import CentralNoise, DistributedNoise

SMALL = {"num_clients": 10, "model": "softmax"}
"""Defaults that differ from those of `run`: an audit simulates thousands of rounds."""
_MASKED_TRIALS = 200
"""Trials with true masks, at most: each word of an upload tells masks from none."""
_CLEAR = (False, "none", "field")
"""Values of an option `secure` without masks."""


class AuditOptions(NamedTuple):
    """How a system is audited.

    Args:
      trials: runs with each of two adjacent inputs, for every such pair; more runs can show a larger eps.
      rounds: rounds in each of these runs.
      samples: samples that each client keeps; theorems need a multiple of the batch size.
      delta: delta at which every eps is stated, in (0, 1).
      confidence: confidence level of each lower bound, in (0, 1).
      epsilon: an eps of yours to test, in addition to those in the system's ledger; none if not given.
      adversary: whose view is audited. "all" is everyone in the ledger; "outsider" sees only the released models.
      colluding: clients that tell the server all they know, for the adversary "coalition"; refused where there is none.
      canary: how the two inputs differ: in an update of random direction, in a sample or in its label. If not given,
        several ways are tried: "label" for a system whose noise is in local training, "direction" for any other, and
        crafted updates or gradients.
      lipschitz: a known Lipschitz constant, >= 0, of a clipped local step; some proofs need it, and it is refused where
        none does.
      seed: seed of the initial model and of every draw.
      json: new file for the printed table, as JSON.
    """

    trials: int = 1000
    rounds: int = 1
    samples: int = 20
    delta: float = 1e-4
    confidence: float = 0.95
    epsilon: float | None = None
    adversary: Literal["all", "server", "outsider", "proposal", "device", "coalition", "everybody"] = "all"
    colluding: int = 0
    canary: Literal["direction", "sample", "label"] | None = None
    lipschitz: float | None = None
    seed: int = 0
    json: pathlib.Path | None = None


def parts_of(system: str) -> dict[str, Options]:
    """Options of an audit of a system, by part."""
    smaller = lambda name, option: option._replace(default=SMALL[name]) if name in SMALL else option
    whole = {"audit": options_of(AuditOptions), **options_by_part(system)}
    return {part: {name: smaller(name, option) for name, option in options.items()} for part, options in whole.items()}


def audit(system: str, values: Mapping[str, Any]) -> Outcome:
    """Audit a system and print what came out.

    Args:
      system: a name of `systems.__all__`.
      values: of the options of `parts_of(system)`.

    Raises:
      ValueError: a value is out of its range, or does not go with others.
    """
    options = _options(values)
    chosen, key = experiment(system, values), jax.random.key(options.seed)
    data, algorithm = _few(chosen.data, options.samples), chosen.make(parts={"mesh": None})
    params = chosen.model.init(named(key, "params"))
    _check_one_law(values, options, algorithm.release)
    run = simulate(algorithm, key, params, data, rounds=options.rounds, every=options.rounds, progress=False)
    if run.attrs["interrupted"]:
        raise KeyboardInterrupt
    gains = gains_of_run(algorithm.release, run)
    if not run.counted.any():
        raise ValueError(f"seed must be of a run in which an upload is counted, whose eps is tried, got {options.seed}")
    if gains and not ((run.join_probability > 0) & (run.client_id == 0)).any():
        raise ValueError(
            f"seed must be of a run in which client 0, whose eps is tried, can send at its gains, got {options.seed}"
        )
    about = {"delta": options.delta, "colluding": options.colluding}
    states = functools.partial(ledger, algorithm, run, data, colluding=options.colluding)
    of_canary = of_first_client if gains else list
    given = lambda delta, lipschitz: _seen_by(options.adversary, of_canary(states(delta=delta, lipschitz=lipschitz)))
    at = functools.partial(given, lipschitz=options.lipschitz)
    entries = at(options.delta)
    _check_used(options, entries, functools.partial(given, options.delta))
    same = {"mesh": None, **gains}
    make = lambda local, observe, **more: chosen.make(parts={"local": local, "observe": observe, **same, **more})
    masked = values.get("elide") is False and not values.get("in_the_clear") and values.get("secure") not in _CLEAR
    subject = Subject(
        make, chosen.local, chosen.loss, params, data, algorithm.release, chosen.training,
        functools.partial(make, elide=True, **_unbound(values)) if masked else None,
    )  # fmt: skip
    found = findings(
        subject, entries, named(key, "audit"), trials=options.trials, rounds=options.rounds,
        confidence=options.confidence, kind=options.canary, held=options.epsilon,
        outsider=options.adversary == "outsider", at=at, **about,
    )  # fmt: skip
    if masked and options.adversary == "all":
        trials = min(options.trials, _MASKED_TRIALS)
        found.append(upload_finding(subject, named(key, "uploads"), trials=trials, confidence=options.confidence))
    show(f"audit of {system}, {options.trials} trials of {options.rounds} rounds with each input", found)
    if gains:
        said = "over the air: trials have the gains of one run, and figures are of client 0 at these gains."
        Terminal().print(said, soft_wrap=True)
    return Outcome(found, interrupted=False, failed=any(one.contradicts for one in found))


def show(title: str, found: Sequence[Finding]) -> None:
    """Print it as a table."""
    table = Table(title=title, box=box.SIMPLE, show_lines=True)
    for heading in ("adversary", "adjacent inputs", "shown by", "claimed", "proved", "at least", "verdict"):
        table.add_column(heading, overflow="fold")
    for one in found:
        claimed, proved = ("none" if eps is None else f"{eps:.4g}" for eps in (one.claimed, one.proved))
        least = f"{one.at_least:.4g} of {one.limit:.4g}" + (" (Gaussian)" if one.gaussian else "")
        table.add_row(one.adversary, one.adjacent, one.look, claimed, proved, least, verdict(one))
    console = Terminal(width=max(Terminal().width, 150))
    console.print(table)
    for why in dict.fromkeys(one.unproved for one in found if one.unproved):
        console.print(f"nothing proved: {why}.", soft_wrap=True)
    if any(one.view == "upload" for one in found):
        console.print(
            "masks: left out of the runs of all rows but the one on each upload alone, which checks that they change "
            "no aggregate."
        )
    console.print(
        f"at least: a lower bound on eps at delta {found[0].delta:g} and {found[0].confidence:.0%} confidence, of the "
        "largest that so many trials could have shown. Gaussian: if it is a Gaussian mechanism, as its ledger says."
    )


def _options(values: Mapping[str, Any]) -> AuditOptions:
    options = AuditOptions(**pick(options_of(AuditOptions), values))
    _validate.seed(seed=options.seed)
    check_trials(options.trials)
    _validate.integer(rounds=options.rounds, samples=options.samples)
    _validate.fraction(below_one=True, above_zero=True, delta=options.delta, confidence=options.confidence)
    for name in ("epsilon", "lipschitz"):
        if (value := getattr(options, name)) is not None:
            _validate.non_negative(**{name: value})
    if options.adversary == "coalition":
        _validate.integer(colluding=options.colluding)
    return options


def _check_one_law(values: Mapping[str, Any], options: AuditOptions, release: Release) -> None:
    """Refuse what makes the trials differ from the run that the ledger is about."""
    if values.get("cohort_size") is not None and options.rounds > 1:
        raise ValueError(f"rounds must be 1 with cohort_size, got {options.rounds}")
    if values.get("sampling_rate") is not None and options.rounds > 1:
        raise ValueError(f"rounds must be 1 with sampling_rate, got {options.rounds}")
    if "max_staleness" in values and options.rounds > 1:
        raise ValueError(f"rounds must be 1 where rounds are asynchronous, got {options.rounds}")
    if values.get("num_byzantine"):
        raise ValueError(f"num_byzantine must be 0, since client 0 has the canary, got {values['num_byzantine']}")
    if attack := next(filter(None, map(values.get, ATTACK_OPTIONS)), None):
        raise ValueError(f"attack must not be given, since nobody is Byzantine in an audit, got {attack}")
    of_clients = isinstance(getattr(release, "noise", None), DistributedNoise)
    noisy = of_clients or values.get("noise_variance") is not None or values.get("gradient_noise")
    of_server = isinstance(release, CentralNoise) and options.rounds > 1  # counts the rounds of those who arrived
    if values.get("dropout") and (noisy or of_server):
        raise ValueError(f"dropout must be 0 with noise, whose eps depends on who is lost, got {values['dropout']}")


def _check_used(options: AuditOptions, entries: list[Entry], known: Callable[[float | None], list[Entry]]) -> None:
    """Refuse what no audited entry depends on; `known` has them by Lipschitz constant, of which 0 proves the most."""
    views = {entry.view for entry in entries}
    if options.colluding and "coalition" not in views:
        only = ", ".join(sorted(views))
        raise ValueError(f"colluding must be 0 where no coalition is audited, only {only}, got {options.colluding}")
    if options.canary is not None and views == {"proposal"}:
        raise ValueError(f"canary must not be given where only proposals are audited, got {options.canary}")
    if options.lipschitz is not None and all(map(_same_eps, known(None), known(0.0))):
        raise ValueError(f"lipschitz must not be given where no audited figure depends on it, got {options.lipschitz}")


def _same_eps(one: Entry, other: Entry) -> bool:
    each = (np.asarray(entry.proved.epsilon, float) for entry in (one, other))  # None is nan
    return np.array_equal(*each, equal_nan=True)


def _few(data: ClientData, samples: int) -> ClientData:
    """The first samples of each client."""
    examples = jax.tree.map(lambda rows: jnp.asarray(rows)[:, :samples], data.examples)
    room = jax.tree.leaves(examples)[0].shape[1]
    return ClientData(examples, jnp.minimum(jnp.asarray(data.count), room))


def _seen_by(adversary: str, entries: list[Entry]) -> list[Entry]:
    """Keep the entries of one adversary.

    Where no entry is about an outsider, it is held to the server's, who sees more, or to that of everybody together
    where the server has none.
    """
    views = {entry.view for entry in entries}
    if adversary == "all":
        return entries
    if adversary == "outsider" and "outsider" not in views:
        adversary = "server" if "server" in views else "everybody"
    if adversary not in views:
        raise ValueError(
            f"adversary must be one of {', '.join(sorted({'outsider', *views}))} for this system, got {adversary}"
        )
    return [entry for entry in entries if entry.view == adversary]


def _unbound(values: Mapping[str, Any]) -> dict[str, bool]:
    """What changes where masks are elided: the model is the same for all here, so that bound masks would cancel."""
    return {"bind_model": False} if values.get("bind_model") else {}
