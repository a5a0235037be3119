"""Buffers under masks: the weighed sum of integers, masks by job, bits, noise; and what two answers would give away."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from fedjax_priv.clients import buffered, everyone, weighed_by_staleness
from fedjax_priv.crypto.lattice import spacing_of, spacing_of_weighed
from fedjax_priv.layers import average, coded_masks, enrolled_masks, pairwise_masks, plain_field, quantize, stack
from fedjax_priv.layers.coded_mask import code_of, pieces_of
from fedjax_priv.status import Status
from fedjax_priv.systems import fedbuff, secure_fedbuff
from helpers import (
    Q,
    cohort_of,
    engine,
    of_the_round,
    refuses,
    remembering,
    rounds_of,
    run_layer,
    same_bits,
    survivors,
    targets,
)

KEY, N, D, K, M, ROUNDS = jax.random.key(9), 12, 8, 3, 9, 10
DATA = targets(N, D)
GRID: dict[str, Any] = dict(weight_levels=8, levels=2.0**10)
MASKS: dict[str, dict[str, Any]] = {
    "coded": dict(colluders=1, lost=0, **GRID), "one_shot": dict(committee=3, threshold=2, fewest=2, length=4, **GRID)
}  # fmt: skip


def system_of(masks: Any = "coded", **how: Any):
    usual: Any = dict(num_clients=N, num_params=D, buffer_size=K, concurrency=M, block=2, mesh=None)
    return secure_fedbuff(how.pop("local", remembering()), masks=masks, **usual | MASKS[masks] | how)


@functools.cache
def run(masks, **how):
    return jax.device_get(rounds_of(system_of(masks, **how), KEY, jnp.zeros(D), DATA, ROUNDS))


@pytest.fixture(scope="module")
def enclave():
    """The same buffers, whose field elements are added in the clear."""
    system = fedbuff(
        remembering(), num_clients=N, buffer_size=K, concurrency=M, weight_levels=8, levels=2.0**10,
        normalize="weights", secure_sum=plain_field(), block=2, mesh=None,
    )  # fmt: skip
    return jax.device_get(rounds_of(system, KEY, jnp.zeros(D), DATA, ROUNDS))


@pytest.mark.parametrize("masks", MASKS)
def test_the_model_is_that_of_the_plain_integer_sum(masks, enclave):
    states, infos = run(masks)
    assert not infos.status.any() and infos.measured["staleness"].max() > 3
    assert len(np.unique(infos.measured["factor"])) > 3 and infos.measured["factor"].max() == 8
    assert same_bits(states.params, enclave[0].params)


@pytest.mark.parametrize(("masks", "fresh"), [("coded", 64), ("one_shot", 8)])
def test_factors_if_not_given(masks, fresh):
    system: Any = system_of(masks, weight_levels=None, levels=None)
    jobs = buffered(K, M, max_staleness=14).init(KEY, N)
    assert (jax.jit(system.draw)(KEY, jobs, jnp.int32(0), jnp.ones(N, jnp.int32))[0].factor == fresh).all()


def test_against_a_loop():
    """Factors, staleness and clients are the run's; the rest is computed again, in float64."""
    states, infos = run("coded")
    x, history = np.asarray(DATA.examples, float), [np.zeros(D)]
    for round, (who, late) in enumerate(zip(infos.client, infos.measured["staleness"], strict=True)):
        factor = infos.measured["factor"][round].astype(float)
        update = np.array([history[round - tau] - x[i] for i, tau in zip(who, late, strict=True)])
        history.append(history[-1] - factor @ update / factor.sum())
    np.testing.assert_allclose(states.params, history[1:], atol=1e-3)


def test_factors_are_rounded_at_random_and_fresh_ones_are_exact():
    """Of mean c s(tau); at power 1, staleness 2, c = 64: 21 or 22, the latter a third of the time."""
    stale = lambda draw: draw._replace(apply=lambda *a: (draw.apply(*a)[0]._replace(staleness=late), ()), versions=9)
    late = jnp.array([0, 1, 2, 3] * 500)
    draw: Any = weighed_by_staleness(stale(everyone()), 1.0, levels=64)
    (who, _), counts = draw.apply(KEY, (), jnp.int32(0), jnp.ones(2000, int)), np.asarray(late)
    factor = np.asarray(who.factor)
    assert all({*factor[counts == tau].tolist()} == {64 // (tau + 1)} for tau in (0, 1, 3))
    assert {*factor[counts == 2].tolist()} == {21, 22}
    assert abs((factor[counts == 2] == 22).mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / 500)
    assert draw.measures(who, ())["factor"] is who.factor


@pytest.mark.parametrize(("versions", "power"), [(49, 1.0), (98, 1.0), (49**2, 0.5), (75**2, 0.5)])
def test_the_fewest_levels_leave_the_most_stale_a_factor_of_one(versions, power):
    """49 * 49**-1.0 is below 1 in floating point."""
    fewest = round(versions**power)
    draw = everyone()._replace(versions=versions)
    late = lambda *a: (everyone().apply(*a)[0]._replace(staleness=jnp.full(4, versions - 1)), ())
    weighed: Any = weighed_by_staleness(draw._replace(apply=late), power, levels=fewest)
    assert weighed.apply(KEY, (), jnp.int32(0), jnp.ones(4, int))[0].factor.tolist() == [1] * 4
    with pytest.raises(ValueError, match=f"levels must be from {fewest} to"):
        weighed_by_staleness(draw, power, levels=fewest - 1)


def test_equal_weights_of_one_model_are_a_synchronous_round():
    """All staleness 0 and c_g = 1: the bits of a round of everybody, of the same integers in the clear."""
    how = dict(buffer_size=N, concurrency=None, max_staleness=0, weight_levels=1, colluders=3, lost=2,
               elide=True)  # fmt: skip
    states, infos = run("coded", **how)
    assert not infos.measured["staleness"].any() and (infos.measured["factor"] == 1).all()
    layers = stack(average=average(), quantize=quantize(2.0**10, N), sum=plain_field())
    same = engine(cohort=everyone(), local=remembering(), layers=layers)
    assert same_bits(states.params, jax.device_get(rounds_of(same, KEY, jnp.zeros(D), DATA, ROUNDS))[0].params)
    assert not same_bits(states.params, run("coded")[0].params)


@functools.cache
def lossy():
    """U = 2 of three; half of each update is 0, so half of an upload is its mask."""
    updates = np.random.default_rng(3).normal(size=(N, 40, D)).astype(np.float32)
    updates[:, :, 4:] = 0
    how: Any = dict(dropout=0.3, leave=0.2, threshold=2, lost=1, observe=lambda view: view.uploads)
    system = system_of(local=of_the_round(jnp.asarray(updates)), **how)
    return updates, *jax.device_get(rounds_of(system, KEY, jnp.zeros(D), DATA, 40))


def test_a_lost_upload_is_in_no_sum_and_too_few_answers_open_none():
    updates, states, infos = lossy()
    failed, arrived = infos.status != 0, infos.bits["upload"].up > 0
    assert 5 < failed.sum() < 30 and (infos.status[failed] == Status.NOT_RECOVERED).all()
    assert (arrived[~failed].sum(1) >= 2).all() and not arrived[~failed].all()
    factor = infos.measured["factor"] * arrived
    sums = np.einsum("rk,rkd->rd", factor, updates[infos.client, np.arange(40)[:, None]])
    moved = np.diff(np.concatenate([np.zeros((1, D)), states.params]), axis=0)
    np.testing.assert_allclose(moved, -sums * ~failed[:, None] / np.maximum(factor.sum(1), 1)[:, None], atol=2e-3)


def test_how_often_too_few_are_left():
    """The default threshold is 6 of 8. As many rounds fail as by the binomial law, within 4 standard errors. Control: a
    threshold of 5 would be twice as far off.
    """
    rounds, stays = 2_000, 0.9 * 0.95
    system = secure_fedbuff(
        remembering(), num_clients=20, num_params=D, buffer_size=8, concurrency=12, levels=2.0**10, weight_levels=8,
        dropout=0.1, leave=0.05, elide=True, mesh=None,
    )  # fmt: skip
    _, infos = rounds_of(system, KEY, jnp.zeros(D), targets(20, D), rounds)
    failed, expected = float((infos.status != 0).mean()), binom.cdf(5, 8, stays)
    error = np.sqrt(expected * (1 - expected) / rounds)
    assert abs(failed - expected) < 4 * error < (expected - binom.cdf(4, 8, stays)) / 2


def test_no_mask_is_used_twice():
    """Each job has its own. Control: where rounds fail clients begin twice from one model, so masks by client and
    model would repeat.
    """
    _, _, infos = lossy()
    arrived = infos.bits["upload"].up > 0
    masks = infos.observed[arrived][:, 4:]
    assert len(masks) > 60 and len(np.unique(masks)) == masks.size
    model = np.concatenate([[0], np.cumsum(infos.status == 0)])  # how many were made before each round
    jobs = np.stack([infos.client, model[np.arange(40)[:, None] - infos.measured["staleness"]]], -1)[arrived]
    assert len(np.unique(jobs, axis=0)) < len(jobs)


SMALL = coded_masks(num_values=6, group_size=3, colluders=1, lost=0, holders=4)


@jax.jit
def _opened(factor, x, client):
    who = cohort_of(3)._replace(factor=factor, client=client)
    return run_layer(SMALL, KEY, jnp.full((3, 6), x, jnp.uint32), who, survivors(3))


def opened(factor, x=0, client=(0, 1, 2)):
    """A buffer of three under coded masks; one program."""
    return _opened(np.array(factor, np.uint32), np.uint32(x), np.array(client, np.int32))


def test_two_answers_with_other_factors_give_each_mask():
    """Why holders answer once for a job: two buffers over the same jobs are two equations for the sum of masks times
    factors, and their difference is one mask. Twice the same factors are one equation.
    """

    def total(factor):
        """What answers give: updates are 0, and nothing is left of the sum of uploads."""
        found = opened(factor)
        assert not np.asarray(found["received"].value).any()
        return (np.asarray(found["upload"]).astype(object) * np.array(factor)[:, None]).sum(0) % Q

    one, other, code = total([2, 1, 5]), total([3, 1, 5]), code_of(6, 3, 1, 0, None, 4)
    pieces = jax.jit(pieces_of, static_argnums=0)(code, opened([2, 1, 5])["private"], jnp.int32(0))
    z = np.moveaxis(np.asarray(pieces)[: code.pieces], 1, 0).reshape(3, -1)[:, :6]
    assert ((other - one) % Q == z[0]).all() and (total([2, 1, 5]) == one).all()
    assert all(((one * a) % Q != z).all() for a in range(1, 6))


def test_bits_of_a_coded_buffer():
    """L = 4 words to each of 11 others, when a job begins; a list of one byte and three factors to who is asked."""
    _, infos = run("coded")
    link = {phase: (bits.up[0].tolist(), bits.down[0].tolist()) for phase, bits in infos.bits.items()}
    shares = 11 * 4 * 32
    assert link["share"] == ([shares] * K, [shares] * K)
    assert link["unmask"] == ([4 * 32] * K, [8 + 3 * 32] * K)
    assert link["upload"] == ([32 * D] * K, [0] * K) and link["advertise"] == ([64] * K, [0] * K)
    _, single = run("one_shot")
    asked = single.bits["unmask"]
    assert {*asked.up.ravel().tolist()} == {4 * 32} and {*asked.down.ravel().tolist()} == {3 * 4 * 32 + 3 * 32}


def test_a_client_that_holds_no_share_fails_the_round():
    count = lambda client: opened([4, 1, 2], client=client)["received"].count.tolist()
    assert count([0, 2, 3]) == [3] and count([0, 2, 4]) == [0]


def test_an_upload_times_zero_hides_nobody():
    received = lambda factor: opened(factor, x=1)["received"]
    assert received([4, 1, 0]).count.tolist() == [0]
    assert received([4, 1, 2]).count.tolist() == [3] and (np.asarray(received([4, 1, 2]).value) == 7).all()


def test_errors_times_factors_are_rounded_away_up_to_the_spacing():
    """Two of the lattice's bounds: certain, and Hoeffding's, which is near the exact tail for factors of 1."""
    assert spacing_of_weighed(7, 21, 100, 0.0, 5) == 5 * (spacing_of(7, 21, 100, 0.0) - 1) + 1
    for n in (10, 1000):
        bound, exact = spacing_of_weighed(n, 21, 165_000, 1e-12, 1), spacing_of(n, 21, 165_000, 1e-12)
        assert exact <= bound < 1.07 * exact
    signs = np.random.default_rng(0).integers(0, 2, (20_000, 2 * 21 * 4)) - 0.5
    total = abs(signs @ np.repeat([8, 5, 8, 3], 2 * 21))  # d = 1 for 2e4 draws: 200 failures at most
    least = spacing_of_weighed(4, 21, 1, 0.01, 8) // 2
    assert 0 < (total > least).mean() + 1e-9 <= 0.01 and (total > least / 2).mean() > 0.01


def test_noise_is_on_the_opened_sum_of_clipped_updates():
    """Deviation z C / K on the mean; without noise the first direction is the mean of three fresh updates of norm C."""
    wide, zeros = targets(N, 2000), jnp.zeros(2000)
    how: Any = dict(num_params=2000, clip=0.1, levels=2.0**12, elide=True)
    rounds = jax.jit(lambda z: rounds_of(system_of(noise_multiplier=z, **how), KEY, zeros, wide, 2)[1])
    silent, noisy = jax.device_get((rounds(0.0), rounds(2.0)))
    noise = (noisy.direction - silent.direction)[0] / (2.0 * 0.1 / K)
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * 2000) and abs(noise.mean()) < 4 / np.sqrt(2000)
    update = -np.asarray(wide.examples)[silent.client[0]]
    clipped = 0.1 * update / np.linalg.norm(update, axis=1, keepdims=True)
    np.testing.assert_allclose(silent.direction[0], clipped.mean(0), atol=2e-4)
    assert abs(clipped.mean(0)).max() > 2e-3


test_bad_arguments = refuses(
    lambda how: system_of(**how),
    (dict(masks="one_shot", colluders=2), "colluders must not be given with masks='one_shot', got 2"),
    (dict(committee=2), "committee must not be given with masks='coded', got 2"),
    (dict(coins=3), "coins must not be given with masks='coded', got 3"),
    (dict(failure=0.1), "failure must not be given with masks='coded', got 0.1"),
    (dict(buffer_size=1), "buffer_size must be an integer >= 2, got 1"),
    (dict(weight_levels=2), "weight_levels must be from 4 to 65536, so that no factor is 0 up to staleness 14, got 2"),
    (
        dict(weight_levels=2**17),
        "weight_levels must be from 4 to 65536, so that no factor is 0 up to staleness 14, got 131072",
    ),
    (
        dict(masks="one_shot", weight_levels=2**12),
        "weight_levels must leave room for sums of 12288 in the field, got 4096",
    ),
    (
        dict(clip=1000.0, weight_levels=64, levels=2.0**16),
        "levels must be below 11184.8, so that no sum of 3 weighed updates wraps, got 65536",
    ),
    (
        dict(noise_multiplier=1.0, clip=1.0, normalize="weights"),
        "normalize must be 'buffer' with noise_multiplier, got 'weights'",
    ),
    (dict(noise_multiplier=1.0), "clip must be given with noise_multiplier"),
)


def test_sums_between_pairs_cannot_be_weighed():
    draw = weighed_by_staleness(buffered(K, M, max_staleness=14), levels=8)
    layers = stack(quantize=quantize(2.0**10, max_terms=8 * K), mask=pairwise_masks(group_size=K))
    system = engine(cohort=draw, local=remembering(), layers=layers)
    with pytest.raises(ValueError, match="layers must end in one whose sums may be weighed, such as plain_field"):
        rounds_of(system, KEY, jnp.zeros(D), DATA, 1)


@pytest.mark.parametrize("levels", [None, 8])
@pytest.mark.parametrize("masks", [pairwise_masks(group_size=K), enrolled_masks(group_size=K)])
def test_masks_of_a_round_are_refused(masks, levels):
    """Also where no factor is drawn: clients that begin in different rounds have agreed on nothing."""
    with pytest.raises(ValueError, match="^secure_sum must have masks that belong to a job, such as coded_masks"):
        fedbuff(remembering(), num_clients=N, buffer_size=K, concurrency=M, weight_levels=levels, secure_sum=masks)
