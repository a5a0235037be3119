"""Sums beyond what clients that clip can have: no honest one is refused, and how often a random one passes."""

import functools
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fedjax_priv.aggregators import coordinate_median
from fedjax_priv.attacks import random_elements, sum_replacement
from fedjax_priv.base import LyingServer, Models, Received
from fedjax_priv.crypto import field
from fedjax_priv.layers import (
    check_range,
    clip,
    largest_element,
    mean_by_factors,
    plain_field,
    quantize,
    skellam_noise,
    stack,
)
from fedjax_priv.layers.noise_skellam import largest_skellam
from fedjax_priv.status import Status, describe
from fedjax_priv.systems import compose, fedrep, secagg, share, sparse_secagg
from fedjax_priv.systems._shared_layers import ranged
from helpers import (
    Q,
    cohort_of,
    of_the_round,
    refuses,
    rounds_of,
    run_layer,
    same_bits,
    survivors,
    targets,
    towards_target,
)

KEY, N = jax.random.key(6), 4


def verdict(value, count, largest, before=()):
    received = Received(jnp.asarray(np.asarray(value) % Q, jnp.uint32), jnp.asarray(count), before)
    return check_range(largest, max_terms=N).decode((), (), received)


def test_the_bound_is_the_count_times_the_largest_element_of_either_sign():
    """Of a row that is not recovered nothing is said, and bits set before stay."""
    edge = 3 * 10
    found = verdict([[edge, -edge], [edge + 1, 0], [0, -edge - 1], [2 * edge, 0], [edge + 1, 0]], [3, 3, 3, 0, 4], 10)
    assert found.status.tolist() == [0, 32, 32, 0, 0] and found.count.tolist() == [3, 3, 3, 0, 4]
    found = verdict([[0], [Q // 2]], [1, 1], 10, jnp.array([16, 16]))
    assert found.status.tolist() == [16, 48] and "no sum" in describe(32)


def test_uploads_with_factors_are_refused():
    """An honest one times 50 is beyond one upload's bound."""
    layer = stack(mean=mean_by_factors(), grid=quantize(100.0, 100), range=check_range(100, 2), send=plain_field())
    who = cohort_of(2)._replace(factor=jnp.array([50, 1], jnp.uint32))
    with pytest.raises(ValueError, match="^check_range must be left out where uploads have factors"):
        run_layer(layer, KEY, jnp.full((2, 1), 0.9), who, survivors(2))


def honest_sums(levels, norm, noise, keys=200):
    """Of clipped vectors along an axis, by which sums come as near the bound as they can, `[keys, d]`, signed."""
    x = jnp.asarray(np.eye(3)[[0, 0, 0, 0]] * np.array([[1.0], [1.7], [1e6], [1.003]]) * norm, jnp.float32)
    above = [clip(norm), quantize(levels, N)]
    if noise:
        above.append(skellam_noise(noise, max_norm=levels * norm, max_terms=N))

    def one(key):
        y = x
        for layer in above:
            y = layer.encode(key, (), (), y, cohort_of(N))[0]
        return field.to_signed(field.sum(y))

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(KEY, keys)), np.int64)


@pytest.mark.parametrize(
    ("levels", "norm", "noise"), [(1.0, 1.0, 0), (3.0, 0.7, 0), (2.0**20, 1.0, 0), (1e5 / 3, 1.1, 0), (300.0, 0.7, 9.0)]
)
def test_no_honest_sum_is_refused(levels, norm, noise):
    """With 1% less room, and no room for noise, some are."""
    sums, largest = honest_sums(levels, norm, noise), largest_element(levels, norm, largest_skellam(noise))
    refused = lambda largest: verdict(sums, [N] * len(sums), largest).status.any()
    assert not refused(largest)
    assert levels < 10 or refused(int(0.99 * largest_element(levels, norm)))


def test_there_is_room_for_all_noise_that_is_ever_drawn():
    """By the law of Skellam noise: all that is larger has probability below 2**-60, and the next smaller has more than
    2**-68.
    """
    for variance in (0.5, 9.0, 4000.0):
        largest = largest_skellam(variance)
        probability = 2 * special.ive(np.arange(1, 3 * largest), variance)  # of a magnitude, from 1 on
        assert probability[largest:].sum() < 2.0**-60 and probability[largest - 2] > 2.0**-68
        assert largest_element(10.0, 1.0, largest) == 11 + largest
    assert inspect.unwrap(largest_element)(1.0, 1e30, np.int64(7)) > 1e30, "more than NumPy's integers"


def test_a_uniform_row_passes_as_often_as_it_should():
    """At one coordinate and at all three, with a range of half the field; within a two-sided 1e-6."""
    largest, draws = Q // 16, 20_000
    rows = np.random.default_rng(0).integers(Q, size=(draws, 3))
    for d in (1, 3):
        passed = int((verdict(rows[:, :d], [N] * draws, largest).status == 0).sum())
        expected = ((2 * N * largest + 1) / Q) ** d
        assert stats.binomtest(passed, draws, expected).pvalue > 1e-6 and 0.1 < expected < 0.6
        assert stats.binomtest(passed, draws, 1.1 * expected).pvalue < 1e-6


@functools.cache
def groups(check, attack=None):
    """Three buffers of two clients, of whom client 0 is Byzantine."""
    system = compose(
        of_the_round(jnp.ones((6, 1, 5)) * jnp.arange(1.0, 7.0)[:, None, None] / 10), num_clients=6, secure="field",
        buffer_size=2, clip=2.0, levels=2.0**16, aggregate=coordinate_median(), num_byzantine=1,
        field_attack=attack, check_range=check, mesh=None,
    )  # fmt: skip
    _, info = rounds_of(system, KEY, jnp.zeros(5), targets(6, 5), 1)
    return jax.tree.map(lambda a: a[0], info)


def test_a_rule_over_groups_goes_without_the_group_of_random_elements():
    """The round does not fail. The controls: the group is in without the check, and no honest group is left out."""
    found, control = (groups(check, random_elements()) for check in (True, False))
    assert sorted(found.group_status.tolist()) == [0, 0, 32] and int(found.status) == 0
    assert not control.group_status.any() and control.counted.all()
    bad = np.flatnonzero(~np.asarray(found.counted))
    assert 0 in bad and len(bad) == 2  # a client and the Byzantine one it was with
    kept = [i for i in range(6) if i not in bad]
    assert np.asarray(found.direction).min() >= min(kept) / 10 and np.asarray(found.direction).max() <= 0.6
    assert not groups(True).group_status.any() and same_bits(groups(True).direction, groups(False).direction)


def test_fedrep_goes_without_such_a_buffer_too():
    """With random elements of client 0; in the control the server does not look."""
    update = of_the_round(jnp.ones((6, 1, 4)))

    def left_out(check):
        system = fedrep(
            update, num_clients=6, num_params=4, ratio=1.0, k=6, aggregate=coordinate_median(), num_byzantine=1,
            field_attack=random_elements(), in_the_clear=True, clip=3.0, levels=2.0**10, check_range=check, mesh=None,
        )  # fmt: skip
        return sorted(rounds_of(system, KEY, jnp.zeros(4), targets(6, 4), 1)[1].group_status[0].tolist())

    assert (left_out(True), left_out(False)) == ([0, 0, 32], [0, 0, 0])


@pytest.mark.parametrize(("at", "element", "found"), [(-1, 2**20, 0), (-1, 2**21, 32), (0, 2**20, 32)])
def test_weights_of_survivors_have_a_range_of_their_own(at, element, found):
    """Two weights add up to 2 levels at most, and a clip of 0.25 to half of them; the third element is beyond."""
    levels = 2.0**19
    above = ranged(True, 0.25, None, levels, 2, weighted=True)
    layer = stack(**above, send=plain_field())
    x = np.zeros((2, 4))
    x[0, at] = element
    who = cohort_of(2)
    received = run_layer(layer, KEY, field.from_signed(jnp.asarray(x, jnp.int32)), who, survivors(2))["received"]
    assert received.status.tolist() == [found]


def test_an_attacker_within_the_range_is_not_found():
    """It moves its group's sum to the edge; one grid point more is left out."""
    edge = 2 * largest_element(2.0**16, 2.0)
    inside, beyond = (groups(True, sum_replacement(total)) for total in (edge, edge + 1))
    assert not inside.group_status.any() and sorted(beyond.group_status.tolist()) == [0, 0, 32]


def test_a_round_that_is_no_sum_fails_if_masks_depend_on_the_model():
    """In round 0 one client is given another model: its masks stay in the sum. In round 1 all are given one."""
    both = jnp.stack([jnp.zeros(5), jnp.full(5, 1e-3)])
    lies = LyingServer(models=lambda key, state: Models(both, jnp.arange(N) // (N - 1) * (1 - state.round)))
    system = secagg(
        towards_target(), num_clients=N, clip=1.0, bind_model=True, check_range=True, lying_server=lies, mesh=None
    )
    _, infos = rounds_of(system, KEY, jnp.zeros(5), targets(N, 5), 2)
    assert infos.status.tolist() == [int(Status.IMPLAUSIBLE), 0]


def no_system(system, **how):
    return system(towards_target(), num_clients=N, check_range=True, **how)


test_neither_yes_nor_no = refuses(
    inspect.unwrap(ranged), ("no", 1.0, None, 100.0, N, "check_range must be one of True, False, got 'no'")
)
test_bad_grids = refuses(
    largest_element,
    (math.inf, 1.0, "levels must be a finite number > 0, got inf"),
    (100.0, 1.0, -1, "noise must be an integer >= 0, got -1"),
)
test_bad_ranges = refuses(
    check_range,
    (0, N, "largest must be an integer >= 1"),
    (2**29, N, "largest must be at most 536870911 for 4 terms, or every sum would pass, got 536870912"),
)


def test_systems_say_what_they_need():
    for system, how, message in (
        (secagg, {}, "clip must be given with check_range"),
        (sparse_secagg, {"alpha": 0.5}, "clip must be given with check_range"),
        (secagg, {"clip": 1.0, "levels": 2.0**30}, "levels must be such that clip is at most"),
        (secagg, {"clip": 1e-3, "levels": 2.0**30, "normalize": "survivors"}, "levels must be below 536870911"),
        (sparse_secagg, {"alpha": 0.5, "clip": 1.0, "levels": 2.0**30}, "levels must be such that clip is at most"),
        (fedrep, {"num_params": 4, "clip": 1.0, "levels": 2.0**30}, "levels must be such that clip is at most"),
        (fedrep, {"num_params": 4}, "clip must be given with check_range"),
        (compose, {"secure": "secagg"}, "clip must be given with check_range"),
        (compose, {"clip": 1.0}, "check_range must be False with secure='none'"),
        (compose, {"secure": "secagg", "private": "local", "clip": 1.0, "noise_variance": 1.0},
         "check_range must be False with private='local'"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{message}"):
            no_system(system, **how)
    with pytest.raises(TypeError, match="^share has no argument check_range"):
        share(towards_target(), num_clients=N, buffer_size=2, check_range=True)
