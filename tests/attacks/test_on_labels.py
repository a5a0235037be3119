"""Flipped labels."""

from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.attacks import flip_labels
from fedjax_priv.attacks.on_labels import labelled
from fedjax_priv.base import ClientData
from helpers import refuses, same_bits

X = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)
Y = np.array([[0, 1, 2], [3, 4, 0], [4, 4, 4], [2, 2, 1]], np.int32)
DATA = ClientData((X, Y), np.array([3, 2, 3, 1], np.int32))


def of_kind(dtype, labels=Y):
    return DATA._replace(examples=(X, labels.astype(dtype)))


@pytest.mark.parametrize("byzantine", [2, np.array([True, True, False, False]), jnp.arange(4) < 2])
def test_labels_of_byzantine_clients_are_mirrored(byzantine):
    flipped = flip_labels(DATA, byzantine, 5)
    assert flipped.examples[1].tolist() == [[4, 3, 2], [1, 0, 4], [4, 4, 4], [2, 2, 1]]
    assert flipped.examples[1].dtype == np.int32
    assert same_bits((flipped.examples[0], flipped.count), (X, DATA.count))
    assert same_bits(flip_labels(flipped, byzantine, 5), DATA)


def test_any_clients_and_none():
    mask = np.array([False, False, True, True])
    assert flip_labels(DATA, mask, 5).examples[1].tolist() == [[0, 1, 2], [3, 4, 0], [0, 0, 0], [2, 2, 3]]
    assert same_bits(flip_labels(DATA, 0, 5), DATA)


def test_on_the_host_and_inside_jit():
    assert isinstance(flip_labels(DATA, 2, 5).examples[1], np.ndarray)
    jitted = jax.jit(lambda data, mask: flip_labels(data, mask, 5))(DATA, jnp.arange(4) < 2)
    np.testing.assert_array_equal(jitted.examples[1], flip_labels(DATA, 2, 5).examples[1])
    unsigned = of_kind(np.uint8)
    np.testing.assert_array_equal(flip_labels(unsigned, 2, 5).examples[1], flip_labels(DATA, 2, 5).examples[1])


@pytest.mark.parametrize(("dtype", "num_classes"), [(np.uint8, 256), (np.int8, 128)])
def test_as_many_classes_as_labels_can_hold(dtype, num_classes):
    data = of_kind(dtype, 30 * Y)
    expected = np.where(np.arange(4)[:, None] < 2, num_classes - 1 - Y * 30, Y * 30)
    np.testing.assert_array_equal(flip_labels(data, 2, num_classes).examples[1], expected)


test_bad_arguments = refuses(
    flip_labels,
    (DATA, 2, 4, "num_classes must be above the largest label, 4, got 4"),
    (DATA._replace(examples=(X, jnp.asarray(Y))), 2, 4, "num_classes must be above the largest label, 4, got 4"),
    (of_kind(np.int32, Y - 1), 2, 5, "data.examples must have labels from 0, got -1"),
    (of_kind(np.float32), 2, 5, "data.examples must have integer labels, got float32"),
    (DATA, 2, 1, "num_classes must be an integer >= 2, got 1"),
    (DATA, -1, 5, "byzantine must be an integer >= 0, got -1"),
    (DATA, 5, 5, "byzantine must be an integer from 0 to 4, got 5"),
    (
        DATA._replace(examples=(X, Y.astype(np.uint8))),
        1,
        1000,
        "num_classes must be at most 256 for uint8 labels, got 1000",
    ),
    (
        DATA._replace(examples=(X, Y.astype(np.int8))),
        1,
        129,
        "num_classes must be at most 128 for int8 labels, got 129",
    ),
    (DATA, True, 5, "byzantine must be an integer >= 0, got True"),
    (DATA, np.ones(3, bool), 5, "byzantine must be an integer >= 0 or a bool mask of shape (4,), got bool (3,)"),
    (DATA, np.ones(4, np.int32), 5, "byzantine must be an integer >= 0 or a bool mask of shape (4,), got int32 (4,)"),
    (DATA._replace(examples=X), 1, 5, "data.examples must be a pair (x, y), got ndarray"),
    whole=True,
)


test_what_is_no_data_is_refused = refuses(
    unwrap(labelled), (None, "data must be a ClientData, such as data.federate(...), got NoneType"), whole=True
)
