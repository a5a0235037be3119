"""Proofs that uploads are short, as options of systems: with noise in the sum, and what they do not go with."""

import functools
import math
import re

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from systems.same_parts import alike, parts_of
from systems.test_distributed_noise import round_of

from fedjax_priv.base import ClientData
from fedjax_priv.layers import plain_field
from fedjax_priv.layers.input_validation import NOISY
from fedjax_priv.layers.rounded_norm import squared_norm_bound
from fedjax_priv.ledger import ledger
from fedjax_priv.systems import compose, secagg
from fedjax_priv.systems._distributed_noise import ACCEPTED
from fedjax_priv.systems.composition import Stack, why_not
from helpers import of_the_round, towards_target

N, D, LEVELS, CLIP, VARIANCE = 6, 400, 2.0**8, 1.0, 0.01
KEY = jax.random.key(5)
DATA = ClientData(jnp.zeros((N, 1)), jnp.ones(N, jnp.int32))
DIRECTIONS = np.random.default_rng(0).normal(size=(N, 1, D))
UNIT = jnp.asarray(DIRECTIONS / np.linalg.norm(DIRECTIONS, axis=2, keepdims=True), jnp.float32)
NOISE = D * VARIANCE * LEVELS**2
"""By which honest squared norms grow, in grid points: four times that of the updates."""


@functools.cache
def rounds(**how):
    """`norm -> info` of a round in which Byzantine client 0 sends a vector of this norm; all others clip to 1."""

    def run(norm):
        system = compose(
            of_the_round(2 * UNIT), num_clients=N, levels=LEVELS, mesh=None, block=4, num_byzantine=1, clip=CLIP,
            secure="secagg", private="field", noise_variance=VARIANCE, elide=True,
            attack=lambda key, updates, honest, byzantine: norm * UNIT[0, :1], **how,
        )  # fmt: skip
        return system.step(KEY, system.init(KEY, jnp.zeros(D), DATA), DATA)[1]

    compiled = jax.jit(run)
    return lambda norm: compiled(jnp.float32(norm))


def test_honest_uploads_are_proved_with_the_noise_that_they_hold():
    """All of them pass, and the sum is the same bit for bit; without room for noise none would."""
    info, control = rounds(norm_bound=CLIP)(1.0), rounds()(1.0)
    assert info.counted.all() and int(info.status) == 0
    np.testing.assert_array_equal(info.direction, control.direction)
    assert 3 * squared_norm_bound(LEVELS * CLIP, D) < NOISE


def test_an_attacker_may_be_as_long_as_noisy_uploads_are_and_runs_say_how_long():
    """About sqrt(1 + d variance) = 2.24, and 35% more at only 400 coordinates, so that all honest ones pass."""
    proved = rounds(norm_bound=CLIP)
    norm = np.asarray(proved(1.0).measured["accepted_norm"]) / LEVELS
    assert norm.shape == (N,) and (norm == norm[0]).all()
    assert math.sqrt(CLIP**2 + D * VARIANCE) < norm[0] < 1.4 * math.sqrt(CLIP**2 + D * VARIANCE)
    for factor, accepted in ((0.99, True), (1.02, False)):
        info = proved(factor * norm[0])
        assert info.counted[0] == accepted == ~info.measured["rejected"][0] and info.counted[1:].all()


def test_projections_of_noisy_uploads_have_the_same_bound():
    """1.1 times the reported norm is accepted, 1.6 times is not."""
    proved = rounds(norm_bound=CLIP, verdict="projections")
    norm = np.asarray(rounds(norm_bound=CLIP)(1.0).measured["accepted_norm"])[0] / LEVELS
    assert [bool(proved(factor * norm).counted[0]) for factor in (1.1, 1.6)] == [True, False]
    assert proved(1.6 * norm).counted[1:].all()


def test_secagg_is_the_same_system():
    how = dict(num_clients=N, levels=LEVELS, mesh=None, clip=CLIP, noise_variance=VARIANCE, norm_bound=1.5)
    local = of_the_round(2 * N * UNIT)
    system = secagg(local, **how)
    composed = compose(local, secure="secagg", private="field", weigh="expected", **how)
    assert alike(parts_of(system), parts_of(composed)) and alike(system.release, composed.release)
    assert not alike(parts_of(system), parts_of(secagg(local, **how | {"norm_bound": 1.6})))
    assert system.caveats[-1] == NOISY == composed.caveats[-1]


def test_without_noise_the_accepted_norm_is_the_bound_after_rounding():
    system = secagg(of_the_round(UNIT), num_clients=N, levels=LEVELS, mesh=None, norm_bound=3.0,
                    secure_sum=plain_field())  # fmt: skip
    info = jax.jit(lambda: system.step(KEY, system.init(KEY, jnp.zeros(D), DATA), DATA)[1])()
    bound = math.sqrt(squared_norm_bound(3 * LEVELS, D))
    np.testing.assert_allclose(info.measured["accepted_norm"], bound, rtol=2e-6)
    assert NOISY not in system.caveats


def test_noise_that_clients_add_before_the_proof_makes_no_upload_longer_than_its_bound():
    """It is part of what is proved, unlike noise on field elements."""
    system = compose(
        of_the_round(UNIT), num_clients=N, levels=LEVELS, mesh=None, clip=CLIP, secure="secagg", private="local",
        noise_variance=VARIANCE, norm_bound=CLIP, elide=True,
    )  # fmt: skip
    info = jax.jit(lambda: system.step(KEY, system.init(KEY, jnp.zeros(D), DATA), DATA)[1])()
    bound = math.sqrt(squared_norm_bound(LEVELS * CLIP, D))
    np.testing.assert_allclose(info.measured["accepted_norm"], bound, rtol=2e-6)
    assert info.measured["rejected"].all(), "of deviation 0.1 at 400 coordinates: 2.2 bounds"


def test_noise_that_suffices_alone_counts_in_the_norm():
    """With room for it, `sqrt(C^2 + d variance)` and 15% more, all honest uploads pass; 15% below none does."""

    @jax.jit
    def rejected():
        def one(bound):
            system = compose(
                of_the_round(UNIT), num_clients=N, levels=LEVELS, mesh=None, clip=CLIP, secure="field",
                private="local", noise_variance=VARIANCE, norm_bound=bound, block=N,
            )  # fmt: skip
            return system.step(KEY, system.init(KEY, jnp.zeros(D), DATA), DATA)[1].measured["rejected"]

        longest = math.sqrt(CLIP**2 + D * VARIANCE)
        return one(0.85 * longest), one(1.15 * longest)

    below, above = rejected()
    assert below.all() and not above.any()


def test_the_ledger_says_that_honest_proofs_are_taken_to_be_accepted():
    """The figure is that without proofs."""
    noisy = dict(num_clients=N, clip=1.0, noise_variance=1.0, levels=16.0)
    proved, alone = (
        ledger(secagg(towards_target(), **noisy, **how), round_of(N, 5), DATA, delta=1e-5)[0].proved
        for how in ({"norm_bound": 1.0}, {})
    )
    np.testing.assert_array_equal(proved.epsilon, alone.epsilon)
    assert ACCEPTED in proved.why and ACCEPTED not in alone.why


@pytest.fixture
def without_checks_of_annotations():
    """As users call these functions."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


BOUND, NOISY_SUM = {"norm_bound": 2.0}, {"norm_bound": 2.0, "clip": 1.0, "noise_variance": 1.0}
REFUSED = [
    (BOUND | {"proof": "acorn"}, "proof must be one of 'rofl', 'risefl', 'eiffel', got 'acorn'"),
    (BOUND | {"verdict": "lax"}, "verdict must be one of 'strict', 'projections', got 'lax'"),
    (BOUND | {"proof": "rofl", "verdict": "projections"}, "proof must be 'risefl' with verdict='projections', got"),
    (BOUND | {"max_entry": 0.0}, "max_entry must be a finite number > 0, got 0.0"),
    (BOUND | {"max_entry": 3.0}, "max_entry must be at most norm_bound = 2, which bounds each entry, got 3"),
    ({"max_entry": 3.0}, "norm_bound must be given with max_entry: the norm is proved, too"),
    ({"proof": "rofl"}, "norm_bound must be given with proof='rofl': without one nothing is proved"),
    ({"verdict": "projections"}, "norm_bound must be given with verdict='projections': without one nothing is"),
    (NOISY_SUM | {"clip": 2.5}, "norm_bound must be at least clip = 2.5 with noise in the sum, got 2: verdicts"),
    (NOISY_SUM | {"max_entry": 1.0}, "max_entry must not be given with noise in the sum: verdicts on entries"),
]


@pytest.mark.usefixtures("without_checks_of_annotations")
@pytest.mark.parametrize(("how", "sentence"), REFUSED, ids=lambda case: "")
def test_bad_arguments_are_one_line_in_both_systems(how, sentence):
    private = {"private": "field"} if "noise_variance" in how else {}
    for system in (secagg, functools.partial(compose, secure="secagg", weigh="expected", **private)):
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
            system(towards_target(), num_clients=N, levels=LEVELS, **how)


@pytest.mark.parametrize("value", ["rofl", "eiffel"])
def test_no_option_of_proofs_is_lost_where_uploads_are_in_the_clear(value):
    with pytest.raises(ValueError, match=f"^norm_bound must be given with proof='{value}'"):
        compose(towards_target(), num_clients=N, proof=value)
    assert compose(towards_target(), num_clients=N, proof="risefl", verdict="strict").caveats == ()


def test_a_stack_says_the_same_before_anything_is_built():
    of = functools.partial(Stack, num_clients=N, secure="secagg")
    noisy = functools.partial(of, private="field", clip=2.0, noise_variance=1.0)
    assert why_not(noisy(norm_bound=2.0)) is None is why_not(of(norm_bound=2.0, max_entry=1.0))
    for stack in (of(max_entry=1.0), noisy(norm_bound=1.9), noisy(norm_bound=2.0, max_entry=1.0)):
        assert why_not(stack).code == "P"


def test_bounds_cannot_be_traced():
    def make(value):
        secagg(towards_target(), num_clients=N, norm_bound=9.0, max_entry=value)
        return value

    with pytest.raises(ValueError, match="^max_entry must be known when the program is compiled"):
        jax.jit(make)(1.0)
