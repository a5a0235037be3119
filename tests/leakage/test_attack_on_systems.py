"""The attack on whole rounds: SparseSecAgg in the paper's setting, and the repair that withstands it."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.leakage import colluders_of_round, ratio, residuals, secagg_protocol, separate, sparse_protocol
from fedjax_priv.systems import common_secagg, sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory
from helpers import Q, targets, towards_target

KEY = jax.random.key(5)
ALPHA, DROPOUT, LEVELS = 0.1, 0.3, 2.0**16
BOUND = 2**14


def signed(words):
    words = np.asarray(words).astype(np.int64)
    return np.where(words > Q // 2, words - Q, words)


def clients(n, d):
    data = targets(n, d)
    return data._replace(examples=0.05 * data.examples, count=jnp.full(n, 4, jnp.int32))


def values(n, d):
    """What clients of equal weight send in the first round of SparseSecAgg, in grid points: eq. 16, not rounded."""
    p = 1 - (1 - ALPHA / (n - 1)) ** (n - 1)
    return -np.asarray(clients(n, d).examples, np.float64) / n / (p * (1 - DROPOUT)) * LEVELS


def recorded(system, n, d):
    """From a key to one round and what the server saw of it."""
    data = clients(n, d)
    return jax.jit(lambda key: system.step(key, system.init(KEY, jnp.zeros(d), data), data)[1])


def sparse(n):
    return sparse_secagg(
        towards_target(), num_clients=n, alpha=ALPHA, dropout=DROPOUT, levels=LEVELS, observe=lambda view: view,
        mesh=None, block=n,
    )  # fmt: skip


def attack(info, n, adversaries, protocol, key, bound=BOUND, **how):
    member = jnp.arange(n) >= n - adversaries
    assert int(info.status) == 0
    colluders = colluders_of_round(protocol, key, info.observed.public["mask"], member)
    return separate(info.observed, protocol, bound=bound, colluders=colluders, **how)


def given_survivors(h, n):
    """Fractions read alone and in pairs, for h honest survivors on the complete graph, in closed form."""
    a = ALPHA / (n - 1)
    p = 1 - (1 - a) ** (n - 1)
    return np.array([(1 - a) ** (h - 1) - (1 - a) ** (n - 1), (h - 1) * a * (1 - a) ** (2 * (h - 2))]) / p


def test_half_of_all_values_are_read_alone_without_one_false_hit():
    """N = 30, A = 10, alpha = 0.1, theta = 0.3, c = 2**16: 53% alone, 44% in pairs (theory), every one true."""
    n, adversaries, d = 30, 10, 2000
    play, protocol = recorded(sparse(n), n, d), sparse_protocol(alpha=ALPHA, group_size=n)
    value, sent, read = values(n, d), [], []
    for number in range(10):
        key = jax.random.key(number)
        info = play(key)
        if int(info.status):
            continue
        reading = attack(info, n, adversaries, protocol, key)
        members = reading.clients >= 0
        true = np.where(members, value[reading.clients, reading.coordinate[:, None]], 0).sum(1)
        assert (np.abs(reading.value - true) < members.sum(1)).all()  # each is rounded to a neighbour
        h = int(np.asarray(info.observed.alive)[: n - adversaries].sum())
        share = reading.fraction
        assert (np.abs(share.value[:2] - given_survivors(h, n)) < 5 * share.error[:2]).all()
        sent.append(reading.sent.sum())
        read.append(reading.read.sum(0))
    rounds = ratio(np.array(read), np.array(sent))
    expected = theory.component_fraction(theory.Setting(n, ALPHA, DROPOUT, adversaries / n), np.array([1, 2, 3]))
    assert len(sent) >= 8 and rounds.error[0] < 0.03
    assert (np.abs(rounds.value - expected) < 5 * rounds.error).all()
    np.testing.assert_allclose(expected[:2], [0.529, 0.441], atol=5e-4)


def test_nothing_but_the_total_is_read_of_common_coordinates():
    n, adversaries, d = 12, 3, 200
    system = common_secagg(
        towards_target(), num_clients=n, num_params=d, alpha=0.5, dropout=0.2, levels=LEVELS,
        observe=lambda view: view, mesh=None,
    )  # fmt: skip
    info, protocol = recorded(system, n, d)(KEY), secagg_protocol(group_size=n)
    reading = attack(info, n, adversaries, protocol, KEY, max_size=4, bound=2**11)
    honest = int(np.asarray(info.observed.alive)[: n - adversaries].sum())
    assert honest > 4 and reading.coordinate.size == 0
    assert (reading.sent == honest).all() and reading.fraction.value.tolist() == [0, 0, 0, 0]
    left = residuals(info.observed, protocol)  # the server alone: its total is the direction it was given
    total = np.zeros(left.num_params, np.int64)
    np.add.at(total, left.coordinate, left.value.astype(np.int64))
    direction = np.asarray(info.direction)
    np.testing.assert_allclose(np.sort(signed(total % Q)), np.sort(direction[direction != 0]) * LEVELS)
