from inspect import unwrap

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.leakage import ratio

test_other_shapes_are_refused = refused(
    (([1, 2], [0, 0]), r"read must have shape \(2, sizes\) and sent \(units,\), got \(2,\) and \(2,\)"),
    (([[1, 2]], [3, 4]), r"read must have shape \(2, sizes\) and sent \(units,\), got \(1, 2\) and \(2,\)"),
    by=lambda given: unwrap(ratio)(*given),
)


def test_error_is_that_of_repeats():
    """Ratios of dependent counts: the reported error is the spread over repeats of the whole sample."""
    rng = np.random.default_rng(0)
    repeats, units = 2000, 400
    sent = rng.poisson(3.0, (repeats, units))
    read = np.stack([rng.binomial(sent, 0.4), 2 * rng.binomial(sent // 2, 0.3)], axis=2)
    shares = [ratio(r, s) for r, s in zip(read, sent, strict=True)]
    values, errors = (np.array(column) for column in zip(*shares, strict=True))
    np.testing.assert_allclose(values, read.sum(1) / sent.sum(1)[:, None])
    np.testing.assert_allclose(errors.mean(0), values.std(0), rtol=0.06)  # std of 2,000 draws: 1.6%


def test_a_single_unit_has_no_error():
    share = ratio(np.array([[1, 2]]), np.array([4]))
    assert share.value.tolist() == [0.25, 0.5]
    assert np.isnan(share.error).all()


@pytest.mark.filterwarnings("error")
def test_of_nothing_there_is_no_fraction():
    share = ratio(np.zeros((4, 2), int), np.zeros(4, int))
    assert np.isnan(share.value).all() and np.isnan(share.error).all() and share.value.shape == (2,)


def test_rows_that_belong_together_count_once():
    """Doubling every unit is no new information."""
    rng = np.random.default_rng(1)
    sent = rng.poisson(3.0, 300) + 1
    read = rng.binomial(sent, 0.5)[:, None]
    twice = ratio(np.repeat(read, 2, 0), np.repeat(sent, 2))
    assert twice.error[0] == pytest.approx(ratio(2 * read, 2 * sent).error[0] / np.sqrt(2), rel=1e-2)
