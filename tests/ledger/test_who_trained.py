"""Noise of local steps: what a client has spent if few uploads are in a sum, or if it did not come."""

import numpy as np
import pytest
from ledger.test_local_steps import CLIP, DELTA, SIGMA, M, N, by_view, noisy, run_of

from fedjax_priv import systems
from fedjax_priv.ledger import worst
from fedjax_priv.theory import cdp_fl, gaussian

KNOWN = {"server": 0, "device": 1, "coalition": 2}


@pytest.mark.parametrize(("view", "sent"), [("server", 1), ("device", 2), ("coalition", 3)])
def test_if_only_known_noise_is_in_the_sum_with_its_own_a_client_has_the_figure_of_its_own(view, sent):
    """Those who see every step see more than any sum; of one that was lost nobody sees a sum."""
    for arrived in (1, sent):
        found = by_view(noisy(), run_of(lost=range(arrived, N)), colluding=2)
        alone, seen = found["everybody"].proved.epsilon, found[view].proved.epsilon
        np.testing.assert_array_equal(seen[:arrived], alone[:arrived])
        assert seen[0] > 0 == seen[arrived:].max()


@pytest.mark.parametrize("view", KNOWN)
def test_a_round_holds_the_noise_of_those_who_sent_in_it(view):
    """One step on all samples is one Gaussian mechanism a round, whose noise is that of the uploads in the sum."""
    came = np.random.default_rng(0).random((5, N)) < np.array([[0.9], [0.5], [0.03], [1.0], [0.0]])
    run = run_of(rounds=5)
    run = run.assign(up_bytes=run.up_bytes.copy(data=8.0 * came[None]))
    square = (2 * CLIP / M / SIGMA) ** 2 * came / np.maximum(came.sum(1, keepdims=True) - KNOWN[view], 1)
    entry = by_view(noisy(num_steps=1), run, colluding=2)[view]
    np.testing.assert_allclose(entry.proved.epsilon, gaussian.epsilon(DELTA, np.sqrt(square.sum(0))), rtol=1e-6)


def test_amplified_figures_count_no_round_in_which_nobody_sent():
    came = np.ones((3, N), bool)
    came[1], came[2, :50] = False, False
    run = run_of(rounds=3)
    run = run.assign(up_bytes=run.up_bytes.copy(data=8.0 * came[None]))
    found = by_view(noisy(num_steps=1, batch_size=1), run, system=systems.dp_sgd)["server"].proved
    least = cdp_fl.Training(came.sum(0), 1, CLIP, 50, M, 1, SIGMA)
    np.testing.assert_allclose(found.epsilon, cdp_fl.amplified_epsilon(least, DELTA), rtol=1e-9)


def test_a_place_that_nobody_took_costs_its_client_nothing():
    """A cohort by coins has more places than clients that come; the others train nothing."""
    run, took = run_of(rounds=3), np.ones((3, N), bool)
    took[1:, :7], took[:, 7] = False, False
    eps = by_view(noisy(), run.assign(trains=run.client_id.copy(data=took)))["everybody"].proved.epsilon
    often = [worst(by_view(noisy(), run_of(rounds=rounds))["everybody"].proved) for rounds in (1, 3)]
    assert (eps[:7] == often[0]).all() and eps[7] == 0 and (eps[8:] == often[1]).all()
