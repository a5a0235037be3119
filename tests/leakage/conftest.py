"""Rounds of mask layers as the server sees them, and the truth: every pair's mask, every value."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from fedjax_priv.base import View
from fedjax_priv.crypto import field
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.secure_sum.sharing import Secrets
from fedjax_priv.leakage import Colluders
from helpers import agreed_seeds, cohort_of

KEY = jax.random.key(11)


class Round(NamedTuple):
    view: View
    value: np.ndarray  # [n, d], what everybody would send, signed
    colluders: Colluders
    honest: np.ndarray  # honest survivors
    private: Secrets

    def components(self, protocol):
        """{(coordinate, clients): sum of their values}: of b_ij = 1 between honest survivors, from all their keys.

        A pair hides nothing if as many holders of one's key collude as reconstruct it.
        """
        edges, chosen = self._pairs(protocol)
        held = np.asarray(self.colluders.member).astype(int)
        for one, other in ((0, 1), (1, 0)):
            np.add.at(held, edges[:, one], np.asarray(self.colluders.member)[edges[:, other]])
        hides, truth = self.honest & (held < protocol.quorum.threshold), {}
        for coordinate in range(self.value.shape[1]):
            for clients in self._parts(edges, chosen, coordinate, hides):
                truth[coordinate, clients] = int(self.value[list(clients), coordinate].sum())
        return truth

    def _parts(self, edges, chosen, coordinate, hides):
        n = len(self.honest)
        joined, sends = np.zeros((n, n), bool), np.zeros(n, bool)
        for i, j in edges[chosen[:, coordinate]]:
            sends[[i, j]] = True
            joined[i, j] = hides[i] and hides[j]
        label = connected_components(joined, directed=False)[1]
        members = np.flatnonzero(self.honest & sends)
        return [tuple(members[label[members] == part].tolist()) for part in np.unique(label[members])]

    def _pairs(self, protocol):
        """Peers, and where each pair's mask is: `[pairs, 2]` and `[pairs, d]`."""
        roster = self.view.public["mask"]
        place, group = np.asarray(roster.circle.place - roster.circle.start), np.asarray(roster.group)
        i, j = np.triu_indices(len(group), 1)
        away = np.abs(place[i] - place[j])
        away = np.minimum(away, np.asarray(roster.circle.members)[i] - away)
        peers = (group[i] == group[j]) & (away <= protocol.quorum.holders // 2)
        edges = np.stack([i[peers], j[peers]], 1)
        return edges, np.asarray(_chosen(protocol, self.value.shape[1], self.private.key, roster, jnp.asarray(edges)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _chosen(protocol, d, keys, roster, edges):
    i, j = edges.T
    seeds = agreed_seeds(keys[i], roster.key[j])[:, None]
    yes = jnp.ones(seeds.shape[:2], bool)
    return protocol.expansion.pairs(seeds, yes, yes, roster.round[0], d).chosen


@functools.partial(jax.jit, static_argnums=0)
def _run(layer, key, value, cohort, alive, online):
    """A round up to what the server is sent, as it sees it."""
    x = field.from_signed(value)
    private, public, _ = layer.advertise(key, layer.init(key, cohort.client.size), cohort)
    upload, _, sent = layer.encode(key, private, public, x, cohort)
    header, _ = layer.disclose(private, public, sent.clear, alive, online)
    clear, unsent = ({"mask": only_rows(who, sent.clear)} for who in (alive, ~alive))
    view = View(only_rows(alive, upload), clear, alive, {"mask": public}, {"mask": header}, unsent)
    return view, private


@pytest.fixture(scope="session")
def play():
    """A round of `layer`: `lost` do not upload, `gone` leave before disclosure, `colluding` reveal their keys."""

    def one(layer, n, d, *, largest=1000, value=None, lost=(), gone=(), colluding=(), group=None):
        if value is None:
            value = np.random.default_rng(d).integers(-largest, largest + 1, (n, d))
        without = lambda away: ~np.isin(np.arange(n), list(away))
        alive, member, cohort = without(lost), ~without(colluding), cohort_of(n, group=group, round=3)
        view, private = _run(layer, KEY, value.astype(np.int32), cohort, alive, alive & without(gone))
        colluders = Colluders(jnp.asarray(member), *only_rows(jnp.asarray(member), (private.key, private.shares)))
        return Round(view, value, colluders, alive & ~member, private)

    return one
