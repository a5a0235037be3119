"""What the server sees of a round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Sent
from fedjax_priv.channels import erasure
from fedjax_priv.layers import plain, plain_field, quantize, stack, stateless
from helpers import engine, mesh_of, one_round, same_bits, targets


def test_the_server_s_view_is_what_was_sent_and_nothing_private():
    """Uploads as they left the clients that were heard, what went beside them, and what was told and disclosed."""
    secret = np.uint32(7)

    def encode(key, private, public, x, cohort):
        return x + 1, (), Sent(bits=8, clear={"beside": cohort.client * 10})

    def disclose(private, public, clear, alive, online):
        return {"told": jnp.where(online, private["shown"], 0)}, {}

    talking = stateless()._replace(
        init=lambda key, n: (),
        advertise=lambda key, state, who: (
            {"hidden": jnp.full(who.client.shape, secret), "shown": who.client + 100}, {"opening": who.client.sum()}, {}
        ),
        encode=encode, disclose=disclose,
    )  # fmt: skip
    seen = lambda view: view
    data = targets(9, 5)
    system = engine(layers=stack(talk=talking, send=plain()), channel=erasure(0.4, leave=0.3), observe=seen)
    _, _, info = one_round(system, data)
    view, arrived = info.observed, np.asarray(info.counted)
    assert 0 < arrived.sum() < 9
    assert view.alive.tolist() == arrived.tolist()
    np.testing.assert_array_equal(view.uploads, np.where(arrived[:, None], 1 - np.asarray(data.examples), 0))
    beside = np.arange(0, 90, 10)
    assert view.clear["talk"]["beside"].tolist() == (beside * arrived).tolist()
    assert view.unsent["talk"]["beside"].tolist() == (beside * ~arrived).tolist()
    assert int(view.public["talk"]["opening"]) == 36
    told = np.asarray(view.header["talk"]["told"])
    assert set(told) <= {0, *np.flatnonzero(arrived) + 100} and told.any()
    assert not any((np.asarray(leaf) == secret).any() for leaf in jax.tree.leaves(view))


@pytest.mark.parametrize("whole", [False, True])
def test_a_round_is_the_same_bits_observed_or_not(whole):
    centre = stateless(lambda key, x, who: x, whole=whole)
    layers = stack(centre=centre, quantize=quantize(2.0**16, 7), send=plain_field())
    count = lambda view: {"arrived": view.alive.sum(), "most": view.uploads.max()}
    how = dict(layers=layers, channel=erasure(0.3))
    blind, seeing = (one_round(engine(observe=observe, **how), targets(7, 5)) for observe in (None, count))
    assert same_bits(blind[1], seeing[1])
    assert same_bits(blind[2], seeing[2]._replace(observed=()))
    assert int(seeing[2].observed["arrived"]) == int(seeing[2].counted.sum())
    shared = one_round(engine(observe=count, mesh=mesh_of(2), **how), targets(7, 5))
    assert same_bits(seeing[2], shared[2])
