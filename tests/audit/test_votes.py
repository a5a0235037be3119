"""Audits of votes: the adversary of the ledger may know all other votes."""

import functools

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import losses, models, simulate
from fedjax_priv.audit import Subject, findings
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.channels import constant
from fedjax_priv.ledger import ledger
from fedjax_priv.systems import over_the_air_vote

KEY, DELTA, VOTERS, D = jax.random.key(5), 1e-3, 30, 8
LOSS = losses.softmax_cross_entropy(models.softmax_regression((3,), 2))
LOCAL, DATA = sending(jnp.zeros((VOTERS, D))), no_samples(VOTERS)


def votes_of(noise_variance, local, observe):
    return over_the_air_vote(
        local, clip=1.0, noise_variance=noise_variance, receiver_noise=1e-6, fading=constant(), observe=observe,
        mesh=None,
    )  # fmt: skip


@functools.cache
def said():
    """The system as it is said to be, and its ledger."""
    sound = votes_of(4.0, LOCAL, None)
    run = simulate(sound, KEY, jnp.zeros(D), DATA, rounds=1, progress=False)
    return sound, ledger(sound, run, DATA, delta=DELTA)


@pytest.mark.parametrize(("variance", "caught"), [(4.0, False), (0.25, True)])
def test_a_client_with_too_little_noise_does_not_hide_behind_other_votes(variance, caught):
    sound, entries = said()
    subject = Subject(functools.partial(votes_of, variance), LOCAL, LOSS, jnp.zeros(D), DATA, sound.release)
    (found,) = findings(subject, entries, KEY, trials=1500, delta=DELTA, confidence=0.99, kind="direction")
    assert bool(found.contradicts) == caught
