"""Canaries of one program send what each of them sends alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from audit.test_breaks import LOSS, MODEL
from audit.test_looks import CLIENTS, DATA, KEY, central, tried

from fedjax_priv.audit.canary_families import families, in_first_round, in_one_form
from fedjax_priv.audit.crafted_canaries import scaled_canary
from fedjax_priv.audit.worlds import scores, scores_of_family
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.testing import cohort_of


def given_updates():
    *_, found = tried(central(1.0), 2)
    return [*{id(look.canary): look.canary for mine in found for look in mine}.values()], jnp.zeros(4)


def scaled_gradients():
    training = functools.partial(local_sgd, learning_rate=0.1, batch_size=1, num_steps=1)
    examples = jnp.full((CLIENTS, 1, 15), 0.1), jnp.zeros((CLIENTS, 1), jnp.int32)
    params = MODEL.init(KEY)
    canary = scaled_canary(training, LOSS, ClientData(examples, DATA.count), params)
    return [canary, in_first_round(canary)], params


def sent(canary, params):
    """What client 0 sends in two rounds by each input `[2, 2, d]`, of the last variant if there are several."""
    own = lambda given: given if canary.variants is None else jax.tree.map(lambda rows: rows[-1], given)

    @jax.jit
    def of(given, number):
        who = cohort_of(CLIENTS)._replace(round=jnp.full(CLIENTS, number))
        return canary.local(given).apply(KEY, (), params, canary.data(given), who)[0][0]

    return np.array([[of(own(given), jnp.int32(number)) for number in range(2)] for given in canary.inputs])


@pytest.mark.parametrize("made", [given_updates, scaled_gradients])
def test_a_canary_sends_the_same_in_the_form_of_its_family(made):
    canaries, params = made()
    (family,) = families(canaries)
    assert family == [*range(len(canaries))] and len(family) > 1
    alone = [sent(canary, params) for canary in canaries]
    assert len({each.tobytes() for each in alone}) > (1 if made is scaled_gradients else 3)
    for form, expected in zip(in_one_form(canaries), alone, strict=True):
        np.testing.assert_array_equal(sent(form, params), expected)


def test_canaries_of_other_shapes_are_other_programs():
    first, second = (tried(central(1.0), rounds)[2][0][0].canary for rounds in (1, 2))
    longer = first._replace(inputs=tuple(jnp.zeros((CLIENTS, 5)) for _ in range(2)))
    assert families([first, longer, second, first._replace(silenced=None)]) == [[0, 2], [1], [3]]


def test_each_canary_has_trials_of_its_own_key():
    canary, keys, how = given_updates()[0][0], jax.random.split(KEY), dict(params=jnp.zeros(4), trials=4, at_once=4)
    score = lambda seen: seen.after[0]
    first, second = scores_of_family(central(1.0), [canary] * 2, score, [*keys], rounds=1, **how)
    alone = scores(central(1.0), canary, score, keys[1], **how)
    np.testing.assert_array_equal(second.first, alone.first)
    assert len({*first.first, *first.second, *second.first, *second.second}) == 16
