"""DP-FedAvg's figures, against closed forms and the accountant called by hand."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import losses, models, server_noise, systems
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.ledger import ledger, worst
from fedjax_priv.systems.releases import CentralNoise, Participation
from fedjax_priv.theory import gaussian, sampled_gaussian
from fedjax_priv.theory.sampled_gaussian import Round

N, ROUNDS, DELTA, Z = 8, 6, 1e-5, 1.5
DATA = ClientData((jnp.zeros((N, 2, 3)), jnp.zeros((N, 2), jnp.int32)), jnp.full(N, 2, jnp.int32))
COHORTS = np.array([[0, 1], [0, 2], [3, 4], [0, 5], [5, 6], [1, 2]])
TURNS = np.array([[0, 4], [1, 5], [2, 6], [3, 7], [0, 4], [1, 5]])
"""Rounds of a client are four apart."""


def training(**how):
    loss = losses.softmax_cross_entropy(models.softmax_regression((3,), 2))
    return local_sgd(loss, learning_rate=1.0, batch_size=2, num_steps=1, **how)


LOCAL = training()


def run_of(cohorts=COHORTS, came=True):
    """What a ledger reads of a run."""
    each = ("round", "client")
    up = np.broadcast_to(came, cohorts.shape)[None] * 8.0
    return xr.Dataset(
        {"client_id": (each, cohorts), "up_bytes": (("phase", *each), up)}, {"phase": ["upload"]}, {"num_params": 8}
    )


def entries(cohorts=COHORTS, came: Any = True, local=LOCAL, **how: Any):
    system = systems.dp_fedavg(local, num_clients=N, clip=1.0, noise_multiplier=Z, **how)
    return ledger(system, run_of(cohorts, came), DATA, delta=DELTA)


def figures(found) -> dict[tuple[str, str], Any]:
    return {(entry.view, entry.neighbours): worst(entry.proved) for entry in found}


def poisson(neighbours, rounds=ROUNDS, **more) -> Any:
    return sampled_gaussian.epsilon(DELTA, [(Round(Z, 0.25, **more), rounds)], neighbours)


def test_a_poisson_cohort_is_amplified_for_who_does_not_see_it():
    found = figures(entries(sampling_rate=0.25))
    assert found["outsider", "add/remove"] == poisson("add/remove")
    assert found["outsider", "replacement"] == poisson("replacement")
    assert found["device", "zero-out"] == pytest.approx(
        gaussian.epsilon(DELTA, np.sqrt(3) / Z)
    )  # client 0 came 3 times
    assert found["device", "replacement"] == pytest.approx(gaussian.epsilon(DELTA, 2 * np.sqrt(3) / Z))
    assert found["server", "replacement"] is None
    assert found["outsider", "add/remove"] < found["device", "zero-out"]


def test_each_client_has_its_own_rounds_where_they_are_seen():
    (seen,) = (
        entry for entry in entries(sampling_rate=0.25) if (entry.view, entry.neighbours) == ("device", "zero-out")
    )
    taken = np.array([3, 2, 2, 1, 1, 2, 1, 0])
    np.testing.assert_allclose(np.asarray(seen.proved.epsilon), gaussian.epsilon(DELTA, np.sqrt(taken) / Z))


def test_an_upload_that_is_lost_shows_nothing():
    lost = COHORTS != 0
    found = figures(entries(came=lost, sampling_rate=0.25))
    assert found["device", "zero-out"] == pytest.approx(gaussian.epsilon(DELTA, np.sqrt(2) / Z))
    assert found["outsider", "add/remove"] == poisson("add/remove")


def test_who_sees_who_comes_sees_nothing_of_a_sum_that_too_few_uploads_are_in():
    """The noise alone is released then. Who does not see it counts all attempts."""
    lost = COHORTS != 1  # the threshold is 2: client 0 is alone in the first round, client 2 in the last
    found = figures(entries(came=lost, cohort_size=2, secure=True, elide=True, threshold=2))
    assert found["device", "zero-out"] == pytest.approx(gaussian.epsilon(DELTA, np.sqrt(2) / Z))
    assert found["outsider", "zero-out"] == figures(entries(cohort_size=2))["outsider", "zero-out"]
    in_the_clear = figures(entries(came=lost, cohort_size=2))
    assert in_the_clear["device", "zero-out"] == pytest.approx(gaussian.epsilon(DELTA, np.sqrt(3) / Z))


def test_a_fixed_size_does_not_have_the_poisson_figure():
    found = figures(entries(cohort_size=2))
    for neighbours in ("add/remove", "zero-out", "replacement"):
        assert found["outsider", neighbours] == poisson(neighbours, sampling="fixed size")
    assert found["outsider", "add/remove"] > 1.5 * poisson("add/remove")


def test_a_capacity_is_accounted_for():
    found = figures(entries(sampling_rate=0.25, capacity=3))
    assert found["outsider", "add/remove"] == poisson("add/remove", capacity=3, population=N)
    assert found["outsider", "add/remove"] > poisson("add/remove")


def test_the_source_of_a_figure_is_of_its_sampling():
    """The theorem is about cohorts of any size; that of a capped one is derived here."""
    why = lambda **how: {entry.proved.why for entry in entries(**how) if entry.neighbours == "add/remove"}
    (plain,), (capped,) = why(sampling_rate=0.25), why(sampling_rate=0.25, capacity=3)
    assert plain.endswith("unseen: Theorem 11 of Zhu, Dong and Wang 2022")
    assert capped.endswith("unseen: proved in theory.sampled_gaussian.rounds; no proof in print that we know of")


def test_groups_that_take_turns_spend_a_round_in_so_many():
    found = figures(entries(TURNS, sampling_rate=0.25, separation=4))
    assert found["outsider", "add/remove"] == pytest.approx(poisson("add/remove", 2), rel=1e-6)


def test_separated_rounds_are_counted_and_not_amplified():
    found = figures(entries(TURNS, cohort_size=2, separation=4))
    assert found["outsider", "zero-out"] == pytest.approx(gaussian.epsilon(DELTA, np.sqrt(2) / Z))
    assert ("outsider", "add/remove") not in found


def test_everyone_is_a_gaussian_mechanism():
    everyone = np.tile(np.arange(N), (ROUNDS, 1))
    found = figures(entries(everyone))
    assert found["outsider", "add/remove"] == pytest.approx(gaussian.epsilon(DELTA, np.sqrt(ROUNDS) / Z))
    assert found["outsider", "replacement"] == found["device", "replacement"]


def test_a_secure_sum_protects_no_more_and_has_no_add_remove():
    """Lost clients count for the quorum as if they had not come."""
    how = {"sampling_rate": 0.25, "secure": True, "elide": True, "threshold": 3}
    found = figures(entries(**how))
    assert ("outsider", "add/remove") not in found and found["server", "replacement"] is None
    quorum = {"population": N, "quorum": 3}
    assert found["outsider", "zero-out"] == poisson("zero-out", **quorum) > 1.2 * poisson("zero-out")
    found = figures(entries(**how, dropout=0.2, leave=0.1))
    assert found["outsider", "replacement"] == pytest.approx(poisson("replacement", **quorum, stays=0.72), rel=1e-6)


def test_in_a_graph_of_few_neighbours_coins_hide_nobody():
    found = figures(entries(sampling_rate=0.25, secure=True, elide=True, neighbours=4, threshold=3))
    assert found["outsider", "zero-out"] == found["device", "zero-out"]


def test_clients_that_remember_are_not_amplified():
    remembering = training(momentum=0.9, carry_momentum=True)
    found = figures(entries(local=remembering, sampling_rate=0.25))
    assert found["outsider", "zero-out"] == found["device", "zero-out"]


def test_without_noise_or_with_an_unknown_correlation_there_is_none():
    for z, correlation in ((0.0, None), (Z, "unheard of")):
        release = CentralNoise(z, 1.0, Participation("everyone"), N, False, correlation)
        system = systems.fedavg(LOCAL)._replace(release=release)
        assert {worst(entry.proved) for entry in ledger(system, run_of(), DATA, delta=DELTA)} == {None}


TWO_BANDS = server_noise.banded((1.0, 0.5))


def test_correlated_noise_is_one_mechanism_for_all_rounds():
    """Two rounds of a client that are three apart touch no common row of two bands: mu = sqrt(2 * 1.25) / z."""
    found = entries(TURNS, cohort_size=2, separation=3, noise=TWO_BANDS)
    assert figures(found)["outsider", "zero-out"] == pytest.approx(gaussian.epsilon(DELTA, np.sqrt(2.5) / Z))
    assert figures(found)["device", "replacement"] == pytest.approx(gaussian.epsilon(DELTA, 2 * np.sqrt(2.5) / Z))
    assert found[0].proved.by_round is not None
    by_round = found[0].proved.by_round()
    np.testing.assert_allclose(by_round[2:], gaussian.epsilon(DELTA, np.sqrt([1.25, 2.25, 2.5, 2.5]) / Z), rtol=1e-6)


def test_coins_under_correlated_noise_leave_no_gaussian_mechanism_but_for_who_sees_them():
    found = entries(TURNS, sampling_rate=0.25, separation=2, noise=TWO_BANDS)
    whole = {(entry.view, entry.neighbours): entry.gaussian for entry in found[:-1]}
    assert whole == {(view, kind): view == "device" for view, kind in whole} and len(whole) == 4
    eps = figures(found)
    assert eps["outsider", "replacement"] < eps["device", "replacement"] / 2


def test_eps_after_each_round_ends_at_the_figure():
    ways: list[dict[str, Any]] = [{"sampling_rate": 0.25}, {"cohort_size": 2}, {"cohort_size": 2, "separation": 3}]
    for how in ways:
        for entry in entries(TURNS, **how):
            if entry.proved.by_round is not None:
                found = entry.proved.by_round()
                assert found.shape == (ROUNDS,) and (np.diff(found) >= 0).all()
                assert found[-1] == pytest.approx(worst(entry.proved))
