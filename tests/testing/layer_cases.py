"""A case of each public layer, for the laws that every layer keeps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.attacks import foe, on_field_elements, on_group_means, on_sparse, on_updates, random_elements
from fedjax_priv.channels import constant, turned
from fedjax_priv.crypto.modulus import ring
from fedjax_priv.crypto.sketch import projection
from fedjax_priv.layers import (
    align,
    average,
    blind_mean,
    check_range,
    clip,
    coded,
    coded_masks,
    committee_masks,
    common_coordinates,
    complex_symbols,
    conspar,
    discounted_mean,
    discrete_gaussian_noise,
    enrolled_masks,
    gaussian_noise,
    integer_skellam_noise,
    invert_gains,
    jl,
    mean_by_factors,
    on_sparse_values,
    one_shot_masks,
    opened_top_k,
    over_opened,
    over_the_air_mean,
    paired_coordinates,
    pairwise_masks,
    plain,
    plain_field,
    plain_ring,
    plain_signs,
    plain_sparse,
    plain_sparse_field,
    public_weighted_mean,
    qsgd,
    quantize,
    rand_k,
    rotate,
    round_within,
    scale,
    sign,
    skellam_noise,
    sparse_masks,
    stack,
    stateless,
    thresholded_masks,
    tones,
    top_k,
    uniform_levels,
    validate_norm,
    waveform,
    weighted_mean,
    wrap,
)
from fedjax_priv.layers.proof_sizes import risefl_bits
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.layers.weighting import UPDATE, on_columns, over_participation
from fedjax_priv.testing import NUM_CLIENTS as N
from fedjax_priv.testing import NUM_PARAMS as D
from fedjax_priv.testing import Case, wire
from helpers import heard_alike, sparse_wire


def weighted_sum(x, weight):
    return (x * weight[:, None]).sum(0)


def total(x, weight):
    return x.sum(0)


def clipped(x, most):
    return x * np.minimum(1, most / np.maximum(np.linalg.norm(x, axis=1), 1e-9))[:, None]


def total_of_signs(x, weight):
    return np.where(x >= 0, 1, -1).sum(0)


def majority(x, weight):
    return np.sign(total_of_signs(x, weight))


def located(sent):
    return np.asarray(jax.vmap(lambda row: bitmap.unpack(row, D))(sent.clear))


def located_wire(upload):
    """Bits of the field elements that are sent (none of them is 0, but with probability 2**-32) and of a bitmap."""
    return 32 * np.count_nonzero(upload, axis=1) + D


def every_coordinate():
    return stateless(lambda key, x, who: Sparse(x[:, ::-1], jnp.broadcast_to(jnp.arange(D)[::-1], x.shape)))


def scattered():
    """What the server holds on some coordinates, among zeros."""
    zeros = lambda value: jnp.zeros((len(value), D + 1), value.dtype)  # and a place for what is no coordinate

    def decode(received):
        value, position = received.value
        rows = jax.vmap(lambda row, value, position: row.at[position].set(value))(zeros(value), value, position)
        return received._replace(value=rows[:, :D])

    return stateless(decode=decode)


ROOM = 4 * D


def padded():
    """Updates among zeros, so that a projection to as many numbers can be solved for them without loss of digits."""
    by = projection(ROOM, ROOM, dense=True)

    def decode(received):
        matrix = by.project(received.value.seed[0], jnp.eye(ROOM))[:D]  # the columns of the projection
        sums = jnp.linalg.solve(matrix @ matrix.T, matrix @ received.value.value.T).T
        return received._replace(value=sums)

    return stateless(lambda key, x, who: jnp.pad(x, ((0, 0), (0, ROOM - D))), decode)


def in_ring(bits):
    """Of a case of uploads of so many bits."""
    return {"field": True, "modulus": ring(bits), "wire": lambda upload: bits * upload.shape[1]}


def few_bits(**above):
    return stack(**above, wrap=wrap(18), send=plain_ring(18))


rounded: Any = {"error": 2.0**-10, "wire": lambda upload: 18 * D}


LAYERS = {
    "scale": Case(stack(it=scale(), send=plain()), weighted_sum),
    "over_participation": Case(stack(it=over_participation(), send=plain()), total),
    "public_weighted_mean": Case(
        stack(it=public_weighted_mean(2, factor=3.0), send=plain(2)),
        lambda x, w: 3 * weighted_sum(x, w) / max(w.sum(), 1e-9), num_groups=2,
    ),
    "average": Case(stack(it=average(), send=plain(2)), lambda x, w: total(x, w) / max(len(x), 1), num_groups=2),
    "discounted_mean": Case(stack(it=discounted_mean(total=3.0), send=plain()), lambda x, w: total(x, w) / 3),
    "discounted_mean, by weights": Case(
        stack(it=discounted_mean(), send=plain()), lambda x, w: total(x, w) / max(len(x), 1)
    ),
    # factors are 1; others in systems/test_secure_fedbuff.py
    "mean_by_factors": Case(
        stack(it=mean_by_factors(), quantize=quantize(2.0**10, N), send=plain_field()),
        lambda x, w: total(x, w) / max(len(x), 1), error=2.0**-10,
    ),
    "mean_by_factors, of all": Case(
        stack(it=mean_by_factors(total=3.0), send=plain()), lambda x, w: total(x, w) / 3
    ),
    "weighted_mean": Case(stack(it=weighted_mean(), send=plain()), lambda x, w: weighted_sum(x, w) / w.sum()),
    "on_columns": Case(
        stack(weigh=weighted_mean(), it=on_columns(clip(0.1), UPDATE), send=plain()),
        lambda x, w: clipped(x * w[:, None], 0.1).sum(0) / w.sum(),
    ),
    "plain": Case(plain(2), total, num_groups=2),
    "plain, float sum": Case(plain(exact=False), total),
    "plain_ring": Case(plain_ring(12, 2), total, num_groups=2, **in_ring(12)),
    "plain_field": Case(plain_field(2), total, num_groups=2, field=True),
    "quantize": Case(stack(it=quantize(2.0**10, N), send=plain_field()), total, error=2.0**-10),
    "pairwise_masks": Case(pairwise_masks(group_size=N), total, field=True),
    "pairwise_masks, groups": Case(pairwise_masks(2, group_size=4, threshold=2), total, num_groups=2, field=True),
    "pairwise_masks, neighbours": Case(pairwise_masks(group_size=N, neighbours=4, threshold=2), total, field=True),
    "pairwise_masks, ring": Case(
        pairwise_masks(2, group_size=4, threshold=2, bits=10), total, num_groups=2, **in_ring(10)
    ),
    "enrolled_masks": Case(enrolled_masks(group_size=N), total, field=True),
    "enrolled_masks, ring": Case(enrolled_masks(group_size=N, bits=16), total, **in_ring(16)),
    "committee_masks": Case(
        committee_masks(group_size=N, neighbours=4, committee=6, threshold=3), total, field=True,
        wire=lambda upload: 32 * D + 528 * 4 + 192 * 6,  # a key for each neighbour, a share for each member
    ),
    "coded_masks": Case(coded_masks(num_values=D, group_size=N, colluders=3, lost=3), total, field=True),
    "one_shot_masks": Case(
        stack(
            quantize=quantize(2.0**10, N * 295),
            mask=one_shot_masks(group_size=N, spacing=295, committee=6, threshold=3, fewest=4, length=8),
        ),
        total, error=2.0**-10, wire=lambda upload: 32 * (D + 8 * 6) + 64,  # a commitment of 64 bits
    ),
    "sparse_masks": Case(
        sparse_masks(alpha=0.7, group_size=N), total, field=True, wire=located_wire, sends=located
    ),
    "sparse_masks, dense": Case(
        sparse_masks(2, alpha=1.0, group_size=4, threshold=2, expand="dense"),
        total, num_groups=2, field=True, wire=located_wire, sends=located,
    ),
    "thresholded_masks": Case(
        thresholded_masks(
            paired_coordinates(alpha=0.7, group_size=N), num_values=D, group_size=N, threshold=1, committee=6, quorum=3
        ),
        total, field=True, wire=lambda upload: located_wire(upload) + 64 * 36, sends=located,
    ),
    "thresholded_masks, pairwise": Case(
        thresholded_masks(
            sparse_masks(alpha=0.7, group_size=N), num_values=D, group_size=N, threshold=1, committee=6, quorum=2
        ),
        total, field=True, wire=lambda upload: located_wire(upload) + 64 * 36, sends=located,
    ),
    "paired_coordinates": Case(
        paired_coordinates(alpha=0.7, group_size=N), total, field=True, wire=located_wire, sends=located
    ),
    "plain_sparse_field": Case(
        stack(all=every_coordinate(), it=plain_sparse_field(D)), total, field=True, wire=located_wire,
    ),
    "on_sparse_values": Case(
        stack(all=every_coordinate(), it=on_sparse_values(quantize(2.0**10, N)), send=plain_sparse_field(D)),
        total, error=2.0**-10, wire=lambda upload: 33 * D,
    ),
    # what is not opened, in layers/test_thresholded_mask.py
    "opened_top_k": Case(
        stack(
            it=opened_top_k(D, D, num_clients=N, threshold=1),
            quantize=on_sparse_values(quantize(2.0**10, N)), send=plain_sparse_field(D),
        ),
        total, error=2.0**-10, wire=lambda upload: 33 * D,
    ),
    "over_opened": Case(
        over_opened(
            stack(
                all=every_coordinate(), quantize=on_sparse_values(quantize(2.0**10, N)),
                mask=thresholded_masks(
                    plain_sparse_field(D), num_values=D, group_size=N, threshold=1, committee=4, quorum=1
                ),
            )
        ),
        total, error=2.0**-10, wire=lambda upload: 33 * D + 64 * 16,
    ),
    "stack": Case(
        stack(weigh=scale(2.0), quantize=quantize(2.0**16, N), mask=pairwise_masks(group_size=N)),
        lambda x, w: 2 * weighted_sum(x, w), error=2.0**-16,
    ),
    "plain_sparse": Case(
        stack(it=every_coordinate(), send=plain_sparse(D, 2)), total, num_groups=2, wire=sparse_wire(D)
    ),
    "plain_sparse, float sum": Case(
        stack(it=every_coordinate(), send=plain_sparse(D, exact=False)), total, wire=sparse_wire(D)
    ),
    # all coordinates, in an order of their own; fewer of them in layers/test_sparsify.py and layers/test_common.py
    "rand_k": Case(stack(it=rand_k(D, D), send=plain_sparse(D)), total, wire=sparse_wire(D)),
    "top_k": Case(stack(it=top_k(D, D, error_feedback=True), send=plain_sparse(D)), total, wire=sparse_wire(D)),
    "common_coordinates": Case(stack(it=common_coordinates(D, D), send=plain()), total),
    "common_coordinates, masked": Case(
        stack(
            it=common_coordinates(D, D, error_feedback=True),
            quantize=quantize(2.0**16, 4), masks=pairwise_masks(2, group_size=4, threshold=2),
        ),
        total, error=2.0**-16, num_groups=2,
    ),
    "clip": Case(
        stack(it=clip(2.0), send=plain()),
        lambda x, w: clipped(x, 2.0).sum(0),
    ),
    # without noise; with it in layers/test_skellam.py
    "skellam_noise": Case(
        stack(quantize=quantize(2.0**10, N), it=skellam_noise(0.0, max_norm=2.0**14, max_terms=N), send=plain_field()),
        total, error=2.0**-10,
    ),
    "validate_norm": Case(
        stack(quantize=quantize(2.0**10, N), it=validate_norm(2.0**14), send=plain_field()), total, error=2.0**-10,
        wire=lambda upload: 32 * D + risefl_bits(D),
    ),
    "validate_norm, entries and projections": Case(
        stack(
            quantize=quantize(2.0**10, N), it=validate_norm(2.0**14, max_entry=2.0**14, verdict="projections"),
            send=plain_field(),
        ),
        total, error=2.0**-10, wire=lambda upload: 32 * D + risefl_bits(D, 2**14 + 1),
    ),
    "check_range": Case(
        stack(quantize=quantize(2.0**10, N), it=check_range(2**14, N), send=plain_field()), total, error=2.0**-10
    ),
    # in few bits, without noise; with it in layers/test_noise_discrete_gaussian.py
    "rotate": Case(stack(it=rotate(D), send=plain()), total, wire=lambda upload: 32 * 64),
    "round_within": Case(few_bits(it=round_within(2.0**10, max_norm=32.0)), total, **rounded),
    "wrap": Case(few_bits(round=round_within(2.0**10, max_norm=32.0)), total, **rounded),
    "discrete_gaussian_noise": Case(
        few_bits(round=round_within(2.0**10, max_norm=32.0), it=discrete_gaussian_noise(0.0)), total, **rounded
    ),
    "integer_skellam_noise": Case(
        few_bits(round=round_within(2.0**10, max_norm=32.0), it=integer_skellam_noise(0.0)), total, **rounded
    ),
    # without noise; with it in layers/test_align.py
    "gaussian_noise": Case(stack(it=gaussian_noise(0.0), send=plain()), total),
    "align": Case(stack(it=align(0.0, max_norm=9.0), send=plain()), total),
    "over_the_air_mean": Case(
        stack(it=over_the_air_mean(), send=waveform()),
        lambda x, w: total(x, w) / max(len(x), 1), wire=lambda upload: np.zeros(len(upload)), counted=lambda _: 1,
    ),
    "complex_symbols": Case(
        stack(it=complex_symbols(turned(constant(), deviation=0.0).knowledge, 2), send=waveform()), total,
        wire=lambda upload: np.zeros(len(upload)),
    ),
    "blind_mean": Case(
        stack(it=heard_alike(blind_mean(2.0)), send=waveform()), total, wire=lambda upload: np.zeros(len(upload)),
        counted=lambda _: 1,
    ),
    "waveform": Case(waveform(), total, wire=lambda upload: np.zeros(len(upload))),
    "qsgd": Case(qsgd(2**12, 2), total, num_groups=2, error=9 / 2**12, wire=lambda upload: 32 + 14 * D),
    "uniform_levels": Case(uniform_levels(12, limit=4.0), total, error=2.0**-8, wire=lambda upload: 12 * D),
    "coded": Case(coded(qsgd(2**12)), total, error=9 / 2**12, wire=lambda upload: 32 + 14 * D),
    "sign": Case(stack(it=sign(), send=plain_signs()), majority, wire=lambda upload: D),
    "plain_signs": Case(plain_signs(), total_of_signs, wire=lambda upload: D),
    "invert_gains": Case(
        stack(it=invert_gains(2.0), send=waveform()), lambda x, w: 2 * total(x, w),
        wire=lambda upload: np.zeros(len(upload)),
    ),
    "tones": Case(
        stack(sign=sign(), it=tones(2.0), send=waveform()), majority, wire=lambda upload: np.zeros(len(upload))
    ),
    "conspar": Case(  # proposals are in the clear, and the bits of a phase before
        stack(dense=scattered(), it=conspar(D, D), send=plain(2)), total, num_groups=2, wire=wire
    ),
    "jl": Case(stack(few=padded(), it=jl(ROOM, ROOM, dense=True), send=plain(2)), total, error=1e-5, num_groups=2),
    # nobody is Byzantine here; who is, in attacks/test_on_updates.py
    "on_updates": Case(stack(it=on_updates(foe()), send=plain()), total),
    "on_group_means": Case(stack(it=on_group_means(foe(), 2), send=plain(2)), total, num_groups=2),
    "on_sparse": Case(
        stack(top=every_coordinate(), it=on_sparse(foe(), D), send=plain_sparse(D)), total, wire=sparse_wire(D)
    ),
    "on_field_elements": Case(
        stack(it=on_field_elements(random_elements()), send=plain_field(2)), total, num_groups=2, field=True
    ),
}  # fmt: skip
UNBIASED = {"quantize", "stack", "round_within", "qsgd", "uniform_levels"}
MASKED = {
    "pairwise_masks", "pairwise_masks, groups", "pairwise_masks, neighbours", "pairwise_masks, ring",
    "enrolled_masks", "enrolled_masks, ring", "committee_masks", "coded_masks", "one_shot_masks", "sparse_masks",
    "sparse_masks, dense", "thresholded_masks", "thresholded_masks, pairwise", "stack", "common_coordinates, masked",
}  # fmt: skip
"""Uploads are uniform, whatever they mask."""
DEPENDS_ON_PEERS = MASKED - {"coded_masks", "one_shot_masks"} | {"paired_coordinates", "opened_top_k", "over_opened"}
"""What a client sends depends on who else takes part, or the layer takes cohorts of one size."""
BUILDERS = {
    "attack_layer",
    "integer_noise",
    "masked_sum",
    "mean_under",
    "sparsifier",
    "stateless",
    "weighted_by",
}  # of layers and systems: they are none themselves
