"""Helpers of several test files: local training and data with known answers, statistics, a round in the clear."""

import contextlib
import itertools
import math
import re
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Antennas, Channel, ClientData, Link, Local, RoundInfo, RoundState
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.crypto import field, prg
from fedjax_priv.crypto.prg import Prg, philox
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.round import federated_round
from fedjax_priv.engine.side_by_side import traced_for
from fedjax_priv.layers import plain, stack
from fedjax_priv.testing import cohort_of, run_layer, survivors, wire

__all__ = ["cohort_of", "run_layer", "survivors", "wire"]  # with all below

Q = 2**32 - 5


def sparse_wire(d):
    """Bits of each client's message: values, and the shorter encoding of their positions among `d` coordinates."""

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
    """As `towards_target`, with a memory that counts each client's accepted uploads."""
    plain = towards_target()

    def apply(key, memory, params, data, who):
        update, _, loss = plain.apply(key, (), params, data, who)
        return update, memory + 1, loss

    return Local(lambda n, params: jnp.zeros(n, jnp.int32), apply)


def targets(n, d, seed=0):
    """Client `i` holds the one vector `x_i`; counts are uneven."""
    rng = np.random.default_rng(seed)
    return ClientData(jnp.asarray(rng.normal(size=(n, d)), jnp.float32), jnp.asarray(rng.integers(1, 9, n), jnp.int32))


def heard_alike(part):
    """A layer or channel, with one antenna that hears all clients with gain 1, where cohorts by hand have none."""

    def with_antenna(half, place):
        def run(*args):
            who = args[place]
            n = who.client.size
            gain, total = jnp.zeros((n, 1, 2)).at[..., 0].set(1.0), jnp.zeros((n, 1, 2)).at[..., 0].set(n)
            who = who._replace(antennas=Antennas(gain, total, gain[:, 0]))
            return half(*args[:place], who, *args[place + 1 :])

        return run

    if isinstance(part, Channel):
        return part._replace(transmit=with_antenna(part.transmit, 2))
    return part._replace(advertise=with_antenna(part.advertise, 2), encode=with_antenna(part.encode, 4))


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


def p_value_of_subsets(sets, population):
    """Of the hypothesis that every subset of the population is equally likely; `sets` are sorted, `[draws, k]`."""
    number = {subset: i for i, subset in enumerate(itertools.combinations(range(population), sets.shape[1]))}
    counts = np.bincount([number[tuple(row)] for row in sets.tolist()], minlength=len(number))
    return chi_square(counts, len(sets) / len(number))[1]


def uniform(words, bits=8):
    """Whether field elements pass a chi-square test of uniformity (at 1e-6), on their highest bits."""
    counts = np.bincount(np.asarray(words).astype(np.int64) >> 32 - bits, minlength=2**bits)
    return chi_square(counts, len(words) / 2**bits)[1] > 1e-6


@contextlib.contextmanager
def accelerator_forms() -> Iterator[None]:
    """Programs traced inside run, on this CPU, the forms that operations take on a TPU."""
    with traced_for("tpu"):
        yield


def equations(jaxpr):
    """Every equation of a program, including those of its loops and branches."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def silent(purpose):
    """A generator that is silent for one purpose."""
    return Prg(lambda seed, asked, *rest: philox.words(seed, asked, *rest) * np.uint32(asked != purpose))


QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of `jax.jit` for programs that take longer to compile than to run."""


def neighbours_of(circle, most):
    """`[n, n]`: the `most` nearest peers of each user of one group, from places on the circle."""
    place = np.asarray(circle.place)
    away = (place[:, None] - place[None, :]) % place.size
    near = np.minimum(away, place.size - away)
    return (near > 0) & (near <= most // 2)


def agreed_seeds(secret, public):
    """The seeds `[*n, w]` of pairs of a secret key and a public key `[*n, w]`, each power by itself."""
    agreed = field.power(public, secret)
    return jnp.moveaxis(prg.expand(jnp.moveaxis(agreed, -1, 0), "pair seed", 0, agreed.shape[-1]), 0, -1)


def of_the_round(vectors):
    """Local training whose update in round t is `vectors[client, t]`."""

    def apply(key, memory, params, data, who):
        return vectors[who.client, who.round], memory, jnp.zeros(who.client.size)

    return Local(lambda n, params: (), apply)


def engine(**parts):
    """A round in the clear, with some parts replaced."""
    usual = dict(
        cohort=everyone(), local=towards_target(), layers=stack(send=plain()), channel=erasure(), aggregate=mean(),
        block=3, mesh=None,
    )  # fmt: skip
    return federated_round(**{**usual, **parts})


def pulling(rate=0.5, cohort_size=None):
    """An algorithm of few operations, to test the code around one: each draw, loss and memory shows in its bits."""

    def init(key, params, data):
        return RoundState(jnp.int32(0), (), params, jnp.zeros(data.count.shape), (), (), ())

    def step(key, state, data):
        n = data.count.size
        k = cohort_size or n
        client = (jax.random.randint(jax.random.fold_in(key, state.round), (), 0, n) + jnp.arange(k)) % n
        pull = (state.params[None, :] - data.examples[client]) / (1 + state.memory[client])[:, None]
        failed, counted = jnp.int32(0), data.count[client] > 1
        bits = {"upload": Link(client.astype(jnp.uint32), jnp.zeros(k, jnp.uint32))}
        trains = data.count[client] > 0
        loss = jnp.square(pull).mean(1)
        info = RoundInfo(pull.mean(0), client, loss, trains, bits, counted, failed[None], failed)
        params, memory = state.params - rate * pull.mean(0), state.memory.at[client].add(jnp.where(counted, 1.0, 0.0))
        return RoundState(state.round + 1, (), params, memory, (), (), ()), info

    return Algorithm(init, step)


def one_round(system, data, d=5, seed=5):
    key = jax.random.key(seed)  # not made when this file is imported: kill_sweep forks before JAX starts
    before = system.init(key, jnp.zeros(d), data)
    return before, *jax.jit(system.step)(key, before, data)


def rounds_of(system, key, params, data, length):
    """The states after each of these rounds, and what the rounds tell."""

    def body(state, _):
        state, info = system.step(key, state, data)
        return state, (state, info)

    return jax.jit(lambda: jax.lax.scan(body, system.init(key, params, data), length=length)[1])()


def refuses(call, *cases, whole=False):
    """A test of bad arguments: in each case `(*arguments, message)`, `call(*arguments)` raises a ValueError.

    The error is one line that matches the message, a pattern; or, if `whole`, is this very text.
    """

    @pytest.mark.parametrize("case", cases, ids=[case[-1] for case in cases])
    def test(case):
        *arguments, message = case
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$" if whole else message) as caught:
            call(*arguments)
        assert "\n" not in str(caught.value)

    return test
