"""Uploads beyond a norm are in no sum and cost nobody else; all others are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from fedjax_priv.attacks import random_elements
from fedjax_priv.base import ClientData
from fedjax_priv.crypto import field
from fedjax_priv.layers import clip, plain_field, quantize, stack, stateless, validate_norm
from fedjax_priv.layers.proof_sizes import PROOF_BITS, bulletproof_bits, risefl_bits, rofl_bits
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
        private, public, _ = both.advertise(KEY, both.init(KEY, 3), cohort_of(3))
        sent = both.encode(KEY, private, public, x, cohort_of(3))[2]
        assert sent.valid.tolist() == [True, False, False]


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
    assert {*PROOF_BITS} == {"rofl", "risefl"}


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
    (
        lambda: secagg(of_the_round(VECTORS), num_clients=N, norm_bound=1.0, clip=1.0, noise_variance=1.0),
        "norm_bound must not be given with noise_variance",
    ),
)
