"""Compositions with a draw of their own: its Byzantine clients attack, its cohorts are what is weighed and summed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems.same_parts import alike
from systems.test_compose import NOISY, OPENED, D, N, composed

from fedjax_priv.attacks import sign_flip
from fedjax_priv.clients import bernoulli, everyone, poisson, sample, scheduled
from helpers import targets


def one_round(**choices):
    """The clients that took part, their updates, and where the model went."""
    data = targets(N, D)
    system = composed(exact=False, **choices)
    info = jax.jit(system.step)(jax.random.key(4), system.init(jax.random.key(0), jnp.zeros(D), data), data)[1]
    who = np.asarray(info.client)[np.asarray(info.counted)]
    return who, -np.asarray(data.examples)[who], np.asarray(data.count)[who] / data.count.sum(), info.direction


def marking(draw, client):
    """A draw by hand that marks a client and does not say so."""

    def apply(*args):
        who, state = draw.apply(*args)
        return who._replace(byzantine=who.client == client), state

    return draw._replace(apply=apply)


PAIR = scheduled(np.array([[0, 5]]))


@pytest.mark.parametrize(
    ("bad", "choices"),
    [
        ([0, 1], {"cohort": PAIR, "num_byzantine": 2}),
        ([0, 1], {"cohort": marking(PAIR, 5), "num_byzantine": 2}),
        ([0, 1], {"cohort": everyone(num_byzantine=2), "num_byzantine": 2}),
        ([2, 5, 7], {"cohort": sample(6, num_byzantine=np.isin(np.arange(N), [2, 5, 7]))}),
    ],
)
def test_byzantine_clients_of_any_draw_attack(bad, choices):
    who, updates, _, direction = one_round(attack=sign_flip(3.0), **choices)
    assert set(bad) & set(who)
    sent = np.where(np.isin(who, bad)[:, None], -3.0, 1.0) * updates
    np.testing.assert_allclose(direction, sent.mean(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("chance", "choices"),
    [
        (4 / N, {"cohort_size": 4}),
        (4 / N, {"cohort": sample(4)}),
        (0.6, {"cohort": bernoulli(0.6)}),
        (0.6, {"cohort": poisson(0.6)}),
    ],
)
def test_expected_weights_divide_by_the_chance_to_take_part(chance, choices):
    """So that the mean over cohorts, in which each client is with this chance, is the weighted mean of all."""
    who, updates, weight, direction = one_round(weigh="expected", **choices)
    assert 0 < len(who) < N
    np.testing.assert_allclose(direction, (weight[:, None] * updates).sum(0) / chance, rtol=1e-5)


@pytest.mark.parametrize(
    "choices",
    [
        {"secure": "secagg"}, {"secure": "sparse_secagg", "weigh": "expected"}, {"secure": "enrolled"},
        {**OPENED, "threshold": 2}, {"secure": "secagg", "private": "field", "levels": 2.0**10, **NOISY},
    ],
    ids=lambda case: "",
)  # fmt: skip
def test_a_draw_says_how_many_clients_are_summed(choices):
    """Of secagg, the majority of 4 opens a sum, not of all 8."""
    assert alike(composed(cohort=sample(4), **choices).release, composed(cohort_size=4, **choices).release)


def test_a_cohort_of_one_is_a_mean_of_one():
    for choices in ({"cohort_size": 1}, {"cohort": sample(1)}):
        _, updates, _, direction = one_round(**choices)
        np.testing.assert_allclose(direction, updates[0], rtol=1e-5)
