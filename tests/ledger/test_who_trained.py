"""Noise of local steps: what a client has spent if few uploads are in a sum, or if it did not come."""

import numpy as np
import pytest
from ledger.test_local_steps import N, by_view, noisy, run_of

from fedjax_priv.ledger import worst


@pytest.mark.parametrize(("view", "sent"), [("server", 0), ("device", 1), ("coalition", 2)])
def test_if_only_known_noise_is_in_the_sum_with_its_own_a_client_has_the_figure_of_its_own(view, sent):
    """Those who see every step see more than any sum."""
    found = by_view(noisy(), run_of(rounds=2, lost=range(sent, N)), colluding=2)
    np.testing.assert_array_equal(found[view].proved.epsilon, found["everybody"].proved.epsilon)
    assert worst(found[view].proved) > 0


def test_a_place_that_nobody_took_costs_its_client_nothing():
    """A cohort by coins has more places than clients that come; the others train nothing."""
    run, took = run_of(rounds=3), np.ones((3, N), bool)
    took[1:, :7], took[:, 7] = False, False
    eps = by_view(noisy(), run.assign(trains=run.client_id.copy(data=took)))["everybody"].proved.epsilon
    often = [worst(by_view(noisy(), run_of(rounds=rounds))["everybody"].proved) for rounds in (1, 3)]
    assert (eps[:7] == often[0]).all() and eps[7] == 0 and (eps[8:] == often[1]).all()
