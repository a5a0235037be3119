"""The auditor contradicts the eps of systems that are broken, and not that of the same systems when they are sound."""

import broken
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from jax.flatten_util import ravel_pytree

from fedjax_priv import losses, models
from fedjax_priv.audit import Subject, findings
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.base import ClientData
from fedjax_priv.clients import batch_gradients, local_sgd, local_training
from fedjax_priv.clients.ghost_norms import outer_products, sample_gradients
from fedjax_priv.engine import row_norms
from fedjax_priv.layers import clipping, noise_gaussian, noise_skellam, plain_field
from fedjax_priv.ledger import Entry, ledger
from fedjax_priv.ledger.entry import Figure, none
from fedjax_priv.systems import _distributed_noise, compose, dp_sgd, secagg
from fedjax_priv.systems.composition import parts as composed_parts
from fedjax_priv.theory import gaussian

KEY, DELTA = jax.random.key(5), 1e-3
CLIENTS, PARAMS, ROUNDS, TRIALS = 3, 33, 2, 700
CONFIDENCE = 0.999
"""An honest control fails with a probability of at most 1 - CONFIDENCE for each entry."""
EVERY = ("server", "device", "everybody")
CAUGHT = {
    "uploads": {
        "sound": (), "none on half of the coordinates": ("server",), "none on one coordinate": ("server",),
        "none on the last coordinate": ("server",), "one key for all clients": ("server",),
        "none of the canary client": ("server",), "the same every round": ("server",),
        "opposite every other round": ("server",), "clipped by the largest entry": ("server",),
    },
    "sum": {
        "sound": (), "none on one coordinate": EVERY, "one key for all clients": ("device", "everybody"),
        "none of the canary client": ("everybody",), "the same every round": EVERY,
        "every coordinate drawn twice": EVERY,
    },
    "training": {
        "sound": (), "none on half of the coordinates": EVERY, "one key for all clients": ("device", "everybody"),
        "none of the canary client": ("everybody",), "the same every round": EVERY,
        "clipped by the largest entry": EVERY,
    },
}  # fmt: skip
"""Whose eps is contradicted. A client without noise is hidden from who does not know the noise of all others, and noise
that clients share from who knows none of it. (Skellam noise checks the norm once more, so a wrong clip shows no more.)
"""


MODEL = models.softmax_regression((15,), 2)
LOSS = losses.softmax_cross_entropy(MODEL)


def run_of(n=CLIENTS, rounds=ROUNDS):
    """A run as a ledger reads it, in which everybody took part."""
    each, shape = ("round", "client"), (rounds, n)
    variables = {
        "client_id": (each, np.tile(np.arange(n), (rounds, 1))), "counted": (each, np.ones(shape, bool)),
        "join_probability": (each, np.ones(shape)), "gain": (each, np.ones(shape)),
        "status": ("round", np.zeros(rounds, int)), "up_bytes": (("round", "phase", "client"), np.ones((rounds, 1, n))),
    }  # fmt: skip
    return xr.Dataset(variables, {"phase": ["upload"]}, attrs={"num_params": PARAMS})


def plus_gaussian(key, x, cohort, deviation, real=noise_gaussian.plus_gaussian):
    of = lambda key: real(key, jnp.zeros_like(x), cohort, deviation)
    return x + broken.noise(of(key), of(broken.frozen_key()), cohort.round[0])


def per_client(draw, key, client, real=noise_skellam.per_client):
    frozen = real(draw, broken.frozen_key(), client)
    return broken.noise(real(draw, key, client), frozen, broken.NOW["round"])


def with_noise(gradient_noise, real=batch_gradients.with_noise):
    add = real(gradient_noise)

    def noisy(keys, time, grads):
        flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])
        unravel = ravel_pytree(jax.tree.map(lambda a: a[0], grads))[1]
        zero = jax.tree.map(jnp.zeros_like, grads)
        frozen = jax.vmap(lambda i: jax.random.fold_in(broken.frozen_key(), i))(jnp.arange(len(keys)))
        spoiled = broken.noise(flat(add(keys, time, zero)), flat(add(frozen, time, zero)), broken.NOW["round"])
        return jax.tree.map(jnp.add, grads, jax.vmap(unravel)(spoiled))

    return noisy


def clip(max_norm):
    sound = clipping.clip(max_norm)

    def encode(key, private, public, x, cohort):
        y, *rest = sound.encode(key, private, public, x, cohort)
        wrong = x * jnp.minimum(1.0, max_norm / jnp.abs(x).max(1))[:, None]
        return broken.where("clipped by the largest entry", wrong, y), *rest

    return sound._replace(encode=encode)


def norms(rows, real=row_norms.norms):
    return broken.where("clipped by the largest entry", jnp.abs(rows).max(1), real(rows))


@pytest.fixture(scope="module", autouse=True)
def switches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_gaussian, "plus_gaussian", plus_gaussian)
        patch.setattr(noise_skellam, "per_client", per_client)
        patch.setattr(local_training, "with_noise", with_noise)
        for module in (outer_products, sample_gradients):
            patch.setattr(module, "norms", norms)
        patch.setattr(composed_parts, "clip_to", clip)
        patch.setattr(_distributed_noise, "clip_to", clip)
        yield


def of_uploads():
    """Noise of each client, which the server averages in the clear."""
    make = lambda local, observe: compose(
        local, num_clients=CLIENTS, private="local", clip=1.0, noise_variance=36.0, observe=observe, mesh=None,
        block=CLIENTS,
    )  # fmt: skip
    local, data = sending(jnp.zeros((CLIENTS, PARAMS))), no_samples(CLIENTS)
    system = make(local, None)
    entries = ledger(system, run_of(), data, delta=DELTA)
    return Subject(broken.rooted(make), local, LOSS, jnp.zeros(PARAMS), data, system.release), entries


def in_a_sum():
    """Noise of all clients in a secure sum, whose masks are left out."""
    options = {"num_clients": CLIENTS, "clip": 1.0, "noise_variance": 36.0, "levels": 2.0**6, "mesh": None}
    make = lambda local, observe: secagg(local, secure_sum=plain_field(), observe=observe, block=CLIENTS, **options)
    local, data = sending(jnp.zeros((CLIENTS, PARAMS))), no_samples(CLIENTS)
    system = secagg(local, **options)
    entries = ledger(system, run_of(), data, delta=DELTA)
    return Subject(broken.rooted(make), local, LOSS, jnp.zeros(PARAMS), data, system.release), entries


def in_training():
    """Noise in the one local step of each client, on whole batches."""
    batch, sigma = 8, 0.5
    training = lambda loss: local_sgd(
        loss, learning_rate=0.1, batch_size=batch, num_steps=1, sample_clip=1.0, gradient_noise=sigma
    )
    make = lambda local, observe: dp_sgd(
        local, num_clients=CLIENTS, secure_sum=plain_field(), observe=observe, mesh=None, block=CLIENTS
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS, batch, 15)) / 2
    examples = jnp.asarray(x, jnp.float32), jnp.asarray(rng.integers(0, 2, x.shape[:2]), jnp.int32)
    data = ClientData(examples, jnp.full(CLIENTS, batch, jnp.int32))
    release = dp_sgd(training(LOSS), num_clients=CLIENTS).release

    def entry(view, hidden):
        mu = np.sqrt(ROUNDS / hidden) * 2 / batch / sigma
        return Entry(
            view,
            "one sample",
            none(""),
            Figure(float(gaussian.epsilon(DELTA, mu)), DELTA, ""),
            view=view,
            gaussian=True,
        )

    entries = [entry("server", CLIENTS), entry("device", CLIENTS - 1), entry("everybody", 1)]
    params = jax.tree.map(jnp.zeros_like, MODEL.init(KEY))
    return Subject(broken.rooted(make), training(LOSS), LOSS, params, data, release, training), entries


SYSTEMS = {"uploads": of_uploads, "sum": in_a_sum, "training": in_training}


@pytest.fixture(scope="module")
def known():
    """Subject, entries and scores of each system."""
    return {name: (*make(), {}) for name, make in SYSTEMS.items()}


@pytest.mark.parametrize(("system", "broken_by"), [(name, each) for name in CAUGHT for each in CAUGHT[name]])
def test_what_is_broken_is_contradicted_and_what_is_sound_is_not(system, broken_by, known, monkeypatch):
    subject, entries, cache = known[system]
    broken.switched(monkeypatch, cache, list(CAUGHT[system]), broken_by)
    found = findings(subject, entries, KEY, trials=TRIALS, rounds=ROUNDS, delta=DELTA, confidence=CONFIDENCE)
    assert tuple(one.view for one in found if one.contradicts) == CAUGHT[system][broken_by]
    for one in found:
        assert one.proved is not None and one.limit > 1.5 * one.proved
        assert not one.contradicts or one.at_least > 1.3 * one.proved
