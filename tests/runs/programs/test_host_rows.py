import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedjax_priv.runs.programs.host_rows import HostRows
from helpers import same_bits

POPULATION = 9
FIRST = {"error": np.array([0.5, -1.0, 2.0], np.float32), "times": np.int32(7)}
IDS = st.lists(st.integers(0, POPULATION - 1), max_size=6).map(lambda ids: np.array(ids, np.int32))


def rows_of(seed, k):
    """Any bits, those of NaN too."""
    words = np.random.default_rng(seed).integers(2**32, size=(k, 3), dtype=np.uint32)
    return {"error": words.view(np.float32), "times": np.arange(k, dtype=np.int32) - 3}


def in_bits(rows):
    return {"error": rows["error"].view(np.uint32), "times": rows["times"]}


def taken_from(model, ids):
    """What a dict from client to its rows says."""
    rows = [model.get(i, FIRST) for i in ids.tolist()]
    return {
        "error": np.array([row["error"] for row in rows], np.float32).reshape(-1, 3),
        "times": np.array([row["times"] for row in rows], np.int32),
    }


@given(puts=st.lists(IDS, max_size=6), ids=IDS, other=IDS)
def test_rows_are_those_of_a_dict_whatever_was_put_and_wherever_it_was_resumed(puts, ids, other):
    rows, model = HostRows(FIRST, POPULATION), {}
    for seed, who in enumerate(puts):
        new = rows_of(seed, who.size)
        rows.put(who, new)
        model |= {i: {"error": new["error"][at], "times": new["times"][at]} for at, i in enumerate(who.tolist())}
        assert same_bits(in_bits(rows.take(ids)), in_bits(taken_from(model, ids)))
    snapshot = rows.snapshot()
    assert snapshot["ids"].tolist() == sorted(model)

    resumed = HostRows(FIRST, POPULATION)
    resumed.put(other, rows_of(99, other.size))
    resumed.restore(snapshot)
    everyone = np.arange(POPULATION, dtype=np.int32)
    assert same_bits(in_bits(resumed.take(everyone)), in_bits(taken_from(model, everyone)))
    again = resumed.snapshot()
    assert again.keys() == snapshot.keys()
    assert all(again[name].tobytes() == snapshot[name].tobytes() for name in snapshot)


def test_rows_of_a_device_are_put_and_copies_are_handed_out():
    rows, ids = HostRows(jnp.zeros(2), 4), np.array([3, 1], np.int32)
    rows.put(ids, jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    rows.take(ids)[:] = 9.0
    rows.snapshot()["rows_0"][:] = 9.0
    assert rows.take(np.arange(4, dtype=np.int32)).tolist() == [[0, 0], [3, 4], [0, 0], [1, 2]]


def test_memory_is_that_of_the_clients_who_took_part():
    ids, new = np.arange(0, 1_000_000, 5000, dtype=np.int32), np.ones((200, 1000), np.float32)
    tracemalloc.start()
    rows = HostRows(np.zeros(1000, np.float32), 1_000_000)
    for some in np.split(np.arange(200), 20):
        rows.put(ids[some], new[some])
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now < 4_100_000 + 2 * new.nbytes
    assert peak < 4_100_000 + 4 * new.nbytes


def test_rows_without_arrays_cost_nothing():
    tracemalloc.start()
    rows = HostRows((), 1_000_000)
    rows.put(np.array([5], np.int32), ())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert rows.take(np.array([5, 6], np.int32)) == ()
    assert rows.snapshot()["ids"].size == 0
    rows.restore(rows.snapshot())


ONE = np.array([0], np.int32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: HostRows(FIRST, 0), "population must be an integer >= 1, got 0"),
        (lambda rows: rows.take(ONE + POPULATION), "ids must be from 0 to 8, got 9 to 9"),
        (lambda rows: rows.put(ONE - 1, rows_of(0, 1)), "ids must be from 0 to 8, got -1 to -1"),
        (lambda rows: rows.put(ONE, rows_of(0, 2)), r"rows must be float32 \(1, 3\), got float32 \(2, 3\)"),
        (lambda rows: rows.put(ONE, {"error": np.zeros((1, 3)), "times": ONE}), r"rows must be float32 .* got float64"),
        (lambda rows: rows.put(ONE, ONE), "rows must be PyTreeDef"),
        (lambda rows: rows.restore({"ids": ONE}), "snapshot must have ids, rows_0, rows_1, got ids"),
        (lambda rows: rows.restore(HostRows(FIRST, 20).snapshot() | {"rows_1": ONE}), "rows must be int32"),
    ],
)
def test_a_bad_argument_is_named_and_changes_nothing(call, message):
    rows = HostRows(FIRST, POPULATION)
    rows.put(ONE + 2, rows_of(1, 1))
    before = rows.snapshot()
    with pytest.raises(ValueError, match=f"^{message}"):
        call(rows)
    after = rows.snapshot()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
