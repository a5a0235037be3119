"""The laws every layer and every system keeps; a public one that is missing from the tables fails."""

import importlib
import inspect
import pkgutil
import typing
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from absl.testing import parameterized
from hypothesis import given
from hypothesis import strategies as st

import fedjax_priv.attacks
import fedjax_priv.layers
from fedjax_priv import server_noise, systems
from fedjax_priv.aggregators import mean
from fedjax_priv.attacks import foe, on_field_elements, on_group_means, on_sparse, on_updates, random_elements
from fedjax_priv.base import Algorithm, Layer
from fedjax_priv.crypto.modulus import ring
from fedjax_priv.crypto.sketch import projection
from fedjax_priv.layers import (
    align,
    average,
    clip,
    coded,
    coded_masks,
    common_coordinates,
    conspar,
    discounted_mean,
    discrete_gaussian_noise,
    enrolled_masks,
    gaussian_noise,
    integer_skellam_noise,
    invert_gains,
    jl,
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
from fedjax_priv.status import Status
from fedjax_priv.testing import NUM_CLIENTS as N
from fedjax_priv.testing import NUM_PARAMS as D
from fedjax_priv.testing import Case, check_layer, check_round_trip, check_system
from helpers import mesh_of, remembering, same_bits, sparse_wire, targets, towards_target

KEY = jax.random.key(7)


def weighted_sum(x, weight):
    return (x * weight[:, None]).sum(0)


def total(x, weight):
    return x.sum(0)


def majority(x, weight):
    return np.sign(np.where(x >= 0, 1, -1).sum(0))


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
    "public_weighted_mean": Case(
        stack(it=public_weighted_mean(2, factor=3.0), send=plain(2)),
        lambda x, w: 3 * weighted_sum(x, w) / max(w.sum(), 1e-9), num_groups=2,
    ),
    "average": Case(stack(it=average(), send=plain(2)), lambda x, w: total(x, w) / max(len(x), 1), num_groups=2),
    "discounted_mean": Case(stack(it=discounted_mean(total=3.0), send=plain()), lambda x, w: total(x, w) / 3),
    "discounted_mean, by weights": Case(
        stack(it=discounted_mean(), send=plain()), lambda x, w: total(x, w) / max(len(x), 1)
    ),
    "weighted_mean": Case(stack(it=weighted_mean(), send=plain()), lambda x, w: weighted_sum(x, w) / w.sum()),
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
    "coded_masks": Case(coded_masks(num_values=D, group_size=N, colluders=3, lost=3), total, field=True),
    "one_shot_masks": Case(
        stack(
            quantize=quantize(2.0**10, N * 295),
            mask=one_shot_masks(group_size=N, spacing=295, committee=N, threshold=4, fewest=4, length=8),
        ),
        total, error=2.0**-10, wire=lambda upload: 32 * (D + 8 * N),
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
            paired_coordinates(alpha=0.7, group_size=N), num_values=D, group_size=N, threshold=1, committee=N, quorum=4
        ),
        total, field=True, wire=lambda upload: located_wire(upload) + 64 * N * N, sends=located,
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
            ),
            threshold=1,
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
        lambda x, w: total(x * np.minimum(1, 2 / np.maximum(np.linalg.norm(x, axis=1), 1e-9))[:, None], w),
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
    "waveform": Case(waveform(), total, wire=lambda upload: np.zeros(len(upload))),
    "qsgd": Case(qsgd(2**12, 2), total, num_groups=2, error=9 / 2**12, wire=lambda upload: 32 + 14 * D),
    "uniform_levels": Case(uniform_levels(12, limit=4.0), total, error=2.0**-8, wire=lambda upload: 12 * D),
    "coded": Case(coded(qsgd(2**12)), total, error=9 / 2**12, wire=lambda upload: 32 + 14 * D),
    "sign": Case(stack(it=sign(), send=plain_signs()), majority, wire=lambda upload: D),
    "plain_signs": Case(plain_signs(), total, wire=lambda upload: D),
    "invert_gains": Case(
        stack(it=invert_gains(2.0), send=waveform()), lambda x, w: 2 * total(x, w),
        wire=lambda upload: np.zeros(len(upload)),
    ),
    "tones": Case(
        stack(sign=sign(), it=tones(2.0), send=waveform()), majority, wire=lambda upload: np.zeros(len(upload))
    ),
    "conspar": Case(stack(dense=scattered(), it=conspar(D, D), send=plain(2)), total, num_groups=2),
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
BUILDERS = {
    "integer_noise",
    "masked_sum",
    "sparsifier",
    "stateless",
    "weighted_by",
}  # of layers: they are no layer themselves


def make_secagg(local, num_clients, **how):
    return systems.secagg(local, num_clients=num_clients, levels=2.0**16, dropout=0.2, **how)


SYSTEMS = {
    "fedavg": lambda local, n, **how: systems.fedavg(local, dropout=0.2, **how),
    "fedavg, cohort": lambda local, n, **how: systems.fedavg(local, dropout=0.2, cohort_size=n - 2, **how),
    "fedbuff": lambda local, n, **how: systems.fedbuff(local, num_clients=n, buffer_size=3, concurrency=4, **how),
    "fedbuff, private": lambda local, n, **how: systems.fedbuff(
        local, num_clients=n, buffer_size=3, concurrency=4, clip=20.0, noise_multiplier=1e-4, **how
    ),
    "secagg": make_secagg,
    "secagg, survivors": lambda local, n, **how: make_secagg(local, n, normalize="survivors", leave=0.1, **how),
    "secagg, cohort": lambda local, n, **how: make_secagg(local, n, cohort_size=n - 1, **how),
    "secagg, neighbours": lambda local, n, **how: make_secagg(local, n, neighbours=4, threshold=2, **how),
    "lightsecagg": lambda local, n, **how: systems.lightsecagg(
        local, num_clients=n, num_params=D, lost=3, dropout=0.1, leave=0.1, **how
    ),
    "one_shot_secagg": lambda local, n, **how: systems.one_shot_secagg(
        local, num_clients=n, num_params=D, length=8, dropout=0.1, leave=0.1, **how
    ),
    "thresholded_secagg": lambda local, n, **how: systems.thresholded_secagg(
        local, num_clients=n, num_params=D, alpha=0.6, threshold=3, dropout=0.1, leave=0.1, committee=4, quorum=2, **how
    ),
    "thresholded_secagg, top_k": lambda local, n, **how: systems.thresholded_secagg(
        local, num_clients=n, num_params=D, alpha=0.6, threshold=3, select="top_k", committee=2, dropout=0.1, **how
    ),
    "cdp_fl": lambda local, n, **how: systems.cdp_fl(local, num_clients=n, dropout=0.1, leave=0.02, **how),
    "cdp_fl, cohort": lambda local, n, **how: systems.cdp_fl(local, num_clients=n, cohort_size=n - 2, **how),
    "dp_sgd": lambda local, n, **how: systems.dp_sgd(local, num_clients=n, dropout=0.1, **how),
    "sparse_secagg": lambda local, n, **how: systems.sparse_secagg(
        local, num_clients=n, cohort_size=n - 1, alpha=0.9, dropout=0.1, neighbours=4, threshold=2, **how
    ),
    "sparse_secagg, survivors": lambda local, n, **how: systems.sparse_secagg(
        local, num_clients=n, alpha=1.0, dropout=0.2, leave=0.1, expand="dense", normalize="survivors", **how
    ),
    "sparse_fedavg": lambda local, n, **how: systems.sparse_fedavg(
        local, num_params=D, k=8, error_feedback=True, dropout=0.1, **how
    ),
    "sparse_fedavg, cohort": lambda local, n, **how: systems.sparse_fedavg(
        local, num_params=D, k=25, sparsifier="rand_k", num_clients=n, cohort_size=n - 1, **how
    ),
    "robajol": lambda local, n, **how: systems.robajol(
        local, num_clients=n, num_params=D, k=9, clip=20.0, noise_multiplier=1e-3, aggregate=mean(), dropout=0.1, **how
    ),
    "fedrep": lambda local, n, **how: systems.fedrep(
        local, num_clients=n, num_params=D, ratio=0.5, alpha=0.3, buffer_size=1, in_the_clear=True, aggregate=mean(),
        dropout=0.1, **how,
    ),
    "share": lambda local, n, **how: systems.share(
        local, num_clients=n, buffer_size=n, aggregate=mean(), dropout=0.1, **how
    ),
    "f2ed": lambda local, n, **how: systems.f2ed(
        local, num_clients=n, buffer_size=1, in_the_clear=True, sigma=9.0, **how
    ),
    "robust_fedavg": lambda local, n, **how: systems.robust_fedavg(
        local, num_clients=n, aggregate=mean(), dropout=0.1, **how
    ),
    "wireless": lambda local, n, **how: systems.wireless(
        local, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, participation=0.9, **how
    ),
    "wireless, orthogonal": lambda local, n, **how: systems.wireless(
        local, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, participation=0.9, snr_db=60.0, access="orthogonal",
        known_count=False, power_control="signal", **how,
    ),
    "digital_fedavg": lambda local, n, **how: systems.digital_fedavg(
        local, num_params=D, levels=8, fixed_rate=0.5, **how
    ),
    "majority_vote": lambda local, n, **how: systems.majority_vote(local, num_clients=n, dropout=0.1, **how),
    "over_the_air_vote": lambda local, n, **how: systems.over_the_air_vote(local, clip=9.0, noise_variance=1e-3, **how),
    "two_tone_vote": lambda local, n, **how: systems.two_tone_vote(local, energy=4.0, **how),
    "dp_fedavg": lambda local, n, **how: systems.dp_fedavg(
        local, num_clients=n, clip=20.0, noise_multiplier=1e-4, weight_cap=8.0, mean_weight=0.6, dropout=0.1, **how
    ),
    "dp_fedavg, correlated": lambda local, n, **how: systems.dp_fedavg(
        local, num_clients=n, clip=20.0, noise_multiplier=1e-4, cohort_size=n // 2, separation=2, dropout=0.1,
        noise=server_noise.banded([1.0, 0.5, 0.375]), **how,
    ),
    "dp_fedavg, secure": lambda local, n, **how: systems.dp_fedavg(
        local, num_clients=n, clip=20.0, noise_multiplier=1e-4, weight_cap=8.0, mean_weight=0.6, sampling_rate=0.8,
        secure=True, threshold=2, **how,
    ),
    "distributed_dp_fedavg": lambda local, n, **how: systems.distributed_dp_fedavg(
        local, num_clients=n, num_params=D, clip=20.0, noise_multiplier=1e-3, weight_cap=8.0, mean_weight=0.6,
        dropout=0.1, leave=0.02, **how,
    ),
    "distributed_dp_fedavg, cohort": lambda local, n, **how: systems.distributed_dp_fedavg(
        local, num_clients=n, num_params=D, clip=20.0, noise_multiplier=1e-3, noise="skellam", bits=18,
        cohort_size=n - 1, neighbours=4, threshold=2, weight_cap=8.0, mean_weight=0.6, **how,
    ),
    "rcgd_ef": lambda local, n, **how: systems.rcgd_ef(
        local, num_clients=n, num_params=D, ratio=0.5, trimmed=0.0, dropout=0.1, **how
    ),
    "compose": lambda local, n, **how: systems.compose(
        local, num_clients=n, secure="field", weigh="expected", dropout=0.1, **how
    ),
    "common_secagg": lambda local, n, **how: systems.common_secagg(
        local, num_clients=n, num_params=D, alpha=0.4, error_feedback=True, dropout=0.1, leave=0.1, **how
    ),
}  # fmt: skip


BOUNDED = {name for name in SYSTEMS if "dp_fedavg" in name} | {"fedbuff, private"}
RATE = 0.25
PLACES = {name: [] if "," in name else [(2, 2)] for name in SYSTEMS}
PLACES |= {"fedavg": [(2, 2), (1, 8), (2, 3)], "sparse_secagg": [(1, 8)]}
"""Blocks and devices beside blocks of 3 on one: with eight devices one of them has none of the seven clients, with
three nothing divides. Every system is compiled anew for each, so only two systems go there."""


def public_names(packages, returning):
    """Functions of the packages' modules whose return annotation is the given type; those inside a secure sum aside."""
    found = [pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in packages]
    names = [info.name for infos in found for info in infos if "layers.secure_sum" not in info.name]
    for module in map(importlib.import_module, names):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = not name.startswith("_") and function.__module__ == module.__name__
            if own and typing.get_type_hints(function).get("return") is returning:
                yield name


@pytest.mark.parametrize(
    ("packages", "type_", "table"),
    [((fedjax_priv.layers, fedjax_priv.attacks), Layer, LAYERS), ((systems,), Algorithm, SYSTEMS)],
)
def test_every_public_part_is_in_the_table(packages, type_, table):
    named = {name.split(",")[0] for name in table}
    assert set(public_names(packages, type_)) - BUILDERS == named


def settings_of(name):
    masked = case_is_masked(name)
    alone = name not in ("stack", "paired_coordinates", "opened_top_k", "over_opened")
    return dict(masked=masked, by_number=not masked and alone and "mask" not in name,
                unbiased=name in ("quantize", "stack", "round_within", "qsgd", "uniform_levels"))  # fmt: skip


def case_is_masked(name):
    return name.split(",")[0] in (
        "pairwise_masks",
        "enrolled_masks",
        "coded_masks",
        "sparse_masks",
        "thresholded_masks",
    )


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_the_laws(name):
    """Compiled; the keys of masks, which depend on all peers, are tested in layers/test_mask.py."""
    check_layer(LAYERS[name], **settings_of(name))


@given(lost=st.lists(st.sets(st.integers(0, N - 1), max_size=3).map(sorted), min_size=1, max_size=3))
@pytest.mark.parametrize("name", [name for name in LAYERS if "," not in name])
def test_whoever_is_lost_the_rest_is_summed(name, lost):
    """Law 1, in the program of the test above."""
    check_round_trip(LAYERS[name], lost)


PUT_TOGETHER = {
    "common_coordinates, masked", "pairwise_masks, groups", "pairwise_masks, neighbours", "pairwise_masks, ring",
    "enrolled_masks, ring", "sparse_masks, dense", "thresholded_masks, pairwise",
}  # fmt: skip
"""Cases of parts that run alone in other cases; without jit, each shape of an operation is a program."""


class TestLayersInOtherWays(chex.TestCase):
    """As in the test above, but not compiled. Arguments lie on a device: a variant that puts them there is the same."""

    @chex.variants(without_jit=True)
    @parameterized.named_parameters(*((name.replace(", ", "_"), name) for name in LAYERS if name not in PUT_TOGETHER))
    def test_a_layer(self, name):
        check_layer(LAYERS[name], variant=self.variant)


def system_of(name, block=3, devices=1):
    return SYSTEMS[name](remembering(), N, server=optax.sgd(RATE), block=block, mesh=mesh_of(devices))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_keeps_the_laws(name):
    """Laws 3, 4, 8, 11, 13 and 15 on 1, 2 and 8 devices; and it learns: the mean of the targets is its fixed point,
    or their median, where signs are sent."""
    data = targets(N, D)
    elsewhere = [system_of(name, block, devices) for block, devices in PLACES[name]]
    state, infos = check_system(
        system_of(name), KEY, jnp.zeros(D), data, rounds=40, elsewhere=elsewhere, bounded=name in BOUNDED
    )
    assert len(np.unique(np.asarray(state.params))) > 1
    accepted = sum(np.bincount(info.client[info.counted], minlength=N) for info in jax.device_get(infos))
    chex.assert_trees_all_equal(np.asarray(state.memory), accepted.astype(np.int32))
    moves = [np.where(info.status == 0, info.direction, 0) for info in jax.device_get(infos)]
    late = -RATE * np.cumsum(moves, axis=0)[-15:]
    np.testing.assert_allclose(late[-1], state.params, atol=1e-4)
    weight = np.asarray(data.count) / np.asarray(data.count).sum()
    examples = np.asarray(data.examples)
    centre = np.median(examples, axis=0) if "vote" in name else (examples * weight[:, None]).sum(0)
    near = 0.7 if name == "two_tone_vote" else 0.5  # lost clients and unknown phases: noise
    assert np.abs(np.mean(late, axis=0) - centre).mean() < near * np.abs(centre).mean()


class TestSystemsInOtherWays(chex.TestCase):
    """A step that is not compiled."""

    @chex.variants(without_jit=True, with_device=True)
    def test_a_system(self):
        check_system(system_of("fedavg"), KEY, jnp.zeros(D), targets(N, D), rounds=2, variant=self.variant)


def secagg_of(**how):
    return systems.secagg(towards_target(), num_clients=N, block=7, mesh=None, **how)


def begun(data):
    return secagg_of().init(KEY, jnp.zeros(D), data)


@jax.jit
def secagg_round(state, data, dropout, levels):
    return secagg_of(dropout=dropout, levels=levels).step(KEY, state, data)


def test_too_few_survivors_abort_the_round_and_the_run_goes_on():
    data, outcomes = targets(N, D), []
    state = begun(data)
    for _ in range(12):
        new, info = secagg_round(state, data, dropout=0.45, levels=2.0**16)
        enough = int((info.bits["upload"].up > 0).sum()) >= N // 2 + 1
        assert (int(info.status) == 0) == enough
        assert same_bits(new.params, state.params) == (not enough)
        assert enough or int(info.status) == Status.NOT_RECOVERED
        outcomes.append(enough)
        state = new
    assert len(set(outcomes)) == 2


def test_an_overflowing_field_sets_its_bit():
    """Law 9."""
    data = targets(N, D)
    before = begun(data)
    after, info = secagg_round(before, data, dropout=0.0, levels=2.0**31)
    assert int(info.status) == Status.FIELD_OVERFLOW
    assert same_bits(after, before._replace(round=before.round + 1))
