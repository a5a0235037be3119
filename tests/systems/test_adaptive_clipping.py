"""Clipping to a quantile: the rule of Andrew et al. by hand, and one Gaussian mechanism for updates and bits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refused

from fedjax_priv.base import ClientData, Local
from fedjax_priv.server_noise import banded
from fedjax_priv.systems import dp_fedavg
from fedjax_priv.systems.central_noise.split_noise import split_noise
from helpers import one_round, rounds_of, same_bits

KEY = jax.random.key(12)
N, D = 10, 4


def given():
    """Local training whose update is the client's vector, whatever the parameters."""
    return Local(lambda n, params: (), lambda key, m, params, data, who: (data.examples, m, jnp.zeros(len(who.client))))


def of_norms(norms, d=D):
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(len(norms), d))
    vectors = directions / np.linalg.norm(directions, axis=1, keepdims=True) * np.asarray(norms)[:, None]
    return ClientData(jnp.asarray(vectors, jnp.float32), jnp.ones(len(norms), jnp.int32))


def made(**how):
    usual = {"num_clients": N, "clip": 0.1, "clip_quantile": 0.5, "noise_multiplier": 0.0, "count_noise": 2.0}
    return dp_fedavg(given(), server=optax.sgd(0.0), mesh=None, **usual | how)


def clips(infos):
    return np.asarray(infos.measured["clip_norm"])[:, 0]


def test_without_noise_the_norm_climbs_to_the_updates_and_then_alternates():
    """All norms are 1: C grows by e^0.1 a round until it is above, and then falls as much."""
    states, infos = rounds_of(made(), KEY, jnp.zeros(D), of_norms(np.ones(N)), 27)
    found = clips(infos)
    np.testing.assert_allclose(found[[0, 10, 23, 24, 25, 26]], [0.1, 0.27183, 0.99742, 1.10232, 0.99742, 1.10232], 1e-4)
    np.testing.assert_allclose(np.linalg.norm(infos.direction[24]), np.linalg.norm(infos.direction[26]), rtol=1e-5)
    assert not np.asarray(states.params).any() and not np.asarray(infos.status).any()


@functools.cache
def sampled(quantile):
    """Rounds by coins, without noise."""
    data = of_norms(0.3 * np.arange(1, N + 1))
    infos = rounds_of(made(sampling_rate=0.5, clip_quantile=quantile), KEY, jnp.zeros(D), data, 120)[1]
    return jax.device_get(infos), np.asarray(data.examples, np.float64)


def test_the_norm_follows_the_rule_at_a_quantile_that_is_no_half():
    """In NumPy, from who came. The control takes the quantile for the centre, which only a half forgives."""
    infos, vectors = sampled(0.8)
    sizes, m = np.linalg.norm(vectors, axis=1), 0.5 * N
    by_rule, by_other = [0.1], [0.1]
    for came in infos.counted[:-1]:
        for path, centre, least in ((by_rule, 0.5, 0.5), (by_other, 0.8, 0.8)):
            within = (sizes[came] <= path[-1]) - centre
            path.append(path[-1] * np.exp(-0.2 * (least + within.sum() / m - 0.8)))
    np.testing.assert_allclose(clips(infos), by_rule, rtol=1e-4)
    assert np.abs(clips(infos) / by_other - 1).max() > 0.05
    assert sizes[6] < np.mean(clips(infos)[60:]) < sizes[9]  # about 8 of 10 are within it


def test_updates_are_clipped_to_the_norm_of_their_round():
    infos, vectors = sampled(0.8)
    sizes = np.linalg.norm(vectors, axis=1)
    for t in (0, 3, 50, 119):
        factor = np.minimum(1, clips(infos)[t] / sizes)[:, None]
        expected = (vectors * factor)[infos.counted[t]].sum(0) / (0.5 * N)
        np.testing.assert_allclose(infos.direction[t], expected, atol=1e-5)


def test_noise_is_split_as_the_theorem_says():
    deviation, bit = split_noise(1.0, 5.0)
    assert deviation == pytest.approx(1.005038, abs=1e-6) and bit == pytest.approx(deviation / 5)
    assert split_noise(1.2, 0.7).deviation == pytest.approx((1 / 1.44 - 1 / 1.96) ** -0.5)
    assert 1 / np.sqrt(deviation**-2 + 5.0**-2) == pytest.approx(0.985329, abs=1e-6)  # a bit that is not centred


def test_what_a_client_sends_moves_the_sum_by_the_deviation_over_the_multiplier():
    """Then the round is one Gaussian mechanism of multiplier 1; a bit from 0 to 1 makes it 0.985329."""
    seen = made(noise_multiplier=1.0, count_noise=5.0, observe=lambda view: view.uploads)
    bound, (deviation, bit) = split_noise(1.0, 5.0).deviation, split_noise(1.0, 5.0)
    sent = np.asarray(one_round(seen, of_norms([0.01] * 5 + [7.0] * 5), D)[2].observed, np.float64)
    lengths = np.linalg.norm(sent, axis=1)
    np.testing.assert_allclose(sent[:, -1], bit * np.array([0.5] * 5 + [-0.5] * 5), rtol=1e-6)
    assert lengths.max() == pytest.approx(bound, rel=1e-6) and lengths.min() < bound / 2
    uncentred = np.hypot(np.linalg.norm(sent[:, :-1], axis=1).max(), bit)  # of one that is just within the norm
    assert deviation / lengths.max() == pytest.approx(1.0, abs=1e-6)
    assert deviation / uncentred == pytest.approx(0.985329, abs=1e-5)


def test_noise_on_updates_and_on_the_count():
    z, s_b, rounds, d = 1.5, 4.0, 400, 30
    data = ClientData(jnp.zeros((N, d)), jnp.ones(N, jnp.int32))
    how = {"noise_multiplier": z, "count_noise": s_b, "clip_rate": 0.01, "clip_quantile": 1.0}
    infos = jax.device_get(rounds_of(made(**how), KEY, jnp.zeros(d), data, rounds)[1])
    deviation = split_noise(z, s_b).deviation
    scaled = infos.direction * N / clips(infos)[:, None]
    assert abs(np.square(scaled).mean() / deviation**2 - 1) < 5 * np.sqrt(2 / scaled.size)
    steps = np.diff(np.log(clips(infos))) / -0.01  # b~ - 1: everybody is within the norm
    assert abs(np.square(steps * N / s_b).mean() - 1) < 5 * np.sqrt(2 / steps.size) < 0.5, "no noise would be 1 off"


def test_a_bad_update_moves_neither_the_sum_nor_the_count():
    system, norms = made(sampling_rate=1.0), np.array([0.05] * 5 + [1.0] * 5)
    data = of_norms(norms)
    bad = data._replace(examples=data.examples.at[0].set(jnp.nan))
    _, after, info = one_round(system, bad, D)
    assert int(info.status) == 0 and np.isfinite(info.direction).all()
    share = 0.5 + (4 * 0.5 - 5 * 0.5) / N
    np.testing.assert_allclose(after.aggregate.log_clip, np.log(0.1) - 0.2 * (share - 0.5), rtol=1e-5)


def test_it_costs_a_number_down_and_a_number_up():
    bits = jax.device_get(one_round(made(), of_norms(np.ones(N)), D)[2].bits)
    assert (bits["model"].down == 32 * D + 32).all() and (bits["upload"].up == 32 * D + 32).all()


def test_a_secure_sum_gives_the_norms_of_the_rule():
    data = of_norms(0.3 * np.arange(1, N + 1))
    how = {"noise_multiplier": 1e-6, "count_noise": 1e-6, "clip": 1.0, "elide": True}
    infos = rounds_of(made(secure=True, **how), KEY, jnp.zeros(D), data, 3)[1]
    vectors, by_rule = np.asarray(data.examples, np.float64), [1.0]
    sizes = np.linalg.norm(vectors, axis=1)
    for direction in infos.direction:
        clipped = vectors * np.minimum(1, by_rule[-1] / sizes)[:, None]
        np.testing.assert_allclose(direction, clipped.mean(0), atol=1e-4)
        by_rule.append(by_rule[-1] * np.exp(-0.2 * ((sizes <= by_rule[-1]).mean() - 0.5)))
    np.testing.assert_allclose(clips(infos), by_rule[:-1], rtol=1e-4)


def test_blocks_change_no_bit():
    data = of_norms(0.3 * np.arange(1, N + 1))
    run = lambda block: one_round(made(noise_multiplier=1.0, block=block), data, D)[1:]
    assert same_bits(run(N), run(3))


test_bad_arguments = refused(
    *(
        (lambda how=how: made(**how), message)
        for how, message in (
            ({"clip_quantile": 1.5}, r"clip_quantile must be a number in \[0, 1\], got 1.5"),
            ({"clip_rate": -1.0}, "clip_rate must be a finite number >= 0, got -1.0"),
            ({"noise_multiplier": 5.0}, "count_noise must be above noise_multiplier / 2 = 2.5, which the round has in"),
            ({"clip_quantile": None}, "count_noise must not be given without clip_quantile, got 2.0"),
            ({"noise": banded([1.0, 0.5])}, "noise must be independent where clip_quantile moves the clipping norm"),
        )
    )
)
