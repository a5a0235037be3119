"""Ledgers of servers that do not follow the protocol: no figure of an honest one is printed as if it held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import simulate
from fedjax_priv.attacks import gradient_suppression, replay, split_lists
from fedjax_priv.base import LyingServer, Models
from fedjax_priv.layers.rounded_norm import squared_norm_bound
from fedjax_priv.ledger import ledger
from fedjax_priv.systems import compose, dp_fedavg, fedavg, secagg, sparse_secagg
from fedjax_priv.theory import lying_server, skellam
from helpers import targets, towards_target

N, D, T, DELTA = 8, 3, 5, 1e-3
DATA = targets(N, D)
CLIP, VARIANCE, LEVELS = 0.05, 0.02**2, 2.0**14
NOISE = {"clip": CLIP, "noise_variance": VARIANCE, "levels": LEVELS}
LISTS, MODELS = split_lists(N, threshold=T), gradient_suppression(0, N, "Dense_0")
LIES = {"lists": LISTS, "models": MODELS, "both": replay({"w": jnp.zeros(D)}, 0, N)}
WORDS = {"lists": "lists of survivors", "models": "models of its choice", "both": "models of its choice"}


def entries(system):
    """Of two rounds in which everybody's upload arrived."""
    each = ("round", "client")
    variables = {
        "client_id": (each, np.tile(np.arange(N), (2, 1))), "counted": (each, np.ones((2, N), bool)),
        "up_bytes": (("phase", *each), np.ones((1, 2, N))),
    }  # fmt: skip
    return ledger(system, xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": D}), DATA, delta=DELTA)


def of_sum(honest):
    """Eps of two sums with the noise of so many honest clients, by hand."""
    longest = np.sqrt(squared_norm_bound(LEVELS * CLIP, D))
    return skellam.epsilon(2 * skellam.rdp(2 * longest, D, np.array([honest * VARIANCE * LEVELS**2]))[0], DELTA)


@pytest.mark.parametrize("lie", LIES)
def test_only_the_noise_of_a_client_alone_is_left(lie):
    """With false lists the server reads a sum of four, whose eps is above that of an honest server."""
    make = lambda **how: secagg(towards_target(), num_clients=N, threshold=T, **NOISE, **how)
    honest, lied = entries(make()), entries(make(lying_server=LIES[lie]))
    read = lying_server.smallest_sum(N, T)
    assert read == 4 and of_sum(read) > of_sum(N)
    np.testing.assert_allclose(honest[0].proved.epsilon, of_sum(N))
    assert [entry.view for entry in lied] == ["server", "device", "everybody"]
    for entry in lied[:2]:
        assert entry.claimed.epsilon is None is entry.proved.epsilon and not entry.note
        assert "does not follow the protocol" in entry.proved.why and WORDS[lie] in entry.proved.why
    np.testing.assert_allclose(lied[2].proved.epsilon, of_sum(1))


@pytest.mark.parametrize("lie", LIES)
def test_a_sum_without_noise_is_not_said_to_be_one_over_many(lie):
    (entry,) = entries(secagg(towards_target(), num_clients=N, threshold=T, lying_server=LIES[lie]))
    assert entry.proved.epsilon is None and not entry.note and WORDS[lie] in entry.proved.why


def test_noise_that_suffices_alone_stays_what_it_is():
    for make in (
        lambda **how: sparse_secagg(towards_target(), num_clients=N, alpha=0.5, threshold=T, **NOISE, **how),
        lambda **how: compose(
            towards_target(), num_clients=N, secure="secagg", private="local", threshold=T, clip=1.0,
            noise_variance=1.0, **how,
        ),
    ):  # fmt: skip
        (honest,), (lied,) = entries(make()), entries(make(lying_server=LISTS))
        np.testing.assert_array_equal(lied.proved.epsilon, honest.proved.epsilon)
        assert "lists of survivors" in lied.note and "masks hide" not in lied.note


def test_noise_that_such_a_server_adds_is_no_guarantee():
    system = dp_fedavg(
        towards_target(), num_clients=N, clip=1.0, noise_multiplier=1.0, sampling_rate=1.0, secure=True, threshold=T,
        lying_server=LISTS,
    )  # fmt: skip
    found = entries(system)
    assert found and all(entry.proved.epsilon is None for entry in found)


def test_a_server_that_tells_no_lie_is_honest():
    make = lambda **how: secagg(towards_target(), num_clients=N, threshold=T, **NOISE, **how)
    assert repr(entries(make(lying_server=LyingServer()))) == repr(entries(make()))
    assert not make(lying_server=LyingServer()).caveats


def test_a_run_says_that_the_server_lies():
    same = LyingServer(models=lambda key, state: Models(state.params[None], jnp.zeros(N, jnp.int32)))
    system = fedavg(towards_target(), lying_server=same, mesh=None)
    data = DATA._replace(count=jnp.full(N, 3))
    run = simulate(system, jax.random.key(0), jnp.zeros(D), data, rounds=1, progress=False)
    assert "the server does not follow the protocol: it gives clients models" in run.attrs["caveats"]
