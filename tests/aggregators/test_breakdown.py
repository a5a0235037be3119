"""As many Byzantine rows as a rule says that it tolerates cannot take it away, wherever a few places put them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators.references import RULES
from fedjax_priv import aggregators
from fedjax_priv.base import Received

G = 9
HONEST = (np.random.default_rng(0).normal(size=(G, 2)) / 2 + [0.5, 0.2]).astype(np.float32)
PLACES = np.array([[0, 1e6], [1e6, 1e6], [1e4, 1e4], [1e4, 0], [-0.3, 1e4], [3, 0]], np.float32)
"""A row far away may hide one that is less far: from a mean, a direction of most variance or a largest component."""
NO_BOUND = ("mean", "weiszfeld", "weiszfeld, nu", "dnc")
"""The mean, which tolerates none, and rules that say so."""


def furthest(rule, num_byzantine):
    """The largest distance from the honest mean, Byzantine rows last; NaN, with which a round fails, is none."""
    chosen = np.array([*itertools.combinations_with_replacement(range(len(PLACES)), num_byzantine)])
    honest = HONEST[: G - num_byzantine]
    rows = np.concatenate([np.broadcast_to(honest, (len(chosen), *honest.shape)), PLACES[chosen]], 1)
    ones = jnp.ones(G, jnp.int32)
    found = jax.jit(jax.vmap(lambda x: rule.apply(jax.random.key(0), rule.init(2), Received(x, ones))[0]))(rows)
    return np.nanmax(np.linalg.norm(np.asarray(found) - honest.mean(0), axis=1))


@pytest.mark.parametrize("name", RULES)
def test_no_minority_that_a_rule_tolerates_takes_it_away(name):
    rule = RULES[name].made
    assert (furthest(rule, max(rule.most_byzantine(G), 1)) > 1e2) == (name in NO_BOUND)


@pytest.mark.parametrize(("name", "number"), [("caf, byzfl", 2), ("filter_l2, authors", 3)])
def test_too_many_take_it_away(name, number):
    """One row hides another where removed rows are compared, too; two passes remove two rows."""
    assert furthest(RULES[name].made, number) > 1e3


@pytest.mark.parametrize("f", [1, 2, 4])
def test_dnc_tolerates_equal_rows(f):
    rows = np.stack([np.vstack([HONEST[f:], np.tile(place, (f, 1))]) for place in PLACES])
    found = jax.jit(jax.vmap(aggregators.dnc(f)))(rows)
    assert (np.linalg.norm(np.asarray(found) - HONEST[f:].mean(0), axis=1) < 3).all()
