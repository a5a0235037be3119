"""What several test files share: a cohort by hand, a layer's whole protocol in one call, and a toy system's parts."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_priv.aggregators import mean
from fedjax_priv.base import ClientData, Cohort, Local
from fedjax_priv.blocks import clients_mesh
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.crypto.prg import Prg, philox
from fedjax_priv.layers import plain, stack
from fedjax_priv.round import federated_round

Q = 2**32 - 5


def cohort_of(n, *, group=None, weight=None, round=0):
    """Everyone, honest and selected."""
    return Cohort(
        client=jnp.arange(n),
        round=jnp.full(n, round, jnp.int32),
        weight=jnp.full(n, 1 / n, jnp.float32) if weight is None else jnp.asarray(weight, jnp.float32),
        selected=jnp.ones(n, bool),
        byzantine=jnp.zeros(n, bool),
        group=jnp.zeros(n, jnp.int32) if group is None else jnp.asarray(group, jnp.int32),
        gain=jnp.ones(n, jnp.float32),
        participation=jnp.ones(n, jnp.float32),
    )


def survivors(n, lost=()):
    return jnp.ones(n, bool).at[jnp.array(lost, jnp.int32)].set(False)


@functools.partial(jax.jit, static_argnames=("layer", "spoil"))
def run_layer(layer, key, x, cohort, alive, online=None, spoil=None):
    """One round of a layer that ends in a sum. `spoil` garbles what clients hold after they have encoded."""
    online = alive if online is None else online
    state = layer.init(key, cohort.client.size)
    private, public, opening = layer.advertise(key, state, cohort)
    y, state, sent = layer.encode(key, private, public, x, cohort)
    header, closing = layer.disclose(spoil(private) if spoil else private, public, sent.clear, alive, online)
    received = layer.decode(header, public, layer.combine.lower(layer.combine.lift(y, alive, cohort.group)))
    return {
        "received": received, "header": header, "sent": sent, "upload": y, "private": private, "public": public,
        "bits": {**opening, **closing}, "state": state,
    }  # fmt: skip


def wire(upload):
    """Bits of each client's message: its arrays as they are."""
    leaves = [np.asarray(a) for a in jax.tree.leaves(upload)]
    return sum(8 * a.nbytes for a in leaves) // len(leaves[0])


def sparse_wire(d):
    """Bits of each client's message: values, and the shorter way to write down which of `d` coordinates they are."""

    def bits(upload):
        value, position = (np.asarray(a) for a in upload)
        assert value.dtype == np.float32 and value.shape == position.shape
        assert all(len(set(row)) == len(row) and min(row) >= 0 and max(row) < d for row in position.tolist())
        each = math.ceil(math.log2(d))
        listed = ["".join(format(p, f"0{each}b") for p in row) for row in position.tolist()]
        bitmaps = ["".join("01"[p in row] for p in range(d)) for row in map(set, position.tolist())]
        return [32 * len(v) + min(len(a), len(b)) for v, a, b in zip(value, listed, bitmaps, strict=True)]

    return bits


def towards_target():
    """Local training whose update is `w - x_i`, elementwise: the same bits in any block."""

    def apply(key, memory, params, data, who):
        update = params[None, :] - data.examples
        return update, memory, jnp.square(update).mean(1)

    return Local(lambda n, params: (), apply)


def remembering():
    """As `towards_target`, with a memory that counts how often a client's upload counted."""
    plain = towards_target()

    def apply(key, memory, params, data, who):
        update, _, loss = plain.apply(key, (), params, data, who)
        return update, memory + 1, loss

    return Local(lambda n, params: jnp.zeros(n, jnp.int32), apply)


def targets(n, d, seed=0):
    """Client `i` holds the one vector `x_i`; counts are uneven."""
    rng = np.random.default_rng(seed)
    return ClientData(jnp.asarray(rng.normal(size=(n, d)), jnp.float32), jnp.asarray(rng.integers(1, 9, n), jnp.int32))


def mesh_of(devices):
    return None if devices == 1 else clients_mesh(jax.devices()[:devices])


def same_bits(a, b):
    """Equal structure, dtypes and bits."""
    a, b = jax.tree.flatten(a), jax.tree.flatten(b)
    return a[1] == b[1] and all(
        x.dtype == y.dtype and np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a[0], b[0], strict=True)
    )


def chi_square(counts, expected):
    """Statistic and p-value of counts against expected counts."""
    from scipy import stats

    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic, stats.chi2.sf(statistic, len(counts) - 1)


def uniform(words):
    """Whether field elements pass a chi-square test of uniformity (at 1e-6), on their 8 highest bits."""
    counts = np.bincount(np.asarray(words).astype(np.int64) >> 24, minlength=256)
    return chi_square(counts, len(words) / 256)[1] > 1e-6


def silent(purpose):
    """A generator that is silent for one purpose."""
    return Prg(lambda seed, asked, *rest: philox.words(seed, asked, *rest) * np.uint32(asked != purpose))


def neighbours_of(circle, most):
    """`[n, n]`: the `most` nearest of each user of one group, from places on the circle alone."""
    place = np.asarray(circle.place)
    away = (place[:, None] - place[None, :]) % place.size
    near = np.minimum(away, place.size - away)
    return (near > 0) & (near <= most // 2)


def of_the_round(vectors):
    """Local training whose update in round t is `vectors[client, t]`."""

    def apply(key, memory, params, data, who):
        return vectors[who.client, who.round], memory, jnp.zeros(who.client.size)

    return Local(lambda n, params: (), apply)


def engine(**parts):
    """A round in the clear, with some parts replaced."""
    usual = dict(
        cohort=everyone(), local=towards_target(), layers=stack(send=plain()), channel=erasure(), aggregate=mean(),
        server=optax.sgd(1.0), block=3, mesh=None,
    )  # fmt: skip
    return federated_round(**{**usual, **parts})


def one_round(system, data, d=5, seed=5):
    key = jax.random.key(seed)  # not made when this file is imported: kill_sweep.py forks before JAX starts
    before = system.init(key, jnp.zeros(d), data)
    return before, *jax.jit(system.step)(key, before, data)
