"""FLTrust in rounds: the server's own data are a client's, which trains with the others in every round."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv import aggregators, attacks
from fedjax_priv.base import ClientData
from fedjax_priv.clients import fedsgd
from fedjax_priv.systems import robust_fedavg
from helpers import refuses, towards_target

N, M, D, BYZANTINE, ROUNDS = 5, 8, 3, 2, 3
SERVER = N
TRUTH = np.array([1.0, -2.0, 0.5])


def samples():
    """`N` clients, then the server's root data; targets are linear, so all honest gradients point alike."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N + 1, M, D))
    return x.astype(np.float32), (x @ TRUTH + 0.1 * rng.normal(size=(N + 1, M))).astype(np.float32)


def trained(x, y, reference):
    """Cao et al. 2021, Algorithm 2 in float64, with the update of row `reference` as the server's."""
    w = np.zeros(D)
    for _ in range(ROUNDS):
        g = np.stack([2 * a.T @ (a @ w - b) / M for a, b in zip(x.astype(np.float64), y, strict=True)])
        g[:BYZANTINE] *= -3
        others = np.delete(g, SERVER, 0)
        norm, own = np.linalg.norm(others, axis=1), g[reference]
        trust = np.maximum(others @ own / norm / np.linalg.norm(own), 0)
        w = w - 0.1 * (trust / norm) @ others * np.linalg.norm(own) / trust.sum()
    return w


def test_the_server_trains_on_its_root_data_in_every_round():
    x, y = samples()
    loss = lambda w, batch: 0.1 * (batch[0] @ w - batch[1]) ** 2
    system = robust_fedavg(
        fedsgd(loss), num_clients=N + 1, aggregate=aggregators.fltrust(pivot=SERVER), num_byzantine=BYZANTINE,
        attack=attacks.sign_flip(3.0), mesh=None,
    )  # fmt: skip
    data = ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.full(N + 1, M))
    step, state = jax.jit(system.step), system.init(jax.random.key(0), jnp.zeros(D), data)
    for _ in range(ROUNDS):
        state, info = step(jax.random.key(0), state, data)
        assert info.status == 0
    np.testing.assert_allclose(state.params, trained(x, y, SERVER), rtol=1e-4)
    assert abs(state.params - trained(x, y, BYZANTINE)).max() > 1e-2, "the control: another reference"


test_a_trusted_row_needs_the_same_clients_in_every_round = refuses(
    lambda rule: robust_fedavg(towards_target(), num_clients=6, cohort_size=4, aggregate=rule),
    *((rule, "cohort_size must not be given with a rule that trusts a row") for rule in (
        aggregators.fltrust(), aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(1), aggregators.monna(1))
    )),
)  # fmt: skip
