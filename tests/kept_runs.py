"""Small runs with sampling, dropout and a memory of each client, for tests of what a run leaves in its folder."""

import functools
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv import Keep, data, simulate
from fedjax_priv.base import ClientData, Local
from fedjax_priv.systems import fedavg
from helpers import mesh_of, pulling, remembering, targets

D, N, ROUNDS, KEY = 8, 8, 6, jax.random.key(5)
DATA = targets(N, D)
SMALL = functools.partial(pulling, cohort_size=3)
"""A system of few operations, for `run`."""
POOL = data.pool_of(ClientData(np.asarray(DATA.examples)[:, None], np.minimum(np.asarray(DATA.count), 1)))


def velocity():
    """Local training with a memory `[n, d]`, as momentum or error feedback have."""

    def apply(key, memory, params, samples, who):
        x = samples.examples.reshape(-1, D)
        memory = memory / 2 + (params[None, :] - x)
        return memory, memory, jnp.square(memory).mean(1)

    return Local(lambda n, params: jnp.zeros((n, D)), apply)


def run(samples=DATA, *, rate=0.5, key=KEY, params=None, rounds=ROUNDS, every=1, devices=2, local=None, **how):
    """Runs `how["system"]`, made of a rate; if not given, FedAvg with its clients on several devices."""
    make = how.pop("system", lambda rate: spread(rate, local or remembering(), devices))
    params = jnp.zeros(D) if params is None else params
    evaluate = how.pop("evaluate", lambda w: {"norm": jnp.square(w).sum()})
    return simulate(
        make(rate), key, params, samples, rounds=rounds, every=every, evaluate=evaluate, progress=False, **how
    )


def spread(rate, local, devices):
    server = optax.sgd(rate)
    return fedavg(local, cohort_size=3, dropout=0.2, exact=False, server=server, mesh=mesh_of(devices))


def plain(result):
    return result.drop_attrs().drop_vars("seconds").assign_attrs(num_params=result.attrs["num_params"])


def stop_at(round):
    """A hook through which SIGTERM arrives after a round."""
    return lambda record: record["round"] == round and os.kill(os.getpid(), signal.SIGTERM)


def stopped(folder, *args, at=3, **how):
    with pytest.raises(SystemExit) as stop:
        run(*args, keep=Keep(folder, every=how.pop("checkpoint", None)), log=stop_at(at), **how)
    assert stop.value.code == 128 + signal.SIGTERM
