"""Signs, amplitudes and phases of votes, of single clients."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.attacks import on_updates
from fedjax_priv.channels import unknown_phases
from fedjax_priv.layers import invert_gains, plain_signs, sign, stack
from fedjax_priv.testing import run_layer
from helpers import cohort_of

KEY = jax.random.key(0)


def test_zero_votes_up():
    y, *_ = sign().encode(KEY, (), (), jnp.array([[0.0, -0.0, -1.0]]), cohort_of(1))
    assert y.tolist() == [[1, 1, -1]]


def test_whatever_stands_above_a_vote_in_the_clear_it_is_one_vote():
    """One of five, below the signs: it can break a tie of the others, and no more."""
    wish = jnp.array([1e6, -1e6, jnp.nan, jnp.inf, -jnp.inf, 0.0])
    attack = on_updates(lambda key, x, honest, byzantine: jnp.broadcast_to(wish, x.shape))
    send = stack(sign=sign(), attack=attack, send=plain_signs())
    who = cohort_of(5)._replace(byzantine=jnp.arange(5) == 0)
    votes_of = lambda up: jnp.broadcast_to(jnp.where(jnp.arange(5) <= up, 1.0, -1.0)[:, None], (5, 6))
    run = jax.jit(lambda x: run_layer(send, KEY, x, who, jnp.ones(5, bool))["received"].value)
    for up, expected in ((4, 1.0), (1, -1.0), (2, np.array([1, -1, -1, 1, -1, 1]))):
        np.testing.assert_array_equal(run(votes_of(up))[0], np.broadcast_to(expected, 6))


def test_a_byzantine_client_puts_all_its_power_into_its_signs():
    """sqrt(P) a use, received at h sqrt(P), which is h sqrt(P) / c in units of the level; others arrive at c."""
    who = cohort_of(2)._replace(gain=jnp.array([0.5, 0.5]), byzantine=jnp.array([False, True]))
    y, _, sent = invert_gains(0.7, byzantine_power=9.0).encode(KEY, (), (), jnp.ones((2, 3)), who)
    np.testing.assert_allclose(y[:, 0], [0.7 / 0.5, 3.0], rtol=1e-6)
    np.testing.assert_allclose(sent.measured["amplitude"], [1.0, 0.5 * 3.0 / 0.7], rtol=1e-6)
    np.testing.assert_allclose(sent.measured["energy"][1], 27.0, rtol=1e-6)


def test_each_tone_has_its_phase():
    """And each client: uniform, so a mean over many is 0."""
    x = jnp.concatenate([jnp.ones((4, 200)), jnp.zeros((4, 200))], axis=1)
    y = np.asarray(unknown_phases(0.0).transmit(KEY, x, cohort_of(4))[0])
    real, imaginary = np.split(y, 2, axis=1)
    np.testing.assert_allclose(np.hypot(real, imaginary), 1.0, rtol=1e-5)
    assert np.abs(real.mean(1)).max() < 0.2 and np.abs(imaginary.mean(1)).max() < 0.2
    assert np.abs(np.corrcoef(real)[0, 1:]).max() < 0.3
