"""Stacked clients: every sample in its client's row, zeros elsewhere."""

import inspect
import re
import tracemalloc

import numpy as np
import pandas
import pytest
from refusals import refused

from fedjax_priv.data import (
    Dataset,
    by_user,
    dirichlet,
    federate,
    gamma_similarity,
    iid,
    quantity_skew,
    shards,
    stack_clients,
)

RNG = np.random.default_rng(1)
X = RNG.uniform(0.1, 1, (40, 3, 2, 1)).astype(np.float32)  # no pixel is 0, as padding is
Y = RNG.integers(1, 5, 40).astype(np.int32)
PARTS = [np.array([5]), np.arange(10, 17), np.array([0, 39, 2])]


def test_samples_come_back_and_padding_is_zero():
    (x, y), count = stack_clients((X, Y), PARTS)
    assert (x.shape, y.shape) == ((3, 7, 3, 2, 1), (3, 7))
    assert (x.dtype, y.dtype, count.dtype) == (np.float32, np.int32, np.int32)
    assert all(isinstance(a, np.ndarray) for a in (x, y, count))
    assert count.tolist() == [1, 7, 3]
    for i, part in enumerate(PARTS):
        np.testing.assert_array_equal(x[i, : count[i]], X[part])
        np.testing.assert_array_equal(y[i, : count[i]], Y[part])
        assert not x[i, count[i] :].any()
        assert not y[i, count[i] :].any()


@pytest.mark.parametrize(
    ("name", "partition", "options"),
    [
        ("iid", iid, {}),
        ("shards", shards, {"num_shards": 10}),
        ("dirichlet", dirichlet, {"concentration": 0.5, "min_size": 2}),
        ("gamma_similarity", gamma_similarity, {"gamma": 0.5}),
        ("quantity_skew", quantity_skew, {"concentration": 0.5}),
    ],
)
def test_federate_is_the_partition_of_that_name_stacked(name, partition, options):
    dataset = Dataset(X, Y, X[:3], Y[:3], num_classes=5)
    found, want = federate(dataset, 5, name, seed=2, **options), stack_clients((X, Y), partition(Y, 5, 2, **options))
    for mine, theirs in zip((*found.examples, found.count), (*want.examples, want.count), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_stacking_makes_one_copy():
    x, y = np.ones((4000, 500), np.float32), np.zeros(4000, np.int32)
    parts = iid(y, 20, 0)
    tracemalloc.start()
    stack_clients((x, y), parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.nbytes <= peak < 1.2 * x.nbytes


NAN, INF = X.copy(), X.copy()
NAN[3, 1, 1, 0], INF[39, 0, 0, 0] = np.nan, -np.inf


test_a_bad_argument_is_named = refused(
    *(({"examples": (x, Y)}, r"examples\[0\]") for x in (X.astype(np.float64), X.astype(complex), NAN, INF)),
    *(({"examples": examples}, "examples") for examples in ((), (X[:0], Y[:0]), (X, Y[:-1]), (X, np.float32(1)))),
    ({"examples": (X, np.full(40, 2**31))}, r"examples\[1\]"),
    ({"parts": []}, "parts"),
    ({"parts": [PARTS[0], np.array([], int)]}, r"parts\[1\]"),
    *(({"parts": [np.array(part)]}, r"parts\[0\]") for part in ([40], [-1], [1.0], [[1, 2]])),
    ({"parts": [pandas.array([0, 1], dtype="Int64")]}, r"parts\[0\]"),
    *(({"clients": clients}, "clients") for clients in (2, slice(5, 9), slice(0, 0))),
    by=lambda changed: inspect.unwrap(stack_clients)(**({"examples": (X, Y), "parts": PARTS} | changed)),
    pattern=r"^{} must (be|have) [^\n]*$",
)


@pytest.mark.parametrize("y", [Y - 2, Y.astype(np.float32), Y[:, None], Y.tolist()])
def test_a_data_set_without_classes_is_refused(y):
    with pytest.raises(ValueError, match="^(dataset|labels) must"):
        federate(Dataset(X, y, X, Y, num_classes=5), 5)


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [(np.uint8, np.uint8), (bool, bool), (np.int64, np.int32), (np.uint16, np.int32), (np.float32, np.float32)],
)
def test_any_pytree_of_samples_is_stacked(dtype, kept):
    rows = RNG.integers(0, 2, (40, 3)).astype(dtype)
    data = stack_clients({"a": {"b": rows}}, PARTS)
    assert data.examples["a"]["b"].dtype == kept
    np.testing.assert_array_equal(data.examples["a"]["b"][2, :3], rows[PARTS[2]])


def test_a_user_is_a_client():
    users = np.array(["b", "a", "b", "c", "a"])
    assert [part.tolist() for part in by_user(users)] == [[1, 4], [0, 2], [3]]
    assert [part.tolist() for part in by_user(np.array([7, 7, 3]))] == [[2], [0, 1]]
    column = np.array(["b", "a", "ccc", "a"], dtype=object)  # of a table of pandas
    assert [part.tolist() for part in by_user(column)] == [[1, 3], [0], [2]]
    mixed = np.array(["b", 1, "b"], dtype=object)
    for wrong in (np.zeros((2, 2), int), np.zeros(0, int), np.zeros(3), mixed, np.array([], dtype=object)):
        with pytest.raises(ValueError, match="^users must be"):
            by_user(wrong)


def test_arrays_that_are_no_data_set_are_sent_to_the_function_that_takes_them():
    with pytest.raises(ValueError, match=r"^dataset must be a Dataset, .*stack_clients.*, got tuple$"):
        inspect.unwrap(federate)((X, Y), 5)


def test_an_unknown_partition_is_refused_with_the_known_ones():
    dataset = Dataset(X, Y, X, Y, num_classes=5)
    with pytest.raises(ValueError, match=r"^partition must be one of 'iid', 'shards', 'gamma_similarity', 'dirichlet'"):
        inspect.unwrap(federate)(dataset, 5, "random")


@pytest.mark.parametrize(
    ("partition", "options", "message"),
    [
        ("dirichlet", {}, "'dirichlet': concentration, min_size (default 1); got none"),
        ("iid", {"concentration": 1.0}, "'iid': none; got concentration"),
    ],
)
def test_options_of_another_partition_are_refused_with_its_own(partition, options, message):
    dataset = Dataset(X, Y, X, Y, num_classes=5)
    with pytest.raises(ValueError, match=f"^options must be those of partition {re.escape(message)}$"):
        federate(dataset, 5, partition, **options)


@pytest.mark.parametrize(
    ("examples", "parts", "message"),
    [
        ([1.0, 2.0], [np.array([0])], r"examples\[0\] must be an array \[N, ...\], got float: np.asarray makes one"),
        ((X, Y), Y, r"parts must be a list .*such as data.by_user\(users\), got ndarray"),
        ((X, Y), [[0, 1]], r"parts\[0\] must be an array of sample numbers, got list"),
    ],
)
def test_lists_where_arrays_belong_are_refused(examples, parts, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        inspect.unwrap(stack_clients)(examples, parts)


def test_a_column_that_is_too_short_is_warned_of_and_other_samples_may_be_left_out():
    with pytest.warns(UserWarning, match=rf"^parts hold the first 3 of {len(X)} samples and leave out the rest: "):
        (_, y), count = stack_clients((X, Y), by_user(np.array([2, 1, 2])))
    assert count.tolist() == [1, 2] and y.tolist() == [[Y[1], 0], [Y[0], Y[2]]]
    stack_clients((X, Y), by_user(np.arange(len(X)) % 3))
    stack_clients((X, Y), [np.array([0, 1]), np.array([3])])


def test_rows_of_some_clients_are_as_long_as_those_of_all():
    dataset = Dataset(X, Y, X, Y, num_classes=5)
    whole = federate(dataset, 6, "dirichlet", concentration=0.3)
    some = federate(dataset, 6, "dirichlet", concentration=0.3, clients=slice(1, 3))
    for mine, all_ in zip((*some.examples, some.count), (*whole.examples, whole.count), strict=True):
        np.testing.assert_array_equal(mine, all_[1:3], strict=True)
    assert some.count.max() < some.examples[1].shape[1]
