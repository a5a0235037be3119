"""Residuals are uniform: how a sum divides inside a component is hidden, and nothing else is."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.prg import Prg, philox
from fedjax_priv.layers import sparse_masks
from fedjax_priv.leakage import opened_honest, residuals, separate, sparse_protocol
from helpers import Q
from helpers import uniform as uniform_on

N, D, BOUND = 8, 6000, 1000
HOW = dict(alpha=0.7, group_size=N)
LAYER, PROTOCOL = sparse_masks(**HOW), sparse_protocol(**HOW)
LOSS = dict(lost=(2,), colluding=(0, 5))
uniform = functools.partial(uniform_on, bits=4)


def of(left, coordinate, client):
    """The residuals of some clients at some coordinates."""
    place = {where: i for i, where in enumerate(zip(left.coordinate.tolist(), left.client.tolist(), strict=True))}
    return left.value[[place[where] for where in zip(coordinate.tolist(), client.tolist(), strict=True)]]


def pairs_of(round, protocol):
    """Residuals of the two members of all sums of two, `[k, 2]`."""
    reading = separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=2)
    two = reading.size == 2
    left = residuals(round.view, protocol, round.colluders)
    return np.stack([of(left, reading.coordinate[two], reading.clients[two, i]) for i in (0, 1)], 1)


@pytest.mark.parametrize("value", [0, 917])
def test_each_value_of_a_pair_is_uniform_whatever_the_update(play, value):
    round = play(LAYER, N, D, value=np.full((N, D), value), **LOSS)
    pairs = pairs_of(round, PROTOCOL)
    assert uniform(pairs[:, 0]) and uniform(pairs[:, 1])
    assert (pairs.astype(np.int64).sum(1) % Q == 2 * value).all()
    left = residuals(round.view, PROTOCOL, round.colluders)
    alone = separate(round.view, PROTOCOL, bound=BOUND, colluders=round.colluders, max_size=1)
    assert not uniform(of(left, alone.coordinate, alone.clients[:, 0]))
    assert not uniform(left.value)


def test_a_mask_that_leaks_is_not_uniform(play):
    """Pairwise masks whose highest bit is missing: the sums are right, and the split shows."""
    weak = Prg(lambda *args, **kwargs: _halved(philox.words(*args, **kwargs), "pairwise mask" in args))
    layer, protocol = sparse_masks(**HOW, prg=weak), sparse_protocol(**HOW, prg=weak)
    assert not uniform(pairs_of(play(layer, N, D, **LOSS), protocol)[:, 0])


def _halved(words, yes):
    return words >> np.uint32(1) if yes else words


def test_residuals_are_those_of_the_honest_survivors(play):
    """Everything they sent and nothing else; without colluders also what those who would collude sent."""
    round = play(LAYER, N, D, **LOSS)
    left = residuals(round.view, PROTOCOL, round.colluders)
    assert set(left.client.tolist()) == set(np.flatnonzero(round.honest).tolist()) == {1, 3, 4, 6, 7}
    sent = np.zeros((N, D), bool)
    sent[left.client, left.coordinate] = True
    assert not ((np.asarray(round.view.uploads) != 0) & ~sent)[round.honest].any()
    assert len(left.value) == sent.sum() == sum(len(where[1]) for where in round.components(PROTOCOL))
    assert set(residuals(round.view, PROTOCOL).client.tolist()) == {0, 1, 3, 4, 5, 6, 7}


def test_a_layer_that_masks_no_pairs_is_refused(play):
    view = play(LAYER, N, D).view
    view = view._replace(public=view.public | {"q": ()}, header=view.header | {"q": ()})
    with pytest.raises(ValueError, match="^layer must be one of 'mask', got 'q'"):
        residuals(view, PROTOCOL, layer="q")
    with pytest.raises(ValueError, match="^layer has nothing to choose from here, got 'mask'"):
        opened_honest(view, jnp.ones(N, bool), threshold=3)


def test_elided_masks_are_refused(play):
    """All uploads would be read, or none, whoever colludes."""
    view = play(LAYER, N, D).view
    for attack in (residuals, functools.partial(separate, bound=BOUND)):
        with pytest.raises(ValueError, match="^protocol must be one whose masks are added, elide=False: elided, up"):
            attack(view, sparse_protocol(**HOW, elide=True))


def test_nothing_is_left_of_a_round_that_is_not_recovered(play):
    round = play(LAYER, N, D, lost=(1, 2, 3, 4))
    left = residuals(round.view, PROTOCOL, round.colluders)
    assert left.value.size == 0 and left.num_params == D
    reading = separate(round.view, PROTOCOL, bound=BOUND)
    assert reading.coordinate.size == 0 and not reading.sent.any() and reading.false_hits == 0
