"""What a ledger says of Gaussian noise on each upload, where attackers choose coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.attacks import same_set, sign_flip
from fedjax_priv.clients import poisson
from fedjax_priv.ledger import ledger, planned
from fedjax_priv.systems import compose, robajol
from fedjax_priv.theory import gaussian
from helpers import targets, towards_target

N, D = 6, 8
DATA = targets(N, D)
IGNORANT = "Byzantine clients know no other's update"


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize(("attack", "conditional"), [("nobody", False), ("values", False), ("coordinates", True)])
def test_attackers_who_propose_see_updates_before_noise(attack, conditional, alpha):
    """A proposal is public and may say what noise would hide; what they send in its place is above their own noise."""
    attacks = {"values": {"attack": sign_flip()}, "coordinates": {"coordinate_attack": same_set()}}
    system = compose(
        towards_target(), num_clients=N, num_params=D, compress="conspar", ratio=0.5, alpha=alpha, private="local",
        clip=1.0, noise_variance=1.0, num_byzantine=1, **attacks.get(attack, {}),
    )  # fmt: skip
    run = planned(system, jax.random.key(0), jnp.zeros(D), DATA, 2)
    _, values = ledger(system, run, DATA, delta=1e-5)
    assert (values.proved.epsilon is not None) == (alpha == 1)  # else proposals tell more
    assert (IGNORANT in values.proved.why) == conditional


def test_each_client_has_the_figure_of_its_noise():
    variance = np.linspace(0.5, 3.0, N, dtype=np.float32)
    entries = lambda noise: ledger(
        system := compose(towards_target(), num_clients=N, private="local", clip=2.0, noise_variance=noise),
        planned(system, jax.random.key(0), jnp.zeros(D), DATA, 3), DATA, delta=1e-5,
    )  # fmt: skip
    (entry,) = entries(jnp.asarray(variance))
    exact = gaussian.epsilon(1e-5, 2 * 2.0 * np.sqrt(3 / variance.astype(np.float64)))
    np.testing.assert_allclose(entry.proved.epsilon, exact, rtol=1e-9)
    (silent,) = entries(jnp.asarray(variance).at[0].set(0.0))
    assert silent.proved.epsilon is None


def test_clients_that_come_by_coins_pay_for_the_rounds_in_which_they_came():
    coins = poisson(0.5)
    system = compose(towards_target(), num_clients=N, private="local", clip=1.0, noise_variance=1.0, cohort=coins)
    run = planned(system, jax.random.key(0), jnp.zeros(D), DATA, 3)
    (entry,) = ledger(system, run, DATA, delta=1e-5)
    came = (run.up_bytes.values[0] > 0).sum(0)
    assert came.min() < came.max() <= 3 and (run.client_id.values == np.arange(N)).all()
    np.testing.assert_allclose(entry.proved.epsilon, gaussian.epsilon(1e-5, 2 * np.sqrt(came)), rtol=1e-9)


@pytest.mark.parametrize("system", ["compose", "robajol"])
def test_an_upload_that_is_lost_costs_nothing(system):
    """Nobody sees it, and its client keeps what it remembers."""
    made = {
        "compose": lambda: compose(
            towards_target(), num_clients=N, private="local", clip=1.0, noise_variance=4.0, dropout=0.4
        ),
        "robajol": lambda: robajol(
            towards_target(), num_clients=N, num_params=D, k=4, clip=1.0, noise_multiplier=2.0, dropout=0.4
        ),
    }[system]()  # fmt: skip
    run = planned(made, jax.random.key(0), jnp.zeros(D), DATA, 6)
    came = (run.up_bytes.values[0] > 0).sum(0)
    assert came.min() < came.max() < 6
    entry, *_ = ledger(made, run, DATA, delta=1e-5)
    np.testing.assert_allclose(entry.proved.epsilon, gaussian.epsilon(1e-5, np.sqrt(came)), rtol=1e-9)
    assert not entry.gaussian


def test_numbers_of_samples_are_public_since_they_weigh_what_others_send():
    """That one client has another number of samples changes the total, and so the upload of each other client."""
    system = compose(
        towards_target(), num_clients=N, private="local", weigh="expected", clip=1.0, noise_variance=1.0, mesh=None,
        observe=lambda view: view.uploads,
    )  # fmt: skip
    sent = jax.jit(lambda data: system.step(key, system.init(key, jnp.zeros(D), data), data)[1].observed)
    key, other = jax.random.key(0), DATA._replace(count=DATA.count.at[0].add(5))
    assert ((sent(DATA) != sent(other))[1:]).any(1).all()
    (entry,) = ledger(system, planned(system, key, jnp.zeros(D), DATA, 1), DATA, delta=1e-5)
    assert "samples per client and who comes are public" in entry.adjacent
