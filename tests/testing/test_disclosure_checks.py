"""Law 10 of layers: the check finds a layer that asks clients which are lost, or have left."""

import re

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.base import Link, Sent
from fedjax_priv.layers import plain, stack, stateless
from fedjax_priv.testing import Case, check_disclosure, check_layer

READS = "what is disclosed must not depend on rows of lost clients, here "
SENDS = "who is not `online` must send as many bits as who is lost when sums are opened"
OPENS = "if nobody is `online`, no row with a count may be opened with what clients keep private"


def above(**halves):
    """A layer that changes nothing, with other halves."""
    return Case(stack(it=stateless()._replace(**halves), send=plain()), lambda x, weight: x.sum(0))


def sent_by(who):
    """A number of 32 bits."""
    bits = jnp.where(who, jnp.uint32(32), 0)
    return Link(bits, jnp.zeros_like(bits))


def telling(rows, first=jnp.arange, asked=lambda alive, online: online, bits=sent_by):
    """A layer whose clients `asked(alive, online)` disclose `rows(private, asked)`, of what they kept since `first(n)`,
    and count the `bits` of these.
    """

    def disclose(private, public, clear, alive, online):
        who = asked(alive, online)
        return rows(private, who), {"open": bits(who)}

    return above(
        init=lambda key, n: first(n),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=lambda key, private, public, x, cohort: (x, private, Sent()),
        disclose=disclose,
    )


def yes(n):
    return jnp.ones(n, bool)


def large(n):
    return jnp.full(n, -3e9)


def secret(n):
    """A key each, the same."""
    return jnp.broadcast_to(jax.random.key(1), (n,))


def own(private, asked):
    return jnp.where(asked, private, 0)


def all_alive(alive, online):
    return alive


def all_if_one_left(alive, online):
    return alive | (alive != online).any()


def none(asked):
    return sent_by(asked & False)


def of_before(asked):
    """Of a phase before the uploads, in which all sent."""
    return sent_by(asked | True)


def committing():
    """A layer that opens nothing unless a client answers; what all sent before is computed when sums are opened."""
    return above(
        init=lambda key, n: jnp.arange(n),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=lambda key, private, public, x, cohort: (x, private, Sent()),
        disclose=lambda private, public, clear, alive, online: ((own(private, alive), online.any()), {}),
        decode=lambda header, public, received: received._replace(count=jnp.where(header[1], received.count, 0)),
    )


def test_layers_that_keep_the_law():
    check_disclosure(telling(own))
    check_disclosure(telling(own, bits=of_before))
    check_disclosure(committing())
    check_layer(telling(lambda private, asked: jnp.where(asked, private, jax.random.key(0)), secret))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (telling(lambda private, asked: private), READS + "[3]"),
        (telling(lambda private, asked: private[0]), READS + "[0, 1]"),
        (telling(lambda private, asked: private, yes), READS),
        (telling(lambda private, asked: abs(private), large), READS),
        (telling(lambda private, asked: private, secret), READS),
        (telling(own, asked=all_if_one_left, bits=none), READS),
        (telling(own, asked=all_alive), SENDS),
        (telling(own, asked=all_alive, bits=none), OPENS),
    ],
)
def test_what_a_layer_breaks_is_named(case, message):
    with pytest.raises(AssertionError, match=re.escape(f"law 10 (disclosure reads survivors only): {message}")):
        check_disclosure(case)
