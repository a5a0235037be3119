"""How a release is audited: one table states what its adversaries read and which norm a canary needs."""

import functools
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv.audit import adversaries
from fedjax_priv.audit.coalitions import left_of_field, left_of_updates
from fedjax_priv.audit.crafted_canaries import Training
from fedjax_priv.audit.readings import Reading, along
from fedjax_priv.audit.worlds import Make, Seen
from fedjax_priv.base import ClientData, Local, Release
from fedjax_priv.losses import Loss
from fedjax_priv.systems import releases

Kind = Literal["direction", "sample", "label"]
_EVERYBODY = 2**30
"""The number of colluding clients if all but client 0 collude."""


class Subject(NamedTuple):
    """The system that is audited, with its inputs."""

    make: Make
    local: Local
    loss: Loss
    params: PyTree
    data: ClientData
    release: Release  # of the system; None: updates travel in the clear
    training: Training | None = None  # makes `local` for another loss; None: no gradients are crafted
    unmasked: Make | None = None  # the system with masks elided; None: `make` has no masks, or elides them itself


class Plan(NamedTuple):
    """How releases of one type are audited."""

    readings: Callable[..., list[Reading]]  # (release, kind, view, colluding): what the adversary reads of a round
    clip: Callable[..., float | None] = lambda release, heard: None  # the norm to which a given update is clipped
    kinds: tuple[Kind, ...] = ("direction", "sample", "label")  # of canaries; the first one is the default
    on_the_air: bool = False  # the other clients send too, and colluding ones are left out


def _known(view: str, colluding: int) -> int:
    """How many clients of the sum have uploads that the adversary knows."""
    return {"server": 0, "device": 1, "coalition": colluding, "everybody": _EVERYBODY}[view]


def _clear(**_: Any) -> list[Reading]:
    return [along(adversaries.upload)]


def _sum(*, release: releases.Sum | releases.ProposedCoordinates, view: str, colluding: int, **_: Any) -> list[Reading]:
    """The direction that the server derives from the sums; of noisy sums, what is left for this view.

    An upload is read alone if it is alone in its sum, or if a coalition is large enough to open it.
    """
    if isinstance(release.noise, releases.NoisyUploads):
        return _noisy()
    if release.noise is None:
        return [along(adversaries.direction)]
    whole = [along(adversaries.direction)] if view == "server" else []
    noise = release.noise
    alone = noise.group_size == 1 or (view == "coalition" and colluding >= noise.threshold)
    known = _EVERYBODY if alone else _known(view, colluding)
    return whole + [along(left) for left in left_of_field(known, noise.bits)]


def _noisy(**_: Any) -> list[Reading]:
    """An upload alone, since its own noise must protect it; its difference to another; the server's direction."""
    return [along(adversaries.upload), along(_beside_another), along(adversaries.direction)]


def _sparse(*, release: releases.SparseSum, **_: Any) -> list[Reading]:
    """The server may read an upload alone, so the upload's own noise must protect it."""
    alone = left_of_field(_EVERYBODY)[0]
    return [along(adversaries.direction)] + ([] if release.noise is None else [along(alone)])


def _sum_clip(release: releases.Sum | releases.SparseSum | releases.ProposedCoordinates, heard: int) -> float | None:
    return None if release.noise is None else _among(release.noise, heard)


def _among(noise: releases.NoisyUploads | releases.DistributedNoise, heard: int) -> float:
    """Updates are clipped after they are weighted by 1 / heard."""
    return heard * (float(noise.clip) if isinstance(noise, releases.NoisyUploads) else _of_one_sample(noise))


def _of_one_sample(noise: releases.CentralNoise | releases.DistributedNoise) -> float:
    """Updates are clipped after a weight for the number of samples; a client with a given update has one sample."""
    return float(noise.clip) * max(1.0, noise.weight_cap or 1.0)


def _air(*, release: releases.OverTheAir, kind: str, **_: Any) -> list[Reading]:
    if release.access == "orthogonal":
        return [along(adversaries.upload), along(_beside_another)]
    if kind != "direction" or jnp.ndim(release.noise_variance) or not release.known_count:
        return [along(adversaries.direction)]
    about: Any = {name: getattr(release, name) for name in ("clip", "noise_variance", "receiver_noise")}
    if release.knowledge is not None:
        return [adversaries.ratio_of_complex_signals(**about, coordinates_per_use=release.coordinates_per_use)]
    return [adversaries.ratio_on_the_air(**about)]


def _antennas(*, release: releases.BlindUploads, kind: str, **_: Any) -> list[Reading]:
    """The signal of every antenna, if the simulation computes it."""
    if kind != "direction" or jnp.ndim(release.noise_variance) or not release.every_antenna:
        return [along(adversaries.direction)]
    names = ("clip", "noise_variance", "receiver_noise", "amplitude", "coordinates_per_use")
    return [adversaries.ratio_of_antennas(**{name: getattr(release, name) for name in names})]


def _votes(*, release: releases.Vote, **_: Any) -> list[Reading]:
    """The sum of the votes as received; only its sign if phases are unknown."""
    return [along(adversaries.direction if release.level is None else _received)]


def _received(seen: Seen) -> Array:
    return seen.info.observed.received.value[0]


def _beside_another(seen: Seen, dense: bool = False) -> Array:
    """The upload of client 0 minus that of the last client: noise that both share cancels."""
    last = seen.info.client.size - 1
    return adversaries.upload(seen, dense=dense) - adversaries.upload(seen, last, dense=dense)


def _sketched(*, release: releases.SketchedUploads, **_: Any) -> list[Reading]:
    """The upload, taken back to the coordinates of the update; and its difference to another upload."""
    return [along(functools.partial(of, dense=release.dense)) for of in (adversaries.upload, _beside_another)]


def _steps(*, release: releases.LocalNoise, view: str, colluding: int, **_: Any) -> list[Reading]:
    return [along(left) for left in left_of_updates(_known(view, colluding))]


def _central(**_: Any) -> list[Reading]:
    """The direction, which everybody can compute from the released models."""
    return [along(adversaries.direction)]


PLANS: Mapping[type, Plan] = {
    NoneType: Plan(_clear),
    releases.NoisyUploads: Plan(_noisy, _among),
    releases.Sum: Plan(_sum, _sum_clip),
    releases.SparseSum: Plan(_sparse, _sum_clip),
    releases.ThresholdedSum: Plan(lambda **_: [along(adversaries.direction)]),
    releases.ProposedCoordinates: Plan(_sum, _sum_clip),
    releases.OverTheAir: Plan(_air, lambda release, heard: float(release.clip), on_the_air=True),
    releases.BlindUploads: Plan(_antennas, lambda release, heard: float(release.clip), on_the_air=True),
    releases.Vote: Plan(_votes, lambda release, heard: release.clip, on_the_air=True),
    releases.SketchedUploads: Plan(_sketched, lambda release, heard: float(release.clip)),
    releases.LocalNoise: Plan(_steps, kinds=("label", "sample")),
    releases.CentralNoise: Plan(_central, lambda release, heard: _of_one_sample(release)),
    releases.NoisyBuffers: Plan(_central, lambda release, heard: float(release.clip)),
}
"""By the type of `Subject.release`."""


def plan_of(subject: Subject) -> Plan:
    """The plan for a subject's release. Raises ValueError if its type has none."""
    if type(subject.release) not in PLANS:
        raise ValueError(f"release must be of a type in systems.releases, got {type(subject.release).__name__}")
    return PLANS[type(subject.release)]


def num_params(subject: Subject) -> int:
    """d, the number of parameters of the model."""
    return sum(leaf.size for leaf in jax.tree.leaves(subject.params))
