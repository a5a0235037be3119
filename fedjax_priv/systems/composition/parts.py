"""What a stack of choices stands for: its layers in the one right order, and what it releases.

weigh > compress > clip > local noise > attack > average > quantize > field noise > attack on elements > proof of
the norm > check of the sum's range > mask or send

A client first decides what it sends, then bounds and noises exactly that; attackers replace what honest clients would
have sent, with no clipping in their way; field elements come last, since masks cover nothing else.
"""

import inspect
import math
from typing import Any, NamedTuple

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import in_sketch, mean, on_coordinates
from fedjax_priv.attacks import on_group_means, on_sparse, on_updates
from fedjax_priv.base import Aggregator, Layer, Release
from fedjax_priv.layers import (
    average,
    common_coordinates,
    conspar,
    enrolled_masks,
    gaussian_noise,
    jl,
    on_sparse_values,
    opened_top_k,
    over_opened,
    pairwise_masks,
    plain,
    plain_field,
    plain_sparse,
    plain_sparse_field,
    quantize,
    rand_k,
    scale,
    sparse_masks,
    thresholded_masks,
    top_k,
    weighted_mean,
)
from fedjax_priv.layers import clip as clip_to
from fedjax_priv.layers import stack as stack_of
from fedjax_priv.layers.quantization import largest_summand
from fedjax_priv.layers.secure_sum.masked_sum import Protocol
from fedjax_priv.layers.weighting import UPDATE, on_columns, over_participation
from fedjax_priv.systems import releases
from fedjax_priv.systems._arguments import coordinates, proposed
from fedjax_priv.systems._distributed_noise import condition_of, distributed_noise
from fedjax_priv.systems._proofs import validated
from fedjax_priv.systems._shared_layers import attacked_elements, ranged
from fedjax_priv.systems.composition.stack import Stack
from fedjax_priv.systems.secure_sums import sparse_secagg
from fedjax_priv.systems.secure_sums.thresholded_secagg import thresholded_secagg

OPENS_AT = inspect.signature(thresholded_secagg).parameters["threshold"].default


class Compression(NamedTuple):
    """How updates get shorter."""

    layers: dict[str, Layer]
    kept: int = 0  # coordinates that a client chooses; under ConSpar, that it proposes
    sent: int | None = None  # values in an upload; None: all parameters


class Numbers(NamedTuple):
    """Arguments of a composed system that a `Stack` does not need."""

    num_params: int  # 0: not known, and not needed
    ratio: float
    k: int | None
    levels: float | Array
    exact: bool
    masks: dict[str, Any]  # options of masks that were given, and of a committee
    proofs: dict[str, Any]  # options of proofs

    @property
    def sent(self) -> int:
        """k, numbers that a client sends where each sends as many."""
        return coordinates(self.num_params, self.ratio) if self.k is None else self.k

    @property
    def opens_at(self) -> int:
        """Clients that must have sent a coordinate, under thresholded opening."""
        return self.masks.get("threshold", OPENS_AT)


def compression(s: Stack, of: Numbers) -> Compression:
    """The layer that compresses.

    Raises:
      ValueError: a size out of range.
    """
    if s.compress == "none":
        return Compression({})
    d = of.num_params
    _validate.integer(num_params=d)
    if s.compress == "conspar":
        n = proposed(d, s.num_clients, of.ratio, of.k)
        return Compression({"conspar": conspar(d, n, alpha=s.alpha, attack=s.coordinate_attack)}, n,
                           min(s.num_clients * n, d))  # fmt: skip
    k = of.sent
    if s.compress == "jl":
        return Compression({"sketch": jl(d, k)}, k, k)
    if s.compress == "common":
        return Compression({"common": common_coordinates(d, k, error_feedback=s.error_feedback)}, k, k)
    if s.secure == "thresholded":
        return Compression({"select": _select(s, of, k)}, k, k)
    sparsify = {"rand_k": rand_k, "top_k": top_k}[s.compress]
    return Compression({"sparsify": sparsify(d, k, error_feedback=s.error_feedback)}, k, k)


def _select(s: Stack, of: Numbers, k: int) -> Layer:
    """Coordinates of which those are opened that enough clients chose."""
    if s.compress == "rand_k":
        return rand_k(of.num_params, k)
    return opened_top_k(of.num_params, k, num_clients=s.num_clients, threshold=of.opens_at)


def rule(s: Stack, of: Numbers) -> Aggregator:
    """The rule, on the rows that compression leaves."""
    chosen = mean() if s.aggregate is None else s.aggregate
    if s.compress == "jl":
        return in_sketch(chosen, of.num_params, of.sent)
    return on_coordinates(chosen, of.num_params) if s.compress == "conspar" else chosen


def layers_and_release(s: Stack, of: Numbers) -> tuple[Layer, Release | None]:
    """All layers in order, and what a stack of digital uploads gives away."""
    compressed = compression(s, of)
    top = {**_weigh(s, of), **compressed.layers}
    ends = _field_sum(s, of, compressed) if s.in_field else _send(s, of)
    above, below, release = ends
    layers = stack_of(**top, **above, **_attack(s, of), **_divide(s), **below)
    random = s.secure == "thresholded" and s.compress == "rand_k"
    return over_opened(layers) if random else layers, release


def _weigh(s: Stack, of: Numbers) -> dict[str, Layer]:
    join = {"join": over_participation()} if s.weigh == "expected" and s.cohort is not None else {}
    if s.secure == "sparse_secagg":
        drawn = s.clients_in_a_row / s.num_clients
        fraction = sparse_secagg.selected(of.ratio, s.clients_in_a_row, of.masks)
        return {"weigh": sparse_secagg.weigh(s.weigh, fraction, drawn, s.dropout), **join}
    if s.weigh == "expected":
        return {"weigh": scale(s.num_clients / s.clients_in_a_row / (1 - s.dropout)), **join}
    return {"weigh": weighted_mean()} if s.weigh == "survivors" else {}


def _divide(s: Stack) -> dict[str, Layer]:
    alone = s.secure == "none" and s.rows == s.num_clients
    return {"average": average()} if s.weigh == "equal" and not alone else {}


def _attack(s: Stack, of: Numbers) -> dict[str, Layer]:
    if s.group_attack is not None:
        largest = largest_summand(of.levels, s.clients_in_a_row) if s.in_field else math.inf
        return {"attack": on_group_means(s.group_attack, s.rows, largest=largest)}
    if s.attack is None:
        return {}
    if s.own_coordinates:
        return {"attack": on_sparse(s.attack, of.num_params)}
    return {"attack": _all_but_weight(s, on_updates(s.attack))}


def _field_attack(s: Stack) -> dict[str, Layer]:
    return {name: _all_but_weight(s, layer) for name, layer in attacked_elements(s.field_attack).items()}


def _bounded(s: Stack) -> dict[str, Layer]:
    """Clipping and a client's own noise, of what it sends."""
    clipped = {} if s.clip is None else {"clip": _all_but_weight(s, clip_to(s.clip))}
    noise = {"local_noise": gaussian_noise(s.noise_variance)} if s.private == "local" else {}
    return {name: _on_values(s, layer) for name, layer in (clipped | noise).items()}


def _all_but_weight(s: Stack, layer: Layer) -> Layer:
    """Of uploads that carry their weight, all else."""
    return on_columns(layer, UPDATE) if s.sends_weights else layer


def _on_values(s: Stack, layer: Layer) -> Layer:
    """Of uploads that have positions with them, their values."""
    return on_sparse_values(layer) if s.own_coordinates else layer


def _send(s: Stack, of: Numbers) -> tuple[dict[str, Layer], dict[str, Layer], Release | None]:
    sparse = s.own_coordinates
    send = plain_sparse(of.num_params, s.rows, exact=of.exact) if sparse else plain(s.rows, exact=of.exact)
    return _bounded(s), {"send": send}, _released(s, of, None, None, None)


def _field_sum(s: Stack, of: Numbers, short: Compression) -> tuple[dict[str, Layer], dict[str, Layer], Release | None]:
    size, mask = s.clients_in_a_row, _mask(s, of)
    variance = s.noise_variance if s.private == "field" else None
    noise = distributed_noise(
        s.clip, variance, of.levels, max_terms=size,
        group_size=1 if s.secure == "sparse_secagg" else size, threshold=mask.sums.threshold, num_values=short.sent,
        byzantine=s.num_byzantine, condition=_condition(s, of),
    )  # fmt: skip
    below = {
        "quantize": _on_values(s, quantize(of.levels, max_terms=size)),
        **noise.below, **_field_attack(s),
        **validated(s.norm_bound, of.levels, group_size=size, max_entry=s.max_entry, clip=s.clip,
                    noise_variance=variance, how=of.proofs),
        **ranged(s.check_range, s.clip, s.noise_variance, of.levels, size, weighted=s.sends_weights), "mask": mask,
    }  # fmt: skip
    return _bounded(s), below, _released(s, of, mask, noise.released, short)


def _condition(s: Stack, of: Numbers) -> str:
    attacks = s.attack, s.group_attack, s.field_attack, s.coordinate_attack
    attacked = any(attack is not None for attack in attacks)
    return condition_of(of.masks, attacked=attacked, proved=s.norm_bound is not None)


def _mask(s: Stack, of: Numbers) -> Layer:
    size = s.clients_in_a_row
    if s.secure == "field":
        return plain_field(s.rows)
    if s.secure == "sparse_secagg":
        return sparse_masks(alpha=of.ratio, group_size=size, **of.masks)
    if s.secure == "enrolled":
        return enrolled_masks(group_size=size, **of.masks)
    if s.secure == "thresholded":
        d, opens = of.num_params, {"threshold": OPENS_AT} | of.masks
        return thresholded_masks(plain_sparse_field(d), num_values=d, most=of.sent, group_size=size, **opens)
    return pairwise_masks(s.rows, group_size=size, **of.masks)


def _noisy_uploads(s: Stack, protocol: Protocol | None) -> releases.NoisyUploads:
    """Attackers see updates before noise: what they propose is public, what they send is above their own noise."""
    condition = condition_of({}, attacked=s.coordinate_attack is not None)
    return releases.NoisyUploads(
        clip=s.clip, noise_variance=s.noise_variance, masked=s.masked, masks=protocol, condition=condition
    )


def _released(
    s: Stack, of: Numbers, mask: Layer | None, noise: releases.DistributedNoise | None, short: Compression | None
) -> Release | None:
    protocol, opening = (None, None) if mask is None else (mask.sums.protocol, releases.Opening.of(mask))
    local = _noisy_uploads(s, protocol) if s.private == "local" else None
    if s.compress == "conspar":
        n = (short or compression(s, of)).kept
        return releases.ProposedCoordinates(
            num_params=of.num_params, num_coordinates=n, alpha=s.alpha, masked=s.masked, noise=noise or local,
            masks=protocol, group_size=s.buffer_size, opening=opening,
        )  # fmt: skip
    if local is not None:
        return local
    if s.secure == "sparse_secagg":
        return releases.SparseSum(alpha=of.ratio, noise=noise, masks=protocol)
    if s.secure == "enrolled" and s.sums_as_trained:
        return releases.LocalNoise(secure=True, levels=of.levels, max_terms=s.clients_in_a_row)
    if mask is None or not s.masked:
        return None
    if s.secure == "thresholded":
        assert mask.sums.opened_by is not None
        return releases.ThresholdedSum(threshold=of.opens_at, quorum=mask.sums.opened_by)
    return releases.Sum(noise=noise, masks=protocol, group_size=s.buffer_size, opening=opening)
