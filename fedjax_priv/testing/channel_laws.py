"""The laws of a channel and of fading, as checks."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv import _validate
from fedjax_priv.base import Channel, Received
from fedjax_priv.channels import Fading
from fedjax_priv.testing.laws import assert_close, is_compiled, law, require, traced_once
from fedjax_priv.testing.single_layer_round import cohort_of

DRAWS = 8
"""Keys that are tried: a channel that loses every second upload loses some and delivers some."""
_UNSELECTED = 2
"""The client that takes no part."""
_ABSENT = 1
"""The row of the server that has no uploads, the last of two."""


def check_channel(channel: Channel, *, num_clients: int = 7, num_params: int = 5, variant: Callable = jax.jit) -> None:
    """Laws 4, 5, 14, 15 and 16: uploads keep their form, draws are by client, only the selected are heard.

    Args:
      channel: on float32 uploads.
      num_clients: n; client 2 is not selected.
      num_params: d.
      variant: how the channel is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """
    who = cohort_of(num_clients)._replace(selected=jnp.arange(num_clients) != _UNSELECTED)
    y = jnp.asarray(np.random.default_rng(0).normal(size=(num_clients, num_params)), jnp.float32)
    rows = Received(y[:2], jnp.array([num_clients - 1, 0], jnp.int32))
    run = variant(traced_once(lambda *args: _through(channel, *args)))
    part, respond = jax.jit(channel.transmit), jax.jit(channel.respond)
    for seed in range(DRAWS if is_compiled(variant) else 1):
        key = jax.random.key(seed)
        with law(4, "a channel must be traced once for all rounds"):
            sent, alive, online, received = run(key, y, who, rows)
        with law(15, "a channel must keep the shapes and dtypes of uploads and rows, and say bool [n] who is there"):
            chex.assert_trees_all_equal_shapes_and_dtypes((sent, received), (y, rows))
            chex.assert_tree_all_finite((sent, received))
            chex.assert_shape((alive, online), (num_clients,))
            chex.assert_type((alive, online), bool)
        require(16, not (alive & ~who.selected).any(), "an upload must arrive from selected clients only")
        require(16, not (online & ~alive).any(), "only clients whose upload arrived may respond")
        same = channel.hides_count or (received.count == rows.count).all()
        require(16, bool(same), "rows must keep their count, but where a channel says that it hides it")
        other, heard = np.arange(num_clients) != _UNSELECTED, part(key, y, who)
        for held in (np.nan, 1e6):
            with law(16, "the upload of a client that is not selected must reach no other"):
                spoilt = part(key, y.at[_UNSELECTED].set(held), who)
                chex.assert_trees_all_equal(_rows(spoilt, other), _rows(heard, other))
            with law(16, "a row of no uploads must reach no other"):
                spoilt = run(key, y, who, rows._replace(value=rows.value.at[_ABSENT].set(held)))[-1]
                chex.assert_trees_all_equal(_rows(spoilt, slice(_ABSENT)), _rows(received, slice(_ABSENT)))
        for kept in (slice(1, None), slice(None, -1), slice(_UNSELECTED, None)):
            with law(5, "what happens to a client's upload must depend on its number, not on its place"):
                found = part(key, y[kept], _rows(who, kept))
                chex.assert_trees_all_close(found, _rows((sent, alive), kept), rtol=1e-6, atol=1e-6)
                chex.assert_trees_all_equal(respond(key, alive[kept], _rows(who, kept)), online[kept])
        if not is_compiled(variant):
            with law(14, "a channel must do the same with and without jit"):
                compiled = jax.jit(lambda *args: _through(channel, *args))(key, y, who, rows)
                assert_close((sent, alive, online, received), compiled, rtol=1e-5)


def check_fading(fading: Fading, *, num_clients: int = 7, variant: Callable = jax.jit) -> None:
    """Laws 3, 4, 14 and 15: gains `[n]` above 0. That each client's are its own, `check_fading_by_number` checks.

    Args:
      fading: of any number of clients.
      num_clients: n.
      variant: how it is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """
    key, first = jax.random.key(7), fading.init(jax.random.key(3), num_clients)
    apply = lambda key, state, round: fading.apply(key, state, round, num_clients)
    run, state = variant(traced_once(apply)), first
    for round in range(3):
        with law(4, "fading must be traced once for all rounds"):
            gain, after = run(key, state, jnp.int32(round))
        with law(15, "gains must be finite, float32 [n], above 0"):
            chex.assert_shape(gain, (num_clients,))
            chex.assert_type(gain, jnp.float32)
            chex.assert_tree_all_finite(gain)
            assert (gain > 0).all()
        with law(3, "the state of fading must keep its structure, shapes and dtypes"):
            chex.assert_trees_all_equal_shapes_and_dtypes(after, first)
        if not is_compiled(variant) and round == 0:
            with law(14, "gains must be the same with and without jit"):
                chex.assert_trees_all_close(gain, jax.jit(apply)(key, state, jnp.int32(round))[0], rtol=1e-5)
        state = after


def check_fading_by_number(fading: Fading, num_clients: int = 7) -> None:
    """Law 5: another client moves no gain. It is no law of `recorded` gains, which are given for one number of clients.

    Raises:
      AssertionError: the law is broken.
    """
    gains = []
    for n in (num_clients, num_clients + 1):
        state = fading.init(jax.random.key(3), n)
        first, state = fading.apply(jax.random.key(7), state, jnp.int32(0), n)
        gains.append((first[:num_clients], fading.apply(jax.random.key(8), state, jnp.int32(1), n)[0][:num_clients]))
    with law(5, "another client must move no gain"):
        chex.assert_trees_all_close(*gains, rtol=1e-6)


def _through(channel: Channel, key: Any, y: Any, who: Any, rows: Received) -> tuple:
    made = channel.transmit(key, y, who)
    _validate.returned(2, "y [b, ...], alive [b]", **{"channel.transmit": made})
    y, alive = made
    return y, alive, channel.respond(key, alive, who), channel.receive(key, rows)


def _rows(tree: Any, kept: slice | np.ndarray) -> Any:
    return jax.tree.map(lambda a: a[kept], tree)
