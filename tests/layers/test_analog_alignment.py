import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.layers import align, clip, gaussian_noise, waveform
from fedjax_priv.status import Status
from helpers import cohort_of, refuses

KEY = jax.random.key(6)
N, D, L = 6, 500, 2.0
GAIN = np.array([0.2, 0.5, 1.0, 1.5, 3.0, 0.9])
POWER = np.array([1.0, 0.3, 0.05, 4.0, 0.2, 1e-3])
SIGMA2 = np.array([0.5, 0.1, 0.02, 0.3, 0.0, 0.2])
WHO = cohort_of(N)._replace(gain=jnp.asarray(GAIN, jnp.float32))
G = np.random.default_rng(2).normal(size=(N, D)) * np.linspace(0.01, 0.08, N)[:, None]


def sent(layer, x=G, who=WHO):
    y, _, told = layer.encode(KEY, (), {}, jnp.asarray(x, jnp.float32), who)
    return np.asarray(y, np.float64), told


def controlled(control):
    """Amplitudes of signal and noise, in float64."""
    budget, noise, norm = GAIN**2 * POWER * D, D * SIGMA2, np.linalg.norm(G, axis=1)
    if control == "signal":
        return np.minimum(1, np.sqrt(np.maximum(budget - noise, 0)) / L), np.ones(N)
    a = np.minimum(1, np.sqrt(budget / ((norm if control == "gradient" else L) ** 2 + noise)))
    return a, a


@pytest.mark.parametrize("control", ["gradient", "bound", "signal"])
def test_amplitudes_follow_the_power_budget(control):
    """Eq. 26 and its two forms with a guarantee; privacy noise by its law."""
    y, told = sent(align(SIGMA2, max_norm=L, power=POWER, control=control))
    a, b = controlled(control)
    assert 0 < (a < 1).sum() < N
    np.testing.assert_allclose(told.measured["amplitude"], a, rtol=1e-5)
    np.testing.assert_allclose(told.measured["energy"], np.square(y).sum(1), rtol=1e-4)
    noise = GAIN[:, None] * y - a[:, None] * G
    for row, scale in zip(noise, b * np.sqrt(SIGMA2), strict=True):
        if scale:
            assert stats.kstest(row, stats.norm(scale=scale).cdf).pvalue > 1e-4
        else:
            assert np.abs(row).max() < 1e-6


@pytest.mark.parametrize("control", ["gradient", "bound", "signal"])
def test_mean_power_is_never_above_the_budget(control):
    """E||x_k||^2 = (a_k^2 ||g_k||^2 + b_k^2 d sigma^2) / h_k^2 <= P_k, where a client may send at all."""
    a, b = controlled(control)
    told = np.asarray(sent(align(SIGMA2, max_norm=L, power=POWER, control=control))[1].measured["amplitude"])
    able = (GAIN**2 * POWER > SIGMA2) | (control != "signal")
    norm = np.minimum(np.linalg.norm(G, axis=1), L)
    mean = (told**2 * norm**2 + np.where(b == 1, 1, told) ** 2 * D * SIGMA2) / GAIN**2
    assert able.any() and (mean[able] <= D * POWER[able] * (1 + 1e-5)).all()
    assert np.allclose(a, told)


def test_without_a_budget_everyone_arrives_alike():
    y, told = sent(align(0.0, max_norm=L))
    np.testing.assert_allclose(GAIN[:, None] * y, G, rtol=1e-5)
    assert (told.measured["amplitude"] == 1).all()


def test_noise_of_a_client_is_the_normals_of_its_number():
    """Whichever form computes them; of one variance for all as of one for each, and none where it is 0."""
    own = jax.vmap(lambda i: normal(jax.random.fold_in(KEY, i), (D,)))(jnp.array([4, 0, 7, 1, 2, 5]))
    who = WHO._replace(client=jnp.array([4, 0, 7, 1, 2, 5]))
    for variance in (0.25, jnp.float32(0.25), np.full(8, 0.25)):
        y, _ = sent(align(variance, max_norm=L), who=who)
        np.testing.assert_allclose(GAIN[:, None] * y - G, 0.5 * own, atol=1e-5)


def test_those_who_do_not_send_are_measured_as_silent():
    who = WHO._replace(selected=jnp.arange(N) != 1, participation=jnp.full(N, 0.3))
    told = sent(align(0.1, max_norm=L), who=who)[1].measured
    assert np.flatnonzero(told["amplitude"] == 0).tolist() == [1] == np.flatnonzero(told["energy"] == 0).tolist()
    assert (told["join_probability"] == np.float32(0.3)).all() and (told["gain"] == WHO.gain).all()


def test_clipping_bounds_norms_and_leaves_shorter_updates_alone():
    x = G * np.array([1, 10, 100, 1e-3, 0, 1e12])[:, None]
    y, _ = sent(clip(L), x)
    norm = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(y, x * np.minimum(1, L / np.maximum(norm, 1e-300))[:, None], rtol=2e-6)
    assert (y[norm <= L] == x[norm <= L].astype(np.float32)).all()


@pytest.mark.parametrize("bound", [1e-33, 1e-21, 1e21])
def test_clipping_bounds_norms_whose_squares_vanish_or_overflow(bound):
    x = G[:4] / np.linalg.norm(G[:4], axis=1, keepdims=True) * bound * np.array([[0.5], [2], [10], [1e10]])
    norm = np.linalg.norm(sent(clip(bound), x, cohort_of(4))[0] / bound, axis=1)
    np.testing.assert_allclose(norm, [0.5, 1, 1, 1], rtol=1e-5)


def test_what_cannot_be_clipped_is_not_finite():
    x = np.ones((3, 4), np.float32)
    x[0, 0], x[1, 0], x[2] = np.nan, np.inf, 3e38
    assert np.isnan(sent(clip(1.0), x, cohort_of(3))[0]).all()


def test_noise_is_each_client_s_own():
    variance = np.array([0.0, 0.25, 1.0, 4.0, 9.0, 0.01])
    y, _ = sent(gaussian_noise(variance))
    for row, scale in zip((y - G)[1:], np.sqrt(variance)[1:], strict=True):
        assert stats.kstest(row, stats.norm(scale=scale).cdf).pvalue > 1e-4
    assert (y[0] == G[0].astype(np.float32)).all()
    assert np.abs(np.corrcoef((y - G)[1:]) - np.eye(N - 1)).max() < 5 / np.sqrt(D)
    fewer = jax.tree.map(lambda a: a[2:4], WHO)
    assert (sent(gaussian_noise(variance), G[2:4], fewer)[0] == y[2:4]).all()


def test_a_waveform_too_large_for_the_exact_sum_is_told():
    """What counts is what is received."""
    who = cohort_of(4)._replace(gain=jnp.array([1.0, 1.0, 1e-3, 1e4]))
    _, told = sent(waveform(), np.array([[1.0, 2.0**15], [1.0, -1.0], [1e5, 0.0], [0.0, -4.0]]), who)
    assert told.status.tolist() == [Status.FIELD_OVERFLOW, 0, 0, Status.FIELD_OVERFLOW] and told.bits == 0


def test_only_a_waveform_that_arrived_can_be_too_large_for_the_sum():
    total, received = waveform().combine, jnp.array([[1.0], [2.0**15], [3.0]])
    sum_of = lambda alive: total.lower(total.lift(received, jnp.array(alive), jnp.zeros(3, jnp.int32))).value
    assert sum_of([True, False, True]).tolist() == [[4.0]] and np.isnan(sum_of([True, True, True])).all()


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: clip(0.0), "max_norm must be a finite number > 0, got 0.0"),
    (lambda: gaussian_noise(-1.0), "noise_variance must be a finite number >= 0, got"),
    (lambda: align(0.1, max_norm=1.0, power=0.0), "power must be a finite number > 0, got"),
    (lambda: align(np.ones(2), max_norm=1.0).init(KEY, 3), "noise_variance must be a number, or one per client; shape"),
    (lambda: align(0.1, max_norm=1.0, power=np.ones(4)).init(KEY, 3), "power must be a number, or one per client"),
    (lambda: gaussian_noise(np.ones((3, 1))).init(KEY, 3), "noise_variance must be a number, or one per client; shape"),
    (lambda: align(0.1, max_norm=np.nan), "max_norm must be a finite number > 0, got nan"),
)


def test_traced_values_out_of_range_spoil_the_upload():
    def spoilt(make):
        send = lambda value: make(value).encode(KEY, (), {}, jnp.ones((2, 3)), cohort_of(2))[0]
        return bool(jnp.isnan(jax.jit(send)(-1.0)).all())

    assert spoilt(clip) and spoilt(gaussian_noise) and spoilt(lambda value: align(0.1, max_norm=1.0, power=value))
