"""What the adversary of a ledger's entry tries: canaries, and how it reads the runs with them."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_priv import _validate
from fedjax_priv.audit import adversaries, canaries, crafted_canaries
from fedjax_priv.audit.by_release import Kind, Subject, num_params, plan_of
from fedjax_priv.audit.canary_families import in_first_round
from fedjax_priv.audit.over_rounds import over_rounds
from fedjax_priv.audit.readings import Reading, along, at_variant, between_rounds, looked_at, spread
from fedjax_priv.audit.sample_canaries import sample_canary
from fedjax_priv.audit.who_came import sees_who_came, where_it_came
from fedjax_priv.audit.worlds import Canary, Look, Score, marked
from fedjax_priv.base import Key
from fedjax_priv.ledger import Entry, local_noise, worst
from fedjax_priv.systems.releases import CentralNoise, LocalNoise, Vote

_LONG, _BEYOND = 1.0, 3.0
"""Norm of given updates: if nothing clips them; if clipping must act, in clipping norms."""
_WITHIN = 0.99
"""Norm of an update that clipping must not change, in clipping norms."""
_SPIKES = 5
"""A Dirac canary is tried at so many coordinates: the first two, the last two, one in the middle."""


class _Recipe(NamedTuple):
    """Which canary: its kind, and how it is changed."""

    kind: str
    first_round: bool = False  # the two inputs differ in the first round only
    one_within: bool = False  # in the first input, the update is within the first round's clipping norm

    @property
    def label(self) -> str:
        changed = {"first round": self.first_round, "one within the clip": self.one_within}
        return ", ".join([self.kind, *(words for words, applies in changed.items() if applies)])

    @property
    def one_direction(self) -> bool:
        return self.kind == "direction"


def looks(
    subject: Subject,
    entries: Sequence[Entry],
    key: Key,
    *,
    kind: Kind | None,
    rounds: int,
    colluding: int,
    outsider: bool,
    held: float | None = None,
) -> list[list[Look]]:
    """What each entry's adversary tries; arguments as in `findings`. Entries share canaries if they can.

    If `kind` is given, or if the entry has no eps to contradict, only one kind of canary is tried.
    """

    @functools.cache
    def canary(recipe: _Recipe, heard: int, neighbours: str) -> Canary:
        opposite = neighbours == "replacement"
        if recipe.first_round:
            return in_first_round(canary(recipe._replace(first_round=False), heard, neighbours))
        made = _canary(subject, recipe, heard, key, opposite=opposite)
        return made if opposite or not _counts_bits(subject) else canaries.silent_in_second(made)

    def of(entry: Entry) -> list[Look]:
        first, heard = _kind_of(subject, entry, kind, rounds), _heard_by(subject, entry, colluding)
        happened = adversaries.stood_still if outsider else adversaries.what_happened
        of_pair = functools.partial(canary, heard=heard, neighbours=entry.neighbours)
        plain, line = of_pair(_Recipe(first)), _Recipe(first).one_direction
        counted = Look(f"{first}, who was counted", plain, happened, reads_updates=False, one_direction=line)
        if first == "proposal":
            score = adversaries.proposal(subject.release.num_coordinates)
            return [Look(first, plain, score), counted]
        readings = _readings(subject, entry, first, colluding, outsider)
        tested = held is not None or any(worst(figure) is not None for figure in (entry.claimed, entry.proved))
        recipes = [_Recipe(first), *(_others(subject, first, rounds, entry) if tested and kind is None else [])]
        tried = [look for one in recipes for look in _looks(one, of_pair(one), readings, rounds, happened)]
        if rounds > 1 and getattr(subject.release, "correlation", None) is not None:
            lines = [look for look in tried if look.one_direction]
            tried += [over_rounds(look, subject.release, rounds, known=entry.gaussian) for look in lines]
        if sees_who_came(entry, subject.release) and not outsider:
            tried = [where_it_came(look) for look in tried]
        return [*tried, counted]

    return [of(entry) for entry in entries]


def _others(subject: Subject, kind: str, rounds: int, entry: Entry) -> list[_Recipe]:
    """Further canaries, for faults that a direction or label canary does not show."""
    if kind == "direction":
        bits = _counts_bits(subject) and entry.neighbours == "replacement"  # else one of the inputs has none
        later = [_Recipe("direction", first_round=True), *([_Recipe("direction", one_within=True)] if bits else [])]
        return [_Recipe("Dirac"), *(later if rounds > 1 else [])]
    if subject.training is None:
        return []
    later = [_Recipe("gradient", first_round=True)] if rounds > 1 else []
    return [_Recipe("gradient"), _Recipe("Dirac gradient"), *later]


def _counts_bits(subject: Subject) -> bool:
    """Whether clients send a bit that says if they were within the clipping norm; the next norm depends on the bits."""
    return isinstance(subject.release, CentralNoise) and subject.release.adaptive


def _looks(recipe: _Recipe, canary: Canary, readings: Sequence[Reading], rounds: int, happened: Score) -> list[Look]:
    """The looks at one canary; one look per variant, since everybody knows which variant a run has."""
    look = functools.partial(Look, one_direction=recipe.one_direction, first_round=recipe.first_round)
    if canary.variants is not None:
        scores = [at_variant(readings, canary.toward, variant) for variant in range(canary.variants)]
        names = [f"{recipe.label}, {number} of {len(scores)}" for number in range(1, len(scores) + 1)]
        return [look(name, canary, score, marked) for name, score in zip(names, scores, strict=True)]
    if recipe.first_round:
        return [look(recipe.label, canary, between_rounds(readings, canary.toward, rounds))]
    score = spread(readings, canary.toward)
    if recipe.one_within:
        both = lambda seen: jnp.concatenate([score(seen), jnp.atleast_1d(happened(seen))])
        return [look(recipe.label, canary, both)]
    return [look(recipe.label, canary, score)]


def _canary(subject: Subject, recipe: _Recipe, heard: int, key: Key, *, opposite: bool) -> Canary:
    """The canary of a recipe; `heard` clients send."""
    kind = recipe.kind
    if kind == "proposal":
        return canaries.proposal_canary(heard, num_params(subject), subject.release.num_coordinates)
    if recipe.one_within:
        beyond = _given(subject, kind, heard, key, opposite=opposite)
        return canaries.shrunk_in_first(beyond, _WITHIN / _beyond(num_params(subject)))
    if kind in ("direction", "Dirac"):
        return _given(subject, kind, heard, key, opposite=opposite)
    if kind in ("gradient", "Dirac gradient"):
        return _crafted(subject, kind)
    x, y = subject.data.examples
    example = x[-1, 0], y[-1, 0]
    if kind == "label":
        if not np.max(y):
            raise ValueError("canary must be 'sample' where all samples have one label, got 'label'")
        example = x[0, 0], (y[0, 0] + 1) % (int(np.max(y)) + 1)
    return sample_canary(subject.local, subject.loss, subject.data, example)


def _given(subject: Subject, kind: str, heard: int, key: Key, *, opposite: bool) -> Canary:
    """Given updates, far above the clipping norm; if d is large, each entry of a direction is below it."""
    plan, d = plan_of(subject), num_params(subject)
    alone = not (plan.on_the_air or _another_in_its_place(subject))
    clip = plan.clip(subject.release, heard)
    if kind == "Dirac":
        norm = _LONG if clip is None else _BEYOND * clip
        return canaries.dirac_canary(heard, d, _spikes(d), norm, alone=alone, opposite=opposite)
    norm = _LONG if clip is None else _beyond(d) * clip
    return canaries.direction_canary(key, heard, d, norm, alone=alone, opposite=opposite)


def _beyond(d: int) -> float:
    """The norm of a direction canary, in clipping norms."""
    return max(_BEYOND, 0.9 * d**0.5)


def _another_in_its_place(subject: Subject) -> bool:
    """Whether cohorts have a fixed size: another client then replaces client 0, and what it sends matters too."""
    release = subject.release
    return isinstance(release, CentralNoise) and release.participation.sampling in ("fixed_size", "separated")


def _crafted(subject: Subject, kind: str) -> Canary:
    assert subject.training is not None
    about = subject.training, subject.loss, subject.data, subject.params
    if kind == "gradient":
        return crafted_canaries.scaled_canary(*about)
    return crafted_canaries.spike_canary(*about, _spikes(num_params(subject)))


def _spikes(d: int) -> list[int]:
    return looked_at(d, _SPIKES).tolist()


def _kinds(subject: Subject, entry: Entry) -> tuple[str, ...]:
    """The kinds of canaries that fit: samples, if the entry is about samples."""
    return ("label", "sample") if entry.adjacent == local_noise.ADJACENT else plan_of(subject).kinds


def _readings(subject: Subject, entry: Entry, kind: str, colluding: int, outsider: bool) -> list[Reading]:
    """What the entry's adversary reads of a round."""
    if outsider:
        return [along(adversaries.moved)]
    if entry.adjacent == local_noise.ADJACENT and not isinstance(subject.release, LocalNoise):
        return [along(adversaries.own_update)]
    about = {"release": subject.release, "kind": kind, "view": entry.view, "colluding": colluding}
    return plan_of(subject).readings(**about)


def _kind_of(subject: Subject, entry: Entry, kind: Kind | None, rounds: int) -> str:
    """The kind of the first canary: `kind` if given, else the first kind that fits."""
    if entry.view == "proposal":
        if rounds > 1:
            raise ValueError(f"rounds must be 1 for proposals, whose eps is that of one round, got {rounds}")
        return "proposal"
    allowed = _kinds(subject, entry)
    chosen = kind or allowed[0]
    _validate.one_of(("direction", "sample", "label"), canary=chosen)
    if chosen not in allowed:
        raise ValueError(f"canary must be 'sample' or 'label' where the noise is in local training, got {chosen!r}")
    return chosen


def _heard_by(subject: Subject, entry: Entry, colluding: int) -> int:
    """How many clients send. On the air a coalition can subtract its own updates, so colluding clients are left out.

    Among votes only client 0 sends, since the adversary may know all other votes.
    """
    if isinstance(subject.release, Vote):
        return 1
    n = int(subject.data.count.size)
    return n - colluding if entry.view == "coalition" and plan_of(subject).on_the_air else n
