"""The score over rounds of correlated noise: what it is at best, and against scores of single rounds."""

import functools
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from audit.test_breaks import LOSS

from fedjax_priv.audit import Subject, findings
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.audit.over_rounds import _weighted
from fedjax_priv.audit.readings import along, between_rounds
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.ledger import ledger, planned
from fedjax_priv.ledger.correlated_noise import noise_rows, sensitivity
from fedjax_priv.server_noise import banded, banded_inverse, buffered, tree
from fedjax_priv.systems import dp_fedavg
from fedjax_priv.theory import correlated_noise as cn
from fedjax_priv.theory.correlated_noise import Schedule

N, APART, CLIENTS, SIZE, Z, DELTA = 8, 4, 4, 4, 2.0, 1e-3
TAKEN = (np.arange(N) % APART == 0).astype(float)
BANDS = banded(cn.optimal_banded(N, APART))
PROCESSES = {
    "bands": BANDS, "inverse bands": banded_inverse(cn.inverse_square_root(3)), "buffers": buffered([0.3], [0.9]),
    "tree": tree(N), "plain tree": tree(N, variance_reduced=False), "trees": tree(3),
}  # fmt: skip


@pytest.mark.parametrize("name", PROCESSES)
def test_the_best_score_is_as_far_as_the_sensitivity_says_at_most(name):
    correlation = PROCESSES[name].correlation
    rows = noise_rows(correlation, N)
    for taken, apart in ((TAKEN, APART), (np.ones(N), 1)):
        weights = cn.matched_filter(rows, taken)
        moved = sensitivity(correlation, Schedule(N, apart))
        assert np.linalg.norm(weights @ rows) == pytest.approx(1)
        assert weights @ taken <= moved * (1 + 1e-12)
        if "tree" not in name:
            c = np.linalg.inv(rows)
            assert weights @ taken == pytest.approx(moved) == pytest.approx(np.linalg.norm(c @ taken))
        if name == "bands":  # control: what a single round shows
            assert (taken / np.linalg.norm(rows, axis=1)).max() < 0.65 * (weights @ taken)
        others = np.random.default_rng(0).normal(size=(200, N))
        assert (np.abs(others @ taken) / np.linalg.norm(others @ rows, axis=1)).max() < weights @ taken


@pytest.mark.parametrize(("leaves", "reduced"), [(None, True), (3, True), (5, False), (8, False)])
def test_rows_of_trees_have_the_error_of_trees(leaves, reduced):
    sums = np.cumsum(cn.tree_rows(11, leaves, reduced), axis=0)
    np.testing.assert_allclose(np.linalg.norm(sums, axis=1), cn.tree_error(11, leaves, reduced))


def test_a_run_is_read_by_the_rounds_of_its_own_client():
    """Noise alone has deviation 1; each run is moved by the distance of its rounds, and 0 without any."""
    rng = np.random.default_rng(1)
    rows = noise_rows(BANDS.correlation, N)
    taken = np.repeat([TAKEN, np.roll(TAKEN, 1), 0 * TAKEN], 4000, axis=0)
    read = rng.normal(size=taken.shape) @ rows.T + 3 * taken
    score = _weighted(rows, np.hstack([read, taken]))[:, 0].reshape(3, -1)
    distance = np.linalg.norm(np.linalg.inv(rows) @ np.stack([TAKEN, np.roll(TAKEN, 1)]).T, axis=0)
    np.testing.assert_allclose(score[:2].mean(1), 3 * distance, atol=5 / 4000**0.5)
    np.testing.assert_allclose(score[:2].std(1), 1, atol=5 / 8000**0.5)
    assert not score[2].any()


@functools.cache
def reader(rounds):
    """Scores of all rounds `[t]` by what client 0 sends in each, `[t, 9]`."""
    u = jnp.full(9, 1 / 3)
    score = between_rounds([along(lambda seen: seen.updates[0])], lambda params: u, rounds)

    def of_round(t, vector):
        who = cast(Any, SimpleNamespace(round=t[None]))
        return score(Seen((), (), cast(Any, SimpleNamespace()), vector[None], who, jnp.int32(0)))

    return jax.jit(lambda sent: jax.vmap(of_round)(jnp.arange(rounds), sent).sum(0))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("rounds", "apart"), [(2, 1), (4, 2), (4, 3), (16, 7), (16, 15), (60, 8), (60, 59)])
def test_noise_of_the_first_round_that_is_used_again_leaves_the_canary_alone(rounds, apart, sign):
    """Its own size, 3, is read without noise if the same noise comes back, or its opposite, and never else."""
    u = np.full(9, 1 / 3, np.float32)
    fresh = np.random.default_rng(0).normal(size=(rounds, u.size)).astype(np.float32)
    again = fresh.copy()
    again[apart] = sign * fresh[0]

    sent = 3 * u * (np.arange(rounds) == 0)[:, None]
    close = lambda noise: np.isclose(reader(rounds)(noise + sent), 3, atol=1e-4).any()
    assert close(again) and not close(fresh)


def system(**how):
    return lambda local, observe: dp_fedavg(
        local, num_clients=CLIENTS, noise_multiplier=Z, noise=BANDS, observe=observe, mesh=None, block=CLIENTS, **how
    )


def test_separation_that_is_not_kept_is_contradicted():
    in_turn, always = system(sampling_rate=1.0, separation=APART), system()
    local, data = sending(jnp.zeros((CLIENTS, SIZE))), no_samples(CLIENTS)
    release = in_turn(local, None).release
    plan = planned(in_turn(local, None), jax.random.key(0), jnp.zeros(SIZE), data, N)
    every = ledger(in_turn(local, None), plan, data, delta=DELTA)
    entries = [one for one in every if (one.view, one.neighbours) == ("device", "zero-out")]
    (entry,) = entries
    assert entry.gaussian and entry.proved.epsilon == pytest.approx(cn.epsilon(DELTA, Z, 2**0.5))

    def shown(make):
        subject = Subject(make, local, LOSS, jnp.zeros(SIZE), data, release)
        how = {"trials": 1500, "rounds": N, "delta": DELTA, "confidence": 0.99, "kind": "direction"}
        (one,) = findings(subject, entries, jax.random.key(3), **how)
        return one

    sound, broken = shown(in_turn), shown(always)
    assert (
        not sound.contradicts and sound.look == "direction, over rounds" and sound.at_least > 0.2 * entry.proved.epsilon
    )
    assert broken.contradicts == ["proved"] and broken.at_least > 2 * entry.proved.epsilon
