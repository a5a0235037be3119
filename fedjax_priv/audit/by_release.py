"""How an entry of a ledger is audited: its adjacent inputs and what its adversary looks at, from one table."""

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.audit import adversaries, canaries
from fedjax_priv.audit.adversaries import Toward
from fedjax_priv.audit.worlds import Canary, Look, Make, Score
from fedjax_priv.base import ClientData, Key, Local, Release
from fedjax_priv.ledger import Entry, local_noise
from fedjax_priv.losses import Loss
from fedjax_priv.systems import releases

Kind = Literal["direction", "sample", "label"]
_BEYOND, _LONG = 3.0, 1.0
"""Norm of a direction canary, in clipping norms, as clipping has to act; and where no norm is stated."""


class Subject(NamedTuple):
    """What is audited."""

    make: Make
    local: Local
    loss: Loss
    params: PyTree
    data: ClientData
    release: Release  # of the system; None: updates travel in the clear


class Plan(NamedTuple):
    """How releases of one type are audited."""

    score: Callable[..., Score]  # (toward, *, release, kind, view, colluding): what the adversary makes of a round
    norm: Callable[..., float] = lambda release, heard: _LONG  # of a direction canary among so many clients
    kinds: tuple[Kind, ...] = ("direction", "sample", "label")  # of canaries; the first one is the default
    on_the_air: bool = False  # other clients are seen with client 0, and what colluding ones sent counts as not sent


def _sum_norm(release: releases.Sum | releases.SparseSum | releases.ProposedCoordinates, heard: int) -> float:
    """Updates are clipped after they are weighted by 1 / heard."""
    return _LONG if release.noise is None else _BEYOND * release.noise.clip * heard


def _air(toward: Toward, *, release: releases.OverTheAir, kind: str, **_: Any) -> Score:
    if release.access == "orthogonal":
        return adversaries.uploads(toward)
    if kind != "direction" or jnp.ndim(release.noise_variance):
        return adversaries.server(toward)
    about: Any = {name: getattr(release, name) for name in ("clip", "noise_variance", "receiver_noise")}
    return adversaries.on_the_air(toward, **about)


def _steps(toward: Toward, *, release: releases.LocalNoise, view: str, colluding: int, **_: Any) -> Score:
    known = {"server": 0, "device": 1, "coalition": colluding, "everybody": release.num_selected - 1}
    return adversaries.coalition(toward, known[view])


_OF_A_SUM = Plan(lambda toward, **_: adversaries.server(toward), _sum_norm)
PLANS: Mapping[type, Plan] = {
    NoneType: Plan(lambda toward, **_: adversaries.uploads(toward)),
    releases.Sum: _OF_A_SUM,
    releases.SparseSum: _OF_A_SUM,
    releases.ProposedCoordinates: _OF_A_SUM,
    releases.OverTheAir: Plan(_air, lambda release, heard: _BEYOND * float(release.clip), on_the_air=True),
    releases.LocalNoise: Plan(_steps, kinds=("label", "sample")),
}
"""By the type of `Subject.release`."""


def looks(
    subject: Subject,
    entries: Sequence[Entry],
    key: Key,
    *,
    kind: Kind | None,
    rounds: int,
    colluding: int,
    outsider: bool,
) -> list[list[Look]]:
    """What each entry's adversary tries; arguments as in `findings`. Entries share canaries where they can."""
    made: dict[tuple[str, int], Canary] = {}

    def of(entry: Entry) -> list[Look]:
        about = _kind_of(subject, entry, kind, rounds), _heard_by(subject, entry, colluding)
        if about not in made:
            made[about] = _canary_for(subject, *about, key)
        canary = made[about]
        happened = adversaries.stood_still if outsider else adversaries.what_happened
        return [
            Look(about[0], canary, _score_of(subject, entry, canary, about[0], colluding, outsider)),
            Look(f"{about[0]}, who was counted", canary, happened),
        ]

    return [of(entry) for entry in entries]


def _kind_of(subject: Subject, entry: Entry, kind: Kind | None, rounds: int) -> str:
    """Kind of the canary: the one asked for, or the release's first."""
    if entry.view == "proposal":
        if rounds > 1:
            raise ValueError(f"rounds must be 1 for proposals, whose eps is that of one round, got {rounds}")
        return "proposal"
    allowed = ("label", "sample") if entry.adjacent == local_noise.ADJACENT else _plan(subject).kinds
    kind = kind or allowed[0]
    _validate.one_of(("direction", "sample", "label"), canary=kind)
    if kind not in allowed:
        raise ValueError(f"canary must be 'sample' or 'label' where the noise is in local training, got {kind!r}")
    return kind


def _heard_by(subject: Subject, entry: Entry, colluding: int) -> int:
    """Clients in the two inputs; on the air, a coalition can subtract its own updates, so they are left out."""
    n = int(subject.data.count.size)
    return n - colluding if entry.view == "coalition" and _plan(subject).on_the_air else n


def _canary_for(subject: Subject, kind: str, heard: int, key: Key) -> Canary:
    """Adjacent inputs of this kind."""
    release, d = subject.release, num_params(subject)
    if kind == "proposal":
        return canaries.proposal_canary(heard, d, release.num_coordinates)
    if kind == "direction":
        plan = _plan(subject)
        return canaries.direction_canary(key, heard, d, plan.norm(release, heard), alone=not plan.on_the_air)
    x, y = subject.data.examples
    example = x[-1, 0], y[-1, 0]
    if kind == "label":
        if not np.max(y):
            raise ValueError("canary must be 'sample' where all samples have one label, got 'label'")
        example = x[0, 0], (y[0, 0] + 1) % (int(np.max(y)) + 1)
    return canaries.sample_canary(subject.local, subject.loss, subject.data, example)


def _score_of(subject: Subject, entry: Entry, canary: Canary, kind: str, colluding: int, outsider: bool) -> Score:
    """The score that an entry's adversary computes from a round; of a noisy sum always the server's score."""
    if outsider:
        return adversaries.outsider(canary.toward)
    if kind == "proposal":
        return adversaries.proposal(subject.release.num_coordinates)
    about = {"release": subject.release, "kind": kind, "view": entry.view, "colluding": colluding}
    return _plan(subject).score(canary.toward, **about)


def num_params(subject: Subject) -> int:
    """Parameters of the model."""
    return sum(leaf.size for leaf in jax.tree.leaves(subject.params))


def _plan(subject: Subject) -> Plan:
    if type(subject.release) not in PLANS:
        raise ValueError(f"release must be of a type in systems.releases, got {type(subject.release).__name__}")
    return PLANS[type(subject.release)]
