"""`why_not` over the whole grid of the atlas, against counts taken by hand; and the figure of local noise."""

from collections import Counter

import numpy as np
import pytest
import xarray as xr

from experiments.atlas.stacks import choices, stack_of, stacks
from fedjax_priv.ledger import noisy_uploads
from fedjax_priv.ledger.entry import Question
from fedjax_priv.systems.composition import why_not
from fedjax_priv.systems.releases import NoisyUploads
from fedjax_priv.theory import gaussian


def test_the_counts_of_the_grid():
    """5 transports x 8 rules x 3 noises x 5 compressions x 3 dropouts, n = 32, f = 3; each code counted by hand."""
    codes = Counter(refusal.code if (refusal := why_not(stack_of(one))) else "" for one in stacks())
    assert codes == {"": 801, "A": 630, "B": 153, "C": 120, "D": 36, "E": 30, "T": 30}
    assert codes.total() == 1800 == np.prod([len(values) for values in choices().values()])


@pytest.mark.parametrize("rounds", [1, 30])
def test_noise_of_each_client_is_a_gaussian_mechanism_in_every_round(rounds):
    """A client that is in half of the rounds has spent that of half of them; masks change nothing."""
    who = np.tile([[0, 1], [0, 2]], (rounds, 1))
    arrived = ("phase", "round", "client"), np.ones((1, *who.shape))
    run = xr.Dataset({"client_id": (("round", "client"), who), "up_bytes": arrived}, {"phase": ["upload"]})
    question = Question(run, np.ones(4, int), 1e-5, 0, None, None)
    (full,) = noisy_uploads.entries(NoisyUploads(2.0, 9.0), question)
    expected = [gaussian.epsilon(1e-5, 2 * 2.0 / 3.0 * np.sqrt(t)) for t in (2 * rounds, rounds, rounds, 0)]
    np.testing.assert_allclose(full.proved.epsilon, expected, rtol=1e-12)
    assert not full.gaussian
    after = [gaussian.epsilon(1e-5, 2 * 2.0 / 3.0 * np.sqrt(t)) for t in range(1, 2 * rounds + 1)]  # of client 0
    np.testing.assert_allclose(full.proved.by_round(), after, rtol=1e-12)
    others = run.isel(client=[1])
    (entry,) = noisy_uploads.entries(NoisyUploads(2.0, 9.0), question._replace(run=others))
    np.testing.assert_allclose(
        entry.proved.by_round(), [after[number // 2] for number in range(2 * rounds)], rtol=1e-12
    )
    (always,) = noisy_uploads.entries(
        NoisyUploads(2.0, 9.0), question._replace(count=np.ones(1, int), run=run.isel(client=[0]))
    )
    assert always.gaussian and always.proved.epsilon == pytest.approx(expected[0], rel=1e-12)
    (masked,) = noisy_uploads.entries(NoisyUploads(2.0, 9.0, masked=True), question)
    assert np.array_equal(masked.proved.epsilon, full.proved.epsilon) and masked.note != full.note
    (silent,) = noisy_uploads.entries(NoisyUploads(2.0, 0.0), question)
    assert silent.proved.epsilon is None
