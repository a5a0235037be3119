import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.channels import constant, rayleigh, recorded, rician

KEY = jax.random.key(4)


def gains(fading, n, rounds):
    """`[rounds, n]`, with keys as a run has them."""

    def step(state, round):
        gain, state = fading.apply(jax.random.fold_in(KEY, round), state, round, n)
        return state, gain

    return np.asarray(jax.jit(lambda: jax.lax.scan(step, fading.init(KEY, n), jnp.arange(rounds))[1])(), np.float64)


def close(value, expected, error):
    assert abs(value - expected) < 5 * error, (value, expected, error)


@pytest.mark.parametrize("factor", [0.0, 5.0])
def test_rician_gains_have_their_law_in_every_round(factor):
    """Against scipy's Rice distribution, whose parameters are those of a mean power of 1."""
    h = gains(rician(factor, correlation=0.6), 20_000, 3)
    law = stats.rice(np.sqrt(2 * factor), scale=np.sqrt(0.5 / (factor + 1)))
    for row in h:
        assert stats.kstest(row, law.cdf).pvalue > 1e-4
        close(np.mean(row**2), 1, np.std(row**2) / np.sqrt(row.size))


def test_the_paper_s_gains():
    """G = 5: mean 0.960, standard deviation 0.280, above 2 with a probability of about 1e-4."""
    h = gains(rician(), 50_000, 4).ravel()
    close(h.mean(), 0.960, 0.280 / np.sqrt(h.size) + 1e-4)
    assert abs(h.std() - 0.280) < 0.002
    assert 2e-5 < (h > 2).mean() < 3e-4


def test_scattered_paths_are_autoregressive():
    """With no fixed path h^2 = |v|^2, whose correlation from round to round is rho^2."""
    n, rho = 40_000, 0.7
    power = np.square(gains(rayleigh(correlation=rho), n, 3))
    for lag in (1, 2):
        close(np.corrcoef(power[0], power[lag])[0, 1], rho ** (2 * lag), 2 / np.sqrt(n))
    independent = np.square(gains(rayleigh(), n, 2))
    close(np.corrcoef(*independent)[0, 1], 0, 1 / np.sqrt(n))
    close(np.sqrt(power).mean(), np.sqrt(np.pi) / 2, np.sqrt((1 - np.pi / 4) / power.size) * 2)


def test_clients_draw_by_themselves():
    assert (gains(rician(), 7, 3)[:, :5] == gains(rician(), 5, 3)).all()


def test_a_channel_may_be_frozen():
    h = gains(rician(correlation=1.0), 50, 3)
    assert (h == h[0]).all() and h[0].std() > 0.1


def test_traced_gains_out_of_range_are_not_known():
    gain = lambda value: constant(value).apply(KEY, (), jnp.int32(0), 2)[0]
    table = lambda value: recorded(jnp.ones((1, 2)) * value).apply(KEY, (), jnp.int32(0), 2)[0]
    assert jnp.isnan(jax.jit(gain)(-1.0)).all() and jnp.isnan(jax.jit(table)(0.0)).all()


def test_constant_and_recorded_gains():
    assert constant().init(KEY, 3) == ()
    assert (gains(constant(0.5), 3, 2) == 0.5).all()
    assert (gains(constant(np.array([1.0, 2.0, 4.0])), 3, 2) == [1, 2, 4]).all()
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    played = gains(recorded(table), 2, 3)
    assert (played[:2] == table).all() and np.isnan(played[2]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: constant(0.0), "gain must be a finite number > 0, got"),
        (lambda: constant(np.array([1.0, np.nan])), "gain must be a finite number > 0, got"),
        (lambda: rician(-1.0), "factor must be a finite number >= 0, got"),
        (lambda: rician(correlation=1.1), r"correlation must be a number in \[0, 1\], got"),
        (lambda: recorded(np.ones(3)), r"gains must have shape \[rounds, clients\] and not be empty, got"),
        (lambda: recorded(np.zeros((0, 3))), r"gains must have shape \[rounds, clients\] and not be empty, got"),
        (lambda: constant(np.ones(3)).init(KEY, 4), "gain must be a number, or one for each of 4 clients"),
        (lambda: recorded(np.zeros((1, 3))), "gains must be a finite number > 0, got"),
        (lambda: gains(recorded(np.ones((2, 3))), 4, 1), "gains must have a column for each of 4 clients, got 3"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
