"""An upload that travels in the clear is read on all coordinates, whatever a composed system makes of it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import mean
from fedjax_priv.audit.by_release import PLANS
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.channels import constant
from fedjax_priv.crypto.sketch import Projection
from fedjax_priv.layers import plain_field, plain_ring
from fedjax_priv.systems import compose, distributed_dp_fedavg, fedrep, robajol, secagg, wireless

N, D, K = 4, 12, 5
KEY = jax.random.key(2)
UPDATES = np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)
CLIPPED = UPDATES / np.linalg.norm(UPDATES, axis=1, keepdims=True)
LOCAL = {"private": "local", "clip": 100.0, "noise_variance": 1e-10}
IN_FIELD = {"private": "field", "clip": 100.0, "noise_variance": 1e-4, "levels": 256.0}
STACKS = {
    "floats": LOCAL, "grid points": {**LOCAL, "secure": "field"},
    "pairs": {**LOCAL, "secure": "sparse_secagg", "weigh": "expected", "ratio": 0.9},
    "own": {**LOCAL, "compress": "rand_k"}, "common": {**LOCAL, "compress": "common"},
    "common, noise in the field": {**IN_FIELD, "compress": "common", "secure": "secagg"},
    "proposed": {**LOCAL, "compress": "conspar", "alpha": 1.0},
    "projected, no noise": {"compress": "jl"},
}  # fmt: skip


def seen_round(make, view="everybody", coalitions=(0,), **choices):
    """What an auditor sees of a round, and how the release is audited."""
    data = no_samples(N)
    system = make(sending(jnp.asarray(UPDATES)), observe=lambda view: view, mesh=None, **choices)
    about = {"release": system.release, "view": view, "kind": "direction"}
    readings = [PLANS[type(system.release)].readings(**about, colluding=one) for one in coalitions]

    @jax.jit
    def watched():
        state = system.init(KEY, jnp.zeros(D), data)
        who, _ = system.draw(KEY, state.draw, state.round, data.count)
        after, info = system.step(KEY, state, data)
        seen = Seen(state.params, after.params, info, jnp.asarray(UPDATES), who, jnp.int32(0))
        return seen, [[reading(seen, jnp.ones(D))[1] for reading in mine] for mine in readings]

    seen, found = watched()
    assert int(seen.info.status) == 0
    found = jax.tree.map(np.asarray, found)
    return seen, found if len(coalitions) > 1 else found[0]


def projected_back(seen, update, dense=False):
    """P'P of an update, from the matrix."""
    by, seed = Projection(D, K, dense), seen.info.observed.public["sketch"]
    matrix = np.asarray(jax.jit(by.project)(seed, jnp.eye(D)), np.float64).T
    return matrix.T @ matrix @ update


def alike(a, b):
    """The cosine of their angle."""
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize("name", STACKS)
def test_one_reading_is_of_the_first_clients_upload_alone(name):
    choices = STACKS[name]
    if "compress" in choices:
        choices = choices | {"k": 2 * N if choices["compress"] == "conspar" else K}
    if choices.get("secure") not in (None, "field"):
        choices = choices | {"elide": True}
    seen, (found, *_) = seen_round(compose, num_clients=N, num_params=D, **choices)
    expected = projected_back(seen, UPDATES[0]) if choices.get("compress") == "jl" else UPDATES[0]
    there = found != 0
    assert there.sum() >= 3
    assert alike(found[there], expected[there]) > 0.999 > 0.95 > alike(found[there], UPDATES[1][there])


NOISY = {"clip": 100.0, "view": "server"}
IN_THE_CLEAR = {
    "field": (secagg, {"secure_sum": plain_field(), "levels": 256.0, "noise_variance": 1e-4}),
    "ring": (
        distributed_dp_fedavg,
        {"secure_sum": plain_ring(24), "bits": 24, "num_params": D, "shares": N, "noise_multiplier": 1e-4},
    ),
    "buffers": (
        fedrep,
        {
            "num_params": D, "k": 2 * N, "buffer_size": 2, "in_the_clear": True, "alpha": 1.0, "noise_variance": 1e-4,
            "aggregate": mean(), "levels": 256.0,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_THE_CLEAR)
def test_the_server_of_a_sum_in_the_clear_reads_one_upload(name):
    """As its ledger says, though the clients' noise is in all of the sum."""
    make, choices = IN_THE_CLEAR[name]
    _, readings = seen_round(make, num_clients=N, **NOISY | choices)
    likeness = [alike(found[found != 0], UPDATES[0][found != 0]) for found in readings]
    assert max(likeness) > 0.999 and likeness[0] < 0.95


def test_a_coalition_that_reaches_the_threshold_reads_one_upload():
    """Of four clients; two colluders leave another client in the sum."""
    choices = {"noise_multiplier": 1e-4, "bits": 24, "num_params": D, "shares": N, "threshold": 3, "elide": True}
    choices |= {"num_clients": N}
    _, read = seen_round(distributed_dp_fedavg, view="coalition", coalitions=(2, 3), clip=100.0, **choices)
    assert [max(alike(found, UPDATES[0]) for found in mine) > 0.999 for mine in read] == [False, True]


def test_an_upload_on_a_link_of_its_own_is_read_alone_and_beside_another():
    how = {"access": "orthogonal", "clip": 1.0, "noise_variance": 1e-10, "receiver_noise": 1e-10}
    _, (alone, beside) = seen_round(functools.partial(wireless, fading=constant()), **how)
    np.testing.assert_allclose(alone, CLIPPED[0], atol=1e-3)
    np.testing.assert_allclose(beside, CLIPPED[0] - CLIPPED[-1], atol=1e-3)


@pytest.mark.parametrize("dense", [False, True])
def test_projected_uploads_are_read_alone_and_beside_another(dense):
    """What all clients share, such as one draw of noise, is in no difference."""
    seen, (alone, beside) = seen_round(
        robajol, num_clients=N, num_params=D, k=K, clip=100.0, noise_multiplier=1e-8, dense=dense
    )
    np.testing.assert_allclose(alone, projected_back(seen, UPDATES[0], dense), atol=1e-4)
    np.testing.assert_allclose(beside, projected_back(seen, UPDATES[0] - UPDATES[-1], dense), atol=1e-4)
