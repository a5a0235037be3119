import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.base import Received
from fedjax_priv.channels import multiple_access, orthogonal
from fedjax_priv.layers import waveform
from helpers import cohort_of

KEY = jax.random.key(8)
N, D = 5, 20_000
GAIN = np.array([0.5, 1.0, 2.0, 0.25, 4.0], np.float32)
WHO = cohort_of(N)._replace(gain=jnp.asarray(GAIN), selected=jnp.array([True, True, False, True, True]))
X = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)


def through(channel):
    wave = waveform().combine
    y, alive = channel.transmit(KEY, jnp.asarray(X), WHO)
    received = channel.receive(jax.random.fold_in(KEY, 1), wave.lower(wave.lift(y, alive, WHO.group)))
    return np.asarray(y, np.float64), received


def faded():
    return (GAIN[:, None] * X).astype(np.float64)


@pytest.mark.parametrize("noise", [0.0, 2.25])
def test_uploads_add_on_the_air_and_the_receiver_adds_its_noise_once(noise):
    _, received = through(multiple_access(noise))
    residual = np.asarray(received.value[0], np.float64) - faded()[np.asarray(WHO.selected)].sum(0)
    if noise:
        assert stats.kstest(residual, stats.norm(scale=np.sqrt(noise)).cdf).pvalue > 1e-4
    else:
        assert np.abs(residual).max() < 1e-5
    assert received.count.tolist() == [4]


def test_a_server_that_does_not_know_how_many_sent_counts_one_row():
    known, hidden = (through(multiple_access(1.0, known_count=known))[1] for known in (True, False))
    assert hidden.count.tolist() == [1]
    assert (known.value == hidden.value).all()
    nobody = multiple_access(1.0, known_count=False).receive(KEY, Received(jnp.zeros((1, 4)), jnp.array([0])))
    assert nobody.count.tolist() == [1] and (nobody.value != 0).all()


def test_every_link_of_an_orthogonal_channel_has_noise_of_its_own():
    y, received = through(orthogonal(2.25))
    residual = (y - faded())[np.asarray(WHO.selected)]
    for row in residual:
        assert stats.kstest(row, stats.norm(scale=1.5).cdf).pvalue > 1e-4
    np.testing.assert_allclose(np.corrcoef(residual), np.eye(4), atol=5 / np.sqrt(D))
    np.testing.assert_allclose(received.value[0], y[np.asarray(WHO.selected)].sum(0), atol=1e-4)
    assert received.count.tolist() == [4]


@pytest.mark.parametrize("make", [multiple_access, orthogonal])
def test_bad_arguments(make):
    with pytest.raises(ValueError, match="receiver_noise must be a finite number >= 0, got -1"):
        make(-1.0)


@pytest.mark.parametrize("make", [multiple_access, orthogonal])
def test_a_traced_noise_out_of_range_spoils_what_is_received(make):
    def received(noise):
        y, _ = make(noise).transmit(KEY, jnp.ones((1, 2)), cohort_of(1))
        return make(noise).receive(KEY, Received(y, jnp.ones(1, jnp.int32))).value

    assert jnp.isnan(jax.jit(received)(-1.0)).all() and jnp.isfinite(jax.jit(received)(1.0)).all()
