"""Stratified splits against scikit-learn's."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from fedjax_priv.data.stratified_split import stratified_split


@pytest.mark.parametrize("counts", [[10, 10, 10], [7, 40, 13, 5], [2, 2, 31]])
@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.31])
def test_a_split_is_scikit_learn_s(counts, fraction):
    for seed in range(5):
        labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)) * 3, counts))
        theirs = train_test_split(np.arange(len(labels)), test_size=fraction, stratify=labels, random_state=seed)
        for one, other in zip(stratified_split(labels, fraction, seed), theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_another_seed_is_another_split():
    labels = np.arange(40) % 4
    assert (stratified_split(labels, 0.5, 0)[1] != stratified_split(labels, 0.5, 1)[1]).any()
