"""Which neighbouring inputs an entry of a privacy ledger is audited on, and what its adversary looks at."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.audit import adversaries, canaries
from fedjax_priv.audit.worlds import Canary, Make, Score
from fedjax_priv.base import ClientData, Key, Local, Release
from fedjax_priv.ledger import Entry
from fedjax_priv.losses import Loss

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
    release: Release | None  # of the system


def kind_of(subject: Subject, entry: Entry, kind: Kind | None, rounds: int) -> str:
    """Of the canary."""
    if entry.view == "proposal":
        if rounds > 1:
            raise ValueError(f"rounds must be 1 for proposals, whose eps is that of one round, got {rounds}")
        return "proposal"
    in_training = _mechanism(subject) == "local noise"
    kind = kind or ("label" if in_training else "direction")
    _validate.one_of(("direction", "sample", "label"), canary=kind)
    if kind == "direction" and in_training:
        raise ValueError("canary must be 'sample' or 'label' where the noise is in local training, got 'direction'")
    return kind


def heard_by(subject: Subject, entry: Entry, colluding: int) -> int:
    """Clients on the air: what the server knows of the others is as if they had not sent."""
    n = int(subject.data.count.size)
    return n - colluding if (entry.view, _mechanism(subject)) == ("coalition", "over the air") else n


def canary_for(subject: Subject, kind: str, heard: int, key: Key) -> Canary:
    """Neighbouring inputs of that kind, among so many clients."""
    terms, d = _terms(subject), num_params(subject)
    if kind == "proposal":
        return canaries.proposal_canary(heard, d, terms["num_coordinates"])
    if kind == "direction":
        weighed = heard if "noise" in terms else 1  # updates are clipped once they are weighed, by 1/n
        norm = _BEYOND * float(terms["clip"]) * weighed if "clip" in terms else _LONG
        return canaries.direction_canary(key, heard, d, norm, alone=_mechanism(subject) != "over the air")
    x, y = subject.data.examples
    example = x[-1, 0], y[-1, 0]
    if kind == "label":
        if not np.max(y):
            raise ValueError("canary must be 'sample' where all samples have one label, got 'label'")
        example = x[0, 0], (y[0, 0] + 1) % (int(np.max(y)) + 1)
    return canaries.sample_canary(subject.local, subject.loss, subject.data, example)


def score_of(subject: Subject, entry: Entry, canary: Canary, kind: str, colluding: int, outsider: bool) -> Score:
    """What the adversary of an entry makes of a round; of a noisy sum what the server does, whoever else knows more."""
    terms, mechanism, toward = _terms(subject), _mechanism(subject), canary.toward
    if outsider:
        return adversaries.outsider(toward)
    if kind == "proposal":
        return adversaries.proposal(terms["num_coordinates"])
    if mechanism == "local noise":
        known = {"server": 0, "device": 1, "coalition": colluding, "everybody": terms["num_selected"] - 1}
        return adversaries.coalition(toward, known[entry.view])
    if mechanism is None or terms.get("access") == "orthogonal":
        return adversaries.uploads(toward)
    if mechanism == "over the air" and kind == "direction" and not jnp.ndim(terms["noise_variance"]):
        about = {name: terms[name] for name in ("clip", "noise_variance", "receiver_noise")}
        return adversaries.on_the_air(toward, **about)
    return adversaries.server(toward)


def num_params(subject: Subject) -> int:
    """Of the model."""
    return sum(leaf.size for leaf in jax.tree.leaves(subject.params))


def _terms(subject: Subject) -> Mapping[str, Any]:
    return {} if subject.release is None else subject.release.terms


def _mechanism(subject: Subject) -> str | None:
    return None if subject.release is None else subject.release.mechanism
