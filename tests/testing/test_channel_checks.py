"""The checks of channels and of fading find what they are for."""

import inspect

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import channels
from fedjax_priv.base import Received
from fedjax_priv.testing import check_channel, check_fading, check_fading_by_number


def unheard(y, who):
    """The sum of the uploads of clients that are not selected."""
    return jnp.where(who.selected[:, None], 0, y).sum(0)[None]


def channel(**halves):
    return channels.erasure(0.5, leave=0.5)._replace(**halves)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (channel(transmit=lambda key, y, who: (y, jnp.ones_like(who.selected))), "law 16 .*: an upload must"),
        (channel(respond=lambda key, alive, who: who.selected), "law 16 .*: only clients whose upload arrived"),
        (channel(transmit=lambda key, y, who: (y + jax.random.normal(key, y.shape), who.selected)), "law 5 .draws"),
        (channel(receive=lambda key, rows: Received(rows.value.sum(0), rows.count)), "law 15 .shapes"),
        (channel(receive=lambda key, rows: rows._replace(value=rows.value * jnp.nan)), "law 15 .shapes"),
        (channel(receive=lambda key, rows: rows._replace(count=rows.count * 0)), "law 16 .*: rows must keep their"),
        (channel(receive=lambda key, rows: rows._replace(value=rows.value + rows.value.mean(0, keepdims=True))),
         "law 16 .*: a row of no uploads must reach no other"),
        (channel(receive=lambda key, rows: rows._replace(count=rows.count | 1)), "law 16 .*: rows must keep their"),
        (channel(transmit=lambda key, y, who: (y + unheard(y, who), who.selected)), "law 16 .*: the upload of a "),
        (channel(transmit=lambda key, y, who: (jnp.where(jnp.isnan(unheard(y, who)), 0, y), who.selected)),
         "law 16 .*: the upload of a "),
        (channel(transmit=lambda key, y, who: (y * y[-1, 0], who.selected)), "law 5 .draws"),
        (channel(transmit=lambda key, y, who: (jnp.where(who.selected[0], y, 2 * y), who.selected)), "law 5 .draws"),
        (channel(respond=lambda key, alive, who: alive & jax.random.bernoulli(key, 0.5, alive.shape)), "law 5 .draws"),
    ],
)  # fmt: skip
def test_what_a_channel_breaks_is_named(part, message):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check_channel(part)


def test_what_fading_breaks_is_named():
    drawn = lambda key, n: jax.random.uniform(key, (n,)) + 0.5
    by_place = channels.Fading(lambda key, n: (), lambda key, state, round, n: (drawn(key, n), state))
    check_fading(by_place)
    with pytest.raises(AssertionError, match=r"^law 5 .draws are by number.: another client must move no gain"):
        check_fading_by_number(by_place._replace(apply=lambda key, state, round, n: (drawn(key, n)[::-1], state)))
    silent = by_place._replace(apply=lambda key, state, round, n: (0 * drawn(key, n), state))
    with pytest.raises(AssertionError, match=r"^law 15 .shapes"):
        check_fading(silent)


def test_a_transmission_of_other_values_is_named():
    returned = r"\(y \[b, ...\], alive \[b\]\), got an array of shape \(7, 5\)"
    with pytest.raises(ValueError, match=f"^channel.transmit must return {returned}"):
        inspect.unwrap(check_channel)(channel(transmit=lambda key, y, who: y))
