"""An upload that travels in the clear is read on all coordinates, whatever a composed system makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import mean
from fedjax_priv.audit.by_release import PLANS
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.crypto.sketch import Projection
from fedjax_priv.layers import plain_field, plain_ring
from fedjax_priv.systems import compose, distributed_dp_fedavg, fedrep, robajol, secagg

N, D, K = 4, 12, 5
KEY = jax.random.key(2)
UPDATES = np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)
LOCAL = {"private": "local", "clip": 100.0, "noise_variance": 1e-10}
IN_FIELD = {"private": "field", "clip": 100.0, "noise_variance": 1e-4, "levels": 256.0}
STACKS = {
    "floats": LOCAL, "grid points": {**LOCAL, "secure": "field"}, "masked": {**LOCAL, "secure": "secagg"},
    "pairs": {**LOCAL, "secure": "sparse_secagg", "weigh": "expected", "ratio": 0.9},
    "enrolled": {**LOCAL, "secure": "enrolled"},
    "own": {**LOCAL, "compress": "rand_k"}, "common": {**LOCAL, "compress": "common"},
    "common, masked": {**LOCAL, "compress": "common", "secure": "secagg"},
    "common, noise in the field": {**IN_FIELD, "compress": "common", "secure": "secagg"},
    "proposed": {**LOCAL, "compress": "conspar", "alpha": 1.0},
    "proposed, masked": {**LOCAL, "compress": "conspar", "alpha": 1.0, "secure": "secagg"},
    "projected": {**LOCAL, "compress": "jl"}, "projected, masked": {**LOCAL, "compress": "jl", "secure": "secagg"},
    "projected, no noise": {"compress": "jl"},
}  # fmt: skip


def seen_round(make, view="everybody", colluding=0, **choices):
    """What an auditor sees of a round, and how the release is audited."""
    data = no_samples(N)
    system = make(sending(jnp.asarray(UPDATES)), num_clients=N, observe=lambda view: view, mesh=None, **choices)
    state = system.init(KEY, jnp.zeros(D), data)
    who, _ = system.draw(KEY, state.draw, state.round, data.count)
    after, info = jax.jit(system.step)(KEY, state, data)
    assert int(info.status) == 0
    seen = Seen(state.params, after.params, info, jnp.asarray(UPDATES), who, jnp.int32(0))
    about = {"release": system.release, "view": view, "colluding": colluding, "kind": "direction"}
    readings = PLANS[type(system.release)].readings(**about)
    return seen, [np.asarray(reading(seen, jnp.ones(D))[1]) for reading in readings]


def projected_back(seen, update, dense=False):
    """P'P of an update, from the matrix."""
    by, seed = Projection(D, K, dense), seen.info.observed.public["sketch"]
    matrix = np.asarray(by.project(seed, jnp.eye(D)), np.float64).T
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
    seen, (found, *_) = seen_round(compose, num_params=D, **choices)
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
    _, readings = seen_round(make, **NOISY | choices)
    likeness = [alike(found[found != 0], UPDATES[0][found != 0]) for found in readings]
    assert max(likeness) > 0.999 and likeness[0] < 0.95


@pytest.mark.parametrize(("colluding", "alone"), [(2, False), (3, True)])
def test_a_coalition_that_reaches_the_threshold_reads_one_upload(colluding, alone):
    """Of four clients; two colluders leave another client in the sum."""
    choices = {"noise_multiplier": 1e-4, "bits": 24, "num_params": D, "shares": N, "threshold": 3, "elide": True}
    _, readings = seen_round(distributed_dp_fedavg, view="coalition", colluding=colluding, clip=100.0, **choices)
    assert (max(alike(found, UPDATES[0]) for found in readings) > 0.999) == alone


@pytest.mark.parametrize("dense", [False, True])
def test_projected_uploads_are_read_alone_and_beside_another(dense):
    """What all clients share, such as one draw of noise, is in no difference."""
    seen, (alone, beside) = seen_round(robajol, num_params=D, k=K, clip=100.0, noise_multiplier=1e-8, dense=dense)
    np.testing.assert_allclose(alone, projected_back(seen, UPDATES[0], dense), atol=1e-4)
    np.testing.assert_allclose(beside, projected_back(seen, UPDATES[0] - UPDATES[-1], dense), atol=1e-4)
