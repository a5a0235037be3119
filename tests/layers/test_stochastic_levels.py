"""Quantized uploads: the law of their error, their bits, and the uses of a link."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.layers import average, coded, qsgd, stochastic_levels, uniform_levels
from fedjax_priv.status import Status
from fedjax_priv.theory import digital_links, quantizers
from helpers import cohort_of

KEY = jax.random.key(2)
V = np.random.default_rng(0).normal(size=40).astype(np.float32)


def encoded(layer, rows, cohort=None):
    rows = jnp.asarray(rows, jnp.float32)
    y, _, sent = jax.jit(layer.encode)(KEY, (), (), rows, cohort_of(len(rows)) if cohort is None else cohort)
    return np.asarray(y, np.float64), sent


@pytest.mark.parametrize(
    ("layer", "exact"),
    [(qsgd(1), quantizers.qsgd_error(V, 1)), (qsgd(3), quantizers.qsgd_error(V, 3)),
     (uniform_levels(3, limit=4.0), quantizers.uniform_error(V, 3, 4.0))],
    ids=["ternary", "qsgd", "uniform"],
)  # fmt: skip
def test_errors_have_the_exact_law(layer, exact):
    """Unbiased, coordinate by coordinate, and the squared error of theory, within 3 standard errors."""
    n = 5000
    y, _ = encoded(layer, np.tile(V, (n, 1)))
    assert (np.abs(y.mean(0) - V) < 5 * y.std(0) / np.sqrt(n) + 1e-6).all()
    errors = np.square(y - V).sum(1)
    assert abs(errors.mean() - exact) < 3 * errors.std() / np.sqrt(n)
    drawn = (y - y.mean(0))[:, y.std(0) > 0]
    together = np.corrcoef(drawn, rowvar=False) - np.eye(drawn.shape[1])
    assert (np.abs(together) < 5.5 / np.sqrt(n)).all(), "coordinates are rounded independently"
    nearest = encoded(layer, np.round(np.tile(V, (2, 1))))[0]  # other numbers: another error
    assert abs(np.square(nearest - V).sum(1).mean() - exact) > 3 * errors.std() / np.sqrt(n)


def test_bits():
    """At s = 4 a level takes three bits, at s = 3 two."""
    assert [int(encoded(qsgd(s), V[None])[1].bits) for s in (1, 3, 4)] == [32 + 40 * b for b in (2, 3, 4)]
    assert int(encoded(uniform_levels(5, limit=1.0), V[None])[1].bits) == 200


def test_special_values():
    y, sent = encoded(qsgd(2), [[0.0, 0.0], [0.0, np.inf], [np.nan, 1.0]])
    assert (y[0] == 0).all() and np.asarray(sent.refused).tolist() == [0, Status.NOT_FINITE, Status.NOT_FINITE]
    y, sent = encoded(uniform_levels(1, limit=2.0), [[5.0, -5.0], [np.inf, 0.0]])
    assert y[0].tolist() == [2.0, -2.0] and np.asarray(sent.refused).tolist() == [0, Status.NOT_FINITE]


def test_no_level_is_beyond_the_norm():
    """s |x| / |x| is above s for some x, by a rounding; one more level is 1 / 4095 more of the norm."""
    x = np.random.default_rng(0).uniform(0.5, 2, (2**17, 1)).astype(np.float32)
    y, _ = encoded(qsgd(2**12 - 1), x)
    assert (y <= x * (1 + 1e-6)).all() and (y > x * (1 - 1 / 4000)).all()


@pytest.mark.parametrize("limit", [0.3, 0.7, 1.0, 3.3])
@pytest.mark.parametrize("bits", [1, 8, 24])
def test_no_level_is_beyond_the_limit(bits, limit):
    """A draw in 2**24 is 0, which rounds up whatever is above a level."""
    y, _ = encoded(uniform_levels(bits, limit=limit), np.tile(np.float32([limit, -limit]), (1, 2**20)))
    levels = (y + np.float32(limit)) / (2 * limit / (2**bits - 1))
    assert levels.max() < 2**bits - 0.5 and levels.min() > -0.5


def test_a_link_is_used_for_the_bits_over_its_rate():
    gain = np.array([0.3, 1.0, 2.0])
    cohort = cohort_of(3)._replace(gain=jnp.asarray(gain, jnp.float32), selected=jnp.array([True, True, False]))
    layer = coded(qsgd(1), power=6.0, receiver_noise=2.0)
    measured = encoded(layer, np.tile(V, (3, 1)), cohort)[1].measured
    rate = digital_links.rate(3.0, gain) * [1, 1, 0]
    uses = np.array([112, 112, 0]) / np.where(rate, rate, 1)
    for name, expected in {"rate": rate, "channel_uses": uses, "energy": 6.0 * uses, "gain": gain}.items():
        np.testing.assert_allclose(measured[name], expected, rtol=1e-5)
    fixed = encoded(coded(qsgd(1), fixed_rate=0.5), np.tile(V, (3, 1)), cohort)[1].measured
    assert np.asarray(fixed["channel_uses"]).tolist() == [224, 224, 0]


@pytest.mark.parametrize("snr", [1e-20, 1e-7, 1e-3])
def test_a_weak_link_is_slow_and_not_dead(snr):
    layer = coded(qsgd(1), power=snr)
    measured = encoded(layer, V[None])[1].measured
    np.testing.assert_allclose(measured["rate"], digital_links.rate(snr), rtol=1e-6)
    np.testing.assert_allclose(measured["channel_uses"], 112 / digital_links.rate(snr), rtol=1e-6)


test_bad_arguments = refused(
    (lambda: qsgd(0), "levels"),
    (lambda: uniform_levels(25), "bits"),
    (lambda: uniform_levels(3, limit=0.0), "limit"),
    (lambda: coded(qsgd(1), power=0.0), "power"),
    (lambda: coded(qsgd(1), receiver_noise=0.0), "receiver_noise"),
    (lambda: coded(qsgd(1), fixed_rate=0.0), "fixed_rate"),
    (lambda: coded(average()), "send must be an innermost layer"),
)


def test_values_far_below_a_level_are_rarely_rounded_up():
    """0.04 of these are expected; words of 23 bits would round up 5."""
    p, d, rows = 1e-9, 2**20, 40
    y, _ = encoded(qsgd(1), jnp.full((rows, d), np.float32(p)).at[:, 0].set(1.0))
    assert p * d * rows < 0.05 and (y[:, 1:] > 0).sum() <= 1 < 2**-23 * d * rows


@pytest.mark.parametrize("word", [0, 2**31, 2**32 - 1])
def test_a_word_on_the_threshold_leaves_it_to_another_number(word, monkeypatch):
    """The word decides below and above it; on it the chance is what is left of the threshold."""
    monkeypatch.setattr(stochastic_levels, "bits", lambda key, purpose, shape: jnp.full(shape, word, jnp.uint32))
    n = 4000
    of = lambda share: stochastic_levels._rounded(KEY, jnp.full((n, 1), share, jnp.float32), cohort_of(n)).mean()
    at = word / 2**32
    if word == 0:
        assert of(np.float32(0.25 / 2**32)) == pytest.approx(0.25, abs=0.03) and of(np.float32(2**-31)) == 1
    if word == 2**31:
        assert of(np.float32(at)) == 0 and of(np.float32(at + 2**-24)) == 1
    if word == 2**32 - 1:
        assert of(np.float32(1 - 2**-24)) == 0


test_bad_sizes = refused(
    (lambda: qsgd(2**24 + 1), r"levels must be a number in \(0, 1.67772e\+07\], got 16777217"),
    (lambda: uniform_levels(1, limit=2e38), r"limit must be a number in \(0, 32768\], got 2e\+38"),
)
