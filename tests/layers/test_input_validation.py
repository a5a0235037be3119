"""Uploads beyond a norm are in no sum and cost nobody else; all others are."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedjax_priv.aggregators import coordinate_median
from fedjax_priv.attacks import random_elements
from fedjax_priv.base import ClientData
from fedjax_priv.crypto import field
from fedjax_priv.layers import clip, enrolled_masks, plain_field, quantize, stack, stateless, validate_norm
from fedjax_priv.layers.proof_sizes import (
    bits_of_each,
    bulletproof_bits,
    eiffel_bits,
    proof_bits,
    range_bits,
    risefl_bits,
    rofl_bits,
)
from fedjax_priv.layers.rounded_norm import is_within_any, squared_norm_bound
from fedjax_priv.status import Status
from fedjax_priv.systems import compose, secagg
from helpers import cohort_of, of_the_round, refuses

N, D, LEVELS, BOUND = 6, 5, 2.0**8, 2.0
KEY = jax.random.key(3)
DATA = ClientData(jnp.zeros((N, 1)), jnp.ones(N, jnp.int32))
VECTORS = jnp.asarray(np.random.default_rng(0).uniform(-0.5, 0.5, (N, 1, D)), jnp.float32)
OTHERS = [0, 1, 3, 4, 5]


@functools.cache
def rounds(**how):
    """`(scale of client 2's update) -> (state, info)`; the round that everybody's program shares."""

    def run(scale):
        vectors = VECTORS.at[2].multiply(scale)
        system = compose(of_the_round(vectors), num_clients=N, levels=LEVELS, mesh=None, block=4,
                         observe=lambda view: view, **how)  # fmt: skip
        return system.step(KEY, system.init(KEY, jnp.zeros(D), DATA), DATA)

    return jax.jit(run)


def masked():
    return rounds(secure="secagg", norm_bound=BOUND)


def mean_of(clients):
    return np.asarray(VECTORS)[clients, 0].mean(0)


def test_an_upload_that_is_too_long_is_left_out_and_costs_nobody_else():
    """The mean is that of the others, of whom none fails; without proofs the same upload moves it as it likes."""
    _, info = masked()(1e3)
    np.testing.assert_allclose(info.direction, mean_of(OTHERS), atol=1 / LEVELS)
    assert int(info.status) == 0
    assert np.flatnonzero(~info.counted).tolist() == [2] == np.flatnonzero(info.measured["rejected"]).tolist()
    _, control = rounds(secure="secagg")(1e3)
    assert control.counted.all() and np.abs(control.direction - mean_of(OTHERS)).max() > 10


def test_short_uploads_are_all_in_the_sum_with_the_same_bits_as_without_proofs():
    _, info = masked()(1.0)
    _, control = rounds(secure="secagg")(1.0)
    assert info.counted.all() and not info.measured["rejected"].any()
    np.testing.assert_array_equal(info.direction, control.direction)


def test_masks_change_no_bit_of_a_sum_with_a_rejected_upload():
    _, info = masked()(1e3)
    _, clear = rounds(secure="field", norm_bound=BOUND)(1e3)
    np.testing.assert_array_equal(info.direction, clear.direction)


def test_the_server_holds_a_rejected_upload_masked_and_is_told_no_share_of_its_mask():
    """Survivors open the key of who is not in the sum, as of who is lost; never the seed of its private mask."""
    _, info = masked()(1e3)
    view, grid = jax.device_get(info.observed), np.round(np.asarray(VECTORS)[2, 0] * 1e3 * LEVELS)
    assert np.flatnonzero(~view.alive).tolist() == [2]
    assert view.uploads[2].any() and (np.abs(view.uploads[2].astype(np.int64) - grid) > 2).any()
    survivors = view.header["mask"].online
    assert np.flatnonzero(~survivors).tolist() == [2]


def test_proofs_are_paid_for_by_whose_upload_arrived_rejected_or_not():
    """The size that RiseFL's code computes; the phases after it go on without who was rejected."""
    _, info = masked()(1e3)
    _, control = rounds(secure="secagg")(1e3)
    extra = np.asarray(info.bits["upload"].up) - np.asarray(control.bits["upload"].up)
    assert extra.tolist() == [risefl_bits(D)] * N
    assert info.bits["unmask"].up[2] == 0 < control.bits["unmask"].up[2]


def test_an_honest_overflow_costs_its_own_client_only():
    """Without proofs its check of itself fails the whole sum."""
    _, info = masked()(2.0**30)
    assert int(info.status) == 0 and not info.counted[2]
    _, control = rounds(secure="secagg")(2.0**30)
    assert int(control.status) & Status.FIELD_OVERFLOW


def test_field_elements_of_an_attacker_are_what_is_checked():
    """Uniform elements, put in the place of an update, never pass."""
    _, info = rounds(secure="field", norm_bound=BOUND, num_byzantine=1, field_attack=random_elements())(1.0)
    assert not info.counted[0] and info.counted[1:].all()
    np.testing.assert_allclose(info.direction, mean_of([1, 2, 3, 4, 5]), atol=1 / LEVELS)


def test_an_upload_must_be_accepted_by_every_layer_that_checks():
    """(-4, -5) is what rounding may make of a vector of norm 5, (3, 6) is not. Layers that check nothing accept all."""
    x = field.from_signed(jnp.array([[-4, -5], [3, 6], [300, 400]]))
    strict, lax, silent = (validate_norm(5.0), validate_norm(50.0), stateless())
    unnamed = lambda layer: layer._replace(encode=lambda *given: _without_measures(*layer.encode(*given)))
    for layers in ((strict, unnamed(lax)), (lax, unnamed(strict)), (strict, silent), (silent, strict)):
        both = stack(a=layers[0], b=layers[1], send=plain_field())

        @jax.jit
        def valid(x, both=both):
            private, public, _ = both.advertise(KEY, both.init(KEY, 3), cohort_of(3))
            return both.encode(KEY, private, public, x, cohort_of(3))[2].valid

        assert valid(x).tolist() == [True, False, False]


def _without_measures(y, state, sent):
    return y, state, sent._replace(measured=())


def test_nobody_left_fails_the_round():
    """Everything stays as it was, but for the number of the round."""
    state, info = rounds(secure="field", norm_bound=1e-2)(1.0)
    assert int(info.status) == Status.NOT_RECOVERED and not info.counted.any()
    assert int(state.round) == 1 and not state.params.any()


TOP = 2**31 - 1


@example(size=31, bound=2**64 - 2, values=[TOP] * 7)  # the upper words alone wrap
@example(size=31, bound=2**64 - 2, values=[TOP] * 4 + [131071, 512, 0])  # their sum is 2**32 - 1, and a carry is left
@given(
    size=st.integers(1, 31), bound=st.integers(0, 2**64 - 2),
    values=st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=7, max_size=7),
)  # fmt: skip
def test_norms_are_compared_exactly(size, bound, values):
    """At the very squared norm, one below it, and anywhere; sums beyond 64 bits are too long for every bound."""
    small = [v % 2**size for v in values]
    for z in (values, small):
        total = sum(v * v for v in z)
        for limit in {bound, min(total, 2**64 - 2), max(min(total, 2**64 - 1) - 1, 0)}:
            assert bool(is_within_any(jnp.asarray([z], jnp.int32), limit)[0]) == (total <= limit)


def test_an_honest_vector_at_the_bound_passes_however_it_is_rounded_and_one_a_half_longer_does_not():
    rng, d, norm = np.random.default_rng(0), 400, 300.0
    x = rng.normal(size=(2000, d))
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)

    def accepted(x):
        rounded = np.floor(x + rng.uniform(size=x.shape)).astype(np.int32)
        return np.asarray(is_within_any(jnp.asarray(rounded), squared_norm_bound(norm, d)))

    assert accepted(x).all() and not accepted(1.5 * x).any()


def test_no_client_that_clips_is_rejected_on_a_fine_grid():
    """2**28 grid points, of which float32 knows 1 in 16: vectors as clipped, by their exact squared norms in NumPy.

    Some are longer than stochastic rounding alone makes a vector of this norm; none is, with 2**-20 more.
    """
    d, n, levels, bound = 8, 400, 2.0**20, 256.0
    x = jnp.asarray(np.random.default_rng(0).normal(size=(n, d)) * 1e3, jnp.float32)
    above = stack(clip=clip(bound), grid=quantize(levels, max_terms=1), send=plain_field())
    private, public, _ = above.advertise(KEY, above.init(KEY, n), cohort_of(n))
    elements = jax.jit(above.encode)(KEY, private, public, x, cohort_of(n))[0]
    squares = [sum(v * v for v in row) for row in field.to_signed(elements).tolist()]
    assert max(squares) > squared_norm_bound(levels * bound, d)
    valid = jax.jit(validate_norm(levels * bound).encode)(KEY, (), (), elements, cohort_of(n))[2].valid
    assert valid.all() and max(squares) <= squared_norm_bound((1 + 2.0**-20) * levels * bound, d)


def test_sizes_of_proofs():
    """Of the papers: 672 bytes for one value of 64 bits, 1,760 for 2**20 of 8."""
    assert bulletproof_bits(64, 1) == 8 * 672 and bulletproof_bits(8, 2**20) == 8 * 1760
    assert risefl_bits(1000) == 8 * (32_000 + 3_207_104)
    assert rofl_bits(1000) - bulletproof_bits(32, 1000) == 8 * 64_000
    assert eiffel_bits(1000, 20) == 32 * 20 * 1000


def test_a_proof_of_ranges_has_a_bulletproof_of_as_many_bits_as_the_range():
    """Two values below 2**8 for each coordinate in [-127, 127], and below 2**9 from 128 on: 32 times their log2."""
    assert range_bits(2**19, 127) == 8 * 1760 and range_bits(2**19, 128) == 8 * (1760 + 64)
    assert rofl_bits(1000, 127) == 8 * 64_000 + 256 * (2 * 14 + 9)  # 16,000 bits
    assert risefl_bits(1000, 127) - risefl_bits(1000) == 256 * (2 * 14 + 9)


@pytest.mark.parametrize("proof", ["rofl", "risefl", "eiffel"])
@pytest.mark.parametrize("largest", [None, 127])
def test_bits_of_a_coordinate_are_said_only_where_all_cost_the_same(proof, largest):
    sizes = np.array([proof_bits(proof, d, group_size=N, largest=largest) for d in range(1, 70)])
    each = np.unique(np.diff(sizes)).tolist()
    assert bits_of_each(proof, group_size=N, largest=largest) == (each[0] if len(each) == 1 else ())


SIZES = {
    "rofl": lambda largest: rofl_bits(D, largest), "risefl": lambda largest: risefl_bits(D, largest),
    "eiffel": lambda largest: 32 * N * D,
}  # fmt: skip


@pytest.mark.parametrize("proof", SIZES)
@pytest.mark.parametrize("largest", [None, 257])
def test_a_proof_has_the_size_of_its_kind(proof, largest):
    assert proof_bits(proof, D, group_size=N, largest=largest) == SIZES[proof](largest)


def test_systems_pay_for_the_proof_that_was_chosen_and_a_long_entry_costs_its_own_client_only():
    """Entries of at most 1 are 256 grid points, and one more for products that are rounded.

    One client's largest entry is 1.04, and its norm 1.8, within the bound.
    """
    how, scale = dict(norm_bound=BOUND, max_entry=1.0), 2.1
    _, info = rounds(secure="field", proof="rofl", **how)(scale)
    assert (np.asarray(info.bits["upload"].up) == 32 * D + SIZES["rofl"](257)).all()
    vectors = N * VECTORS.at[2].multiply(scale)  # each weighs 1 / n
    alone = secagg(of_the_round(vectors), num_clients=N, levels=LEVELS, mesh=None, proof="eiffel", elide=True, **how)
    _, other = jax.jit(alone.step)(KEY, alone.init(KEY, jnp.zeros(D), DATA), DATA)
    assert (np.asarray(other.bits["upload"].up) == 32 * D + SIZES["eiffel"](257)).all()
    for of_either in (info, other):
        assert np.flatnonzero(~of_either.counted).tolist() == [2] and int(of_either.status) == 0
    np.testing.assert_allclose(info.direction, mean_of(OTHERS), atol=1 / LEVELS)
    _, control = rounds(secure="field", norm_bound=BOUND)(scale)
    assert control.counted.all()


def test_eiffel_shares_go_to_the_clients_of_a_sum():
    """Of a group, where there are groups."""
    how = dict(secure="field", buffer_size=3, aggregate=coordinate_median(), norm_bound=BOUND, proof="eiffel")
    _, info = rounds(**how)(1.0)
    assert (np.asarray(info.bits["upload"].up) == 32 * D + 32 * 3 * D).all()


@functools.cache
def checked(*given, **how):
    return jax.jit(validate_norm(*given, **how).encode)


def verdicts(z, *given, key=KEY, **how):
    """Of rows of grid points, as the layer gives them; it changes none of them."""
    x = (np.asarray(z).astype(np.int64) % int(field.Q)).astype(np.uint32)
    y, _, sent = checked(*given, **how)(key, (), (), x, cohort_of(len(z)))
    np.testing.assert_array_equal(x, y)
    valid = np.asarray(sent.valid)
    np.testing.assert_array_equal(np.asarray(sent.measured["rejected"]), ~valid)
    return valid


@given(
    max_entry=st.sampled_from([1, 7, 40]),
    values=st.lists(st.lists(st.integers(-45, 45), min_size=3, max_size=3), min_size=4, max_size=4),
)
@example(max_entry=7, values=[[8, 0, 0], [0, -8, 0], [0, 0, 9], [-9, 0, 0]])
@example(max_entry=7, values=[[7, 0, 0], [0, 0, -8], [0, -9, 8], [8, 8, 8]])
@settings(max_examples=20)
def test_entries_are_compared_exactly_at_each_coordinate(max_entry, values):
    """Both signs, in Python's integers; one above, since a float32 product of a grid and an entry rounds."""
    short = [all(abs(v) <= max_entry + 1 for v in row) for row in values]
    assert verdicts(values, 100.0, max_entry=float(max_entry)).tolist() == short


def test_an_upload_must_keep_within_both_bounds():
    """(40, 40) is longer than 50 though its entries are short; (45, 0) is not long but has a long entry."""
    assert verdicts([[40, 20], [40, 40], [45, 0], [0, -45]], 50.0, max_entry=41.0).tolist() == [1, 0, 0, 0]
    assert verdicts([[40, 20], [40, 40], [45, 0], [0, -45]], 50.0).tolist() == [1, 0, 1, 1]
    extreme = [[TOP, 0], [-TOP, 0], [0, 1]]
    assert verdicts(extreme, 2.0**30, max_entry=2.0**29).tolist() == [0, 0, 1]


def test_honest_entries_at_the_bound_pass_however_they_are_rounded():
    """Stochastic rounding moves 12.34 to 12 or 13; without room for that, half of all vectors would be rejected."""
    z = np.tile(np.float32([12.34, -12.34]), (200, 4))
    send = stack(grid=quantize(1.0, max_terms=1), send=plain_field())

    @jax.jit
    def rounded_by_clients(z):
        private, public, _ = send.advertise(KEY, send.init(KEY, 200), cohort_of(200))
        return field.to_signed(send.encode(KEY, private, public, z, cohort_of(200))[0])

    rounded = np.asarray(rounded_by_clients(z))
    assert np.abs(rounded).max() == 13 and np.abs(rounded).min() == 12
    assert verdicts(rounded, 100.0, max_entry=12.34).all() and not verdicts(rounded, 100.0, max_entry=10.99).any()


def test_projections_accept_what_is_a_little_too_long_and_a_strict_verdict_does_not():
    """1.1 times the bound passes with probability 1 - 1e-11, 1.6 times with 1e-16."""
    z = np.diag([1000, 1100, 1600, 10**6, TOP])
    bound = math.sqrt(squared_norm_bound(1000.0, 5)) / 1000
    scaled = np.minimum(np.round(z * bound), TOP)
    assert verdicts(scaled, 1000.0).tolist()[1:] == [0, 0, 0, 0]
    assert verdicts(scaled, 1000.0, verdict="projections").tolist() == [1, 1, 0, 0, 0]
    assert verdicts(scaled, 1000.0, verdict="projections", max_entry=900.0).tolist() == [0] * 5


def test_projections_are_of_the_round_and_no_client_or_block_has_its_own():
    """Vectors 1.3 times too long, of which 57% pass. Equal ones do so together; a cohort may be cut anywhere."""
    rows = np.diag(np.full(12, 1300))
    of = lambda z, key=KEY: verdicts(z, 1000.0, verdict="projections", key=key)
    first = of(rows)
    assert 0 < first.sum() < 12
    np.testing.assert_array_equal(first, np.concatenate([of(rows[:1]), of(rows[1:])]))
    np.testing.assert_array_equal(of(rows[[3] * 5 + [7] * 7]), first[[3] * 5 + [7] * 7])
    assert (first != of(rows, jax.random.key(4))).any()


def test_rounds_are_the_same_whatever_the_block_and_differ_from_round_to_round():
    """One client each, in a system: those that are accepted, and the sum of them."""
    n = 12
    vectors = jnp.tile(jnp.eye(n)[:, None] * 1.3, (1, 2, 1))

    def run(block):
        system = compose(of_the_round(vectors), num_clients=n, levels=2.0**16, mesh=None, block=block, secure="field",
                         norm_bound=1.0, verdict="projections")  # fmt: skip
        data = ClientData(jnp.zeros((n, 1)), jnp.ones(n, jnp.int32))
        step, state = jax.jit(system.step), system.init(KEY, jnp.zeros(n), data)
        state, first = step(KEY, state, data)
        return first, step(KEY, state, data)[1]

    (whole, after), (parts, _) = run(n), run(5)
    np.testing.assert_array_equal(whole.counted, parts.counted)
    np.testing.assert_array_equal(whole.direction, parts.direction)
    assert 0 < whole.counted.sum() < n and (np.asarray(whole.counted) != np.asarray(after.counted)).any()


def rejecting(masks):
    system = secagg(of_the_round(VECTORS), num_clients=N, norm_bound=BOUND, secure_sum=masks)
    return jax.eval_shape(system.step, KEY, jax.eval_shape(system.init, KEY, jnp.zeros(D), DATA), DATA)


@jax.jit
def traced(bound):
    return secagg(of_the_round(VECTORS), num_clients=N, norm_bound=bound)


def encode(levels_of_d):
    layer = validate_norm(1.0, proof="rofl")
    return jax.eval_shape(lambda x: layer.encode(KEY, (), (), x, cohort_of(1)), levels_of_d)


def huge():
    layer = validate_norm(2.0**31)
    return jax.eval_shape(lambda x: layer.encode(KEY, (), (), x, cohort_of(1)), jnp.zeros((1, 3), jnp.uint32))


test_bad_input_is_one_line = refuses(
    lambda call: call(),
    (lambda: validate_norm(0.0), "max_norm must be"),
    (lambda: encode(jax.ShapeDtypeStruct((1, 2**23), jnp.uint32)), "proof must be shorter"),
    (huge, "max_norm must be below"),
    (lambda: secagg(of_the_round(VECTORS), num_clients=N, norm_bound=-1.0), "norm_bound must be"),
    (lambda: traced(1.0), "norm_bound must be"),
    (lambda: rejecting(enrolled_masks(group_size=N)), "layers must end in masks that hide rejected uploads, such as"),
    (lambda: validate_norm(1.0, max_entry=0.0), "max_entry must be a finite number > 0, got 0.0"),
    (lambda: validate_norm(1.0, max_entry=2.0), "max_entry must be at most max_norm = 1, got 2"),
    (lambda: validate_norm(1.0, max_entry=1.0, noise_variance=1.0), "max_entry must not be given with noise_variance"),
    (lambda: validate_norm(1.0, noise_variance=-1.0), "noise_variance must be a finite number >= 0, got -1.0"),
    (lambda: validate_norm(1.0, proof="eiffel"), "group_size must be given with proof='eiffel'"),
    (lambda: validate_norm(1.0, group_size=0), "group_size must be an integer >= 1, got 0"),
    (
        lambda: validate_norm(1.0, proof="rofl", verdict="projections"),
        "proof must be 'risefl' with verdict='projections', got 'rofl'",
    ),
    (lambda: verdicts([[1]], 2.0**25, verdict="projections"), "max_norm must be below 19173961 grid points with verd"),
)
