"""Colluders bring their shares: a secret is known to whoever has as many of them as the threshold."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import named
from fedjax_priv.layers import pairwise_masks
from fedjax_priv.leakage import Colluders, colluders_of_round, secagg_protocol, separate
from fedjax_priv.leakage.known_secrets import known_secrets
from helpers import cohort_of, neighbours_of, same_bits

N, D, BOUND = 10, 40, 1000


@functools.cache
def ring():
    how = dict(group_size=N, neighbours=4, threshold=2)
    return pairwise_masks(**how), secagg_protocol(**how)


def everything_of(round, clients):
    return {(at, client): round.value[client, at] for client in clients for at in range(D)}


def read_alone(round, protocol):
    found = separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=1)
    return dict(
        zip(zip(found.coordinate.tolist(), found.clients[:, 0].tolist(), strict=True), found.value, strict=True)
    )


@pytest.mark.parametrize(("number", "lost"), [(2, False), (2, True), (1, False)])
def test_two_colluding_neighbours_read_a_client_of_whose_key_they_hold_enough_shares(play, number, lost):
    """Two shares of two: its key is known, and with it all its masks; its 4 neighbours all survive. Not one of two.

    Whether the colluders upload does not matter: they hold their shares.
    """
    layer, protocol = ring()
    circle = play(layer, N, D).view.public["mask"].circle
    two = np.asarray(circle.order)[[1, 3]]
    round = play(layer, N, D, colluding=two[:number], lost=two if lost else ())
    exposed = np.flatnonzero(neighbours_of(circle, 4)[two].all(0))
    assert exposed.tolist() == [circle.order[2]]
    assert read_alone(round, protocol) == (everything_of(round, exposed) if number == 2 else {})


COMPLETE = dict(group_size=6, threshold=4)


@functools.cache
def complete():
    return pairwise_masks(**COMPLETE), secagg_protocol(**COMPLETE)


@pytest.mark.parametrize(("colluding", "known"), [((5,), True), ((), False), ((0,), False)])
def test_shares_that_were_opened_and_those_of_colluders_count_together(play, colluding, known):
    """Three of the four survivors answer, one too few. A colluder that is gone brings the fourth share.

    The sum over honest survivors is then known, though the round failed. One that answered brings nothing new.
    """
    layer, protocol = complete()
    round = play(layer, 6, D, lost=(4, 5), gone=(3,), colluding=colluding)
    assert round.view.header["mask"].online.tolist() == [True, True, True, False, False, False]
    honest = np.flatnonzero(round.honest)
    found = separate(round.view, protocol, bound=BOUND, colluders=round.colluders, max_size=4)
    assert found.sent.tolist() == [4 * known] * D
    expected = [(at, round.value[honest, at].sum()) for at in range(D)] if known else []
    assert list(zip(found.coordinate.tolist(), found.value.tolist(), strict=True)) == expected


def test_as_many_colluders_as_the_threshold_read_everybody(play):
    layer, protocol = complete()
    round = play(layer, 6, D, colluding=(0, 1, 2, 3))
    assert read_alone(round, protocol) == everything_of(round, [4, 5])


def test_a_colluder_s_wrong_share_gives_no_secret(play):
    """It does not fit the public key, so the server knows that it knows nothing; nothing is read, and nothing false."""
    layer, protocol = ring()
    two = np.asarray(play(layer, N, D).view.public["mask"].circle.order)[[1, 3]]
    round = play(layer, N, D, colluding=two)
    wrong = round.colluders._replace(shares=round.colluders.shares ^ np.uint32(1))
    assert read_alone(round._replace(colluders=wrong), protocol) == {}
    header, roster = round.view.header["mask"], round.view.public["mask"]
    known = jax.jit(lambda colluders: known_secrets(protocol.quorum, header, roster, colluders).of)
    assert known(round.colluders).sum() > 2
    assert np.flatnonzero(known(wrong)).tolist() == sorted(two)


def test_colluders_of_a_round_bring_what_they_drew_and_were_dealt_in_it():
    layer, protocol = ring()
    key, who = jax.random.key(2), cohort_of(N, round=3)
    stage = named(named(jax.random.fold_in(key, 3), "advertise"), "mask")
    private, roster, _ = jax.jit(lambda: layer.advertise(stage, (), who))()
    member = jnp.arange(N) % 3 == 1
    found = colluders_of_round(protocol, key, roster, member)
    assert same_bits(found, Colluders(member, *only_rows(member, (private.key, private.shares))))
    assert found.shares[1].any() and not found.shares[0].any()
