"""The noise for a budget, where fewer send with more noise and the search alternates between two noises."""

import jax
import jax.numpy as jnp
import pytest
import xarray as xr

from fedjax_priv import losses, models, systems
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.ledger import budget, noise_for

LOSS = losses.softmax_cross_entropy(models.softmax_regression((1,), 2))
ALGORITHM = systems.fedavg(local_sgd(LOSS, learning_rate=1.0, batch_size=1, num_steps=1))
DATA = ClientData(jnp.zeros((1, 1)), jnp.ones(1, jnp.int32))


@pytest.fixture
def search(monkeypatch):
    """Searches with stand-ins: the release of a system is its noise, and eps is the number of senders by noise."""

    def run(senders, epsilon):
        tried = []

        def planned(algorithm, *_):
            noise = algorithm.release
            tried.append(noise)
            return xr.Dataset({"senders": next(number for below, number in senders if noise < below)})

        monkeypatch.setattr(budget, "planned", planned)
        monkeypatch.setattr(budget, "ledger", lambda of, plan, data, delta: plan.senders.item() / of.release)
        monkeypatch.setattr(budget, "_adversary", lambda *_: "")
        monkeypatch.setattr(budget, "_spent", lambda eps, *_: eps)
        make = lambda noise: ALGORITHM._replace(release=noise)
        try:
            return noise_for(make, jax.random.key(0), {}, DATA, epsilon, delta=1e-5, rounds=1), len(tried)
        except ValueError as error:
            return str(error), len(tried)

    return run


@pytest.mark.parametrize("last", [0, 1])
def test_a_noise_that_fits_is_found_between_those_that_alternate(search, last):
    """Nine ask for 9, with which nobody or one sends; four ask for 4, and send with it but with no less."""
    found, tried = search([(3, 9), (4, 6), (4.4, 4), (8, 10), (1e9, last)], 1.0)
    assert found == pytest.approx(4 if last == 0 else 8, rel=2e-5) and found >= (4 if last == 0 else 8)
    assert tried < 40


def test_where_none_is_found_the_noises_are_said(search):
    said, tried = search([(5, 9), (1e9, 0)], 1.0)
    assert said.startswith(
        "epsilon must be one for which a search finds who sends, got 1: the noises alternate between "
    )
    assert said.endswith(" and 9, and another start may be given by the option of the noise") and tried < 25


def test_a_search_that_settles_is_as_it_was(search):
    found, tried = search([(3, 9), (1e9, 6)], 1.0)
    assert found == pytest.approx(6, rel=2e-5) and tried == 3
