"""FLTrust in rounds: the server's own data are a client's, which trains with the others in every round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import aggregators, attacks
from fedjax_priv.base import ClientData
from fedjax_priv.clients import fedsgd
from fedjax_priv.systems import fedrep, robajol, robust_fedavg, share
from helpers import refuses, towards_target

N, M, D, ROUNDS = 5, 8, 3, 3
SERVER = N
TRUTH = np.array([1.0, -2.0, 0.5])


def samples():
    """`N` clients, then the server's root data; targets are linear, so all honest gradients point alike."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N + 1, M, D))
    return x.astype(np.float32), (x @ TRUTH + 0.1 * rng.normal(size=(N + 1, M))).astype(np.float32)


def trained(x, y, reference, num_byzantine):
    """Cao et al. 2021, Algorithm 2 in float64, with the update of row `reference` as the server's."""
    w = np.zeros(D)
    for _ in range(ROUNDS):
        g = np.stack([2 * a.T @ (a @ w - b) / M for a, b in zip(x.astype(np.float64), y, strict=True)])
        g[:num_byzantine] *= -3
        others = np.delete(g, SERVER, 0)
        norm, own = np.linalg.norm(others, axis=1), g[reference]
        trust = np.maximum(others @ own / norm / np.linalg.norm(own), 0)
        w = w - 0.1 * (trust / norm) @ others * np.linalg.norm(own) / trust.sum()
    return w


@pytest.mark.parametrize("num_byzantine", [2, 4])  # a majority, too
def test_the_server_trains_on_its_root_data_in_every_round(num_byzantine):
    x, y = samples()
    loss = lambda w, batch: 0.1 * (batch[0] @ w - batch[1]) ** 2
    system = robust_fedavg(
        fedsgd(loss), num_clients=N + 1, aggregate=aggregators.fltrust(pivot=SERVER), num_byzantine=num_byzantine,
        attack=attacks.sign_flip(3.0), mesh=None,
    )  # fmt: skip
    data = ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.full(N + 1, M))
    step, state = jax.jit(system.step), system.init(jax.random.key(0), jnp.zeros(D), data)
    for _ in range(ROUNDS):
        state, info = step(jax.random.key(0), state, data)
        assert info.status == 0
    np.testing.assert_allclose(state.params, trained(x, y, SERVER, num_byzantine), rtol=1e-4)
    assert abs(state.params - trained(x, y, 0, num_byzantine)).max() > 1e-2, "the control: another reference"


test_a_trusted_row_needs_the_same_clients_in_every_round = refuses(
    lambda rule: robust_fedavg(towards_target(), num_clients=6, cohort_size=4, aggregate=rule),
    *((rule, "cohort_size must not be given with a rule that trusts a row") for rule in (
        aggregators.fltrust(), aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(1), aggregators.monna(1))
    )),
)  # fmt: skip

test_all_clients_but_the_trusted_one_may_be_byzantine = refuses(
    lambda num_byzantine: robust_fedavg(
        towards_target(), num_clients=6, num_byzantine=num_byzantine, aggregate=aggregators.fltrust(pivot=5)
    ),
    (6, "num_byzantine=6 can corrupt 6 of 6 rows, but aggregate tolerates 5; it would need 7 rows"),
    (-1, "num_byzantine must be an integer >= 0, got -1"),
)

WHOM_NOT = "aggregate must trust an honest client, such as client"
LAST_TWO = np.arange(6) >= 4
SYSTEMS = {
    "robust_fedavg": robust_fedavg,
    "robajol": lambda local, **how: robajol(local, num_params=D, k=2, **how),
    "share": lambda local, **how: share(local, buffer_size=1, in_the_clear=True, **how),
    "fedrep": lambda local, **how: fedrep(local, num_params=D, k=6, buffer_size=1, in_the_clear=True, **how),
}


def trusting(rule, system="robust_fedavg", num_byzantine=2, **how):
    return SYSTEMS[system](towards_target(), num_clients=6, num_byzantine=num_byzantine, aggregate=rule, **how)


test_no_system_trusts_a_byzantine_client_or_nobody = refuses(
    lambda case: trusting(*case[0], **case[1]),
    *((((aggregators.monna(2), name), {}), f"{WHOM_NOT} 2, got Byzantine client 0") for name in SYSTEMS),
    *(
        (((aggregators.fltrust(pivot=6), name), {}), "aggregate must trust a row below num_clients = 6, got row 6")
        for name in SYSTEMS
    ),
    (((aggregators.fltrust(pivot=1),), {}), f"{WHOM_NOT} 2, got Byzantine client 1"),
    (((aggregators.fltrust(pivot=4),), {"byzantine": LAST_TWO}), f"{WHOM_NOT} 0, got Byzantine client 4"),
    (
        ((aggregators.one_of(1, [aggregators.coordinate_median(), aggregators.fltrust()]),), {}),
        f"{WHOM_NOT} 2, got Byzantine client 0",
    ),
    (
        ((aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(1), aggregators.monna(1)), "share", 1), {}),
        f"{WHOM_NOT} 1, got Byzantine client 0",
    ),
    (
        ((aggregators.mean()._replace(trusted_row=True),), {"num_byzantine": 0}),
        "aggregate.trusted_row must be an integer >= 0, got True",
    ),
)  # fmt: skip


def test_every_system_trusts_an_honest_client():
    for name in SYSTEMS:
        trusting(aggregators.monna(2, pivot=2), name)
    trusting(aggregators.fltrust(), byzantine=LAST_TWO)
