import inspect
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.base import ClientData
from fedjax_priv.data import Pool, pool_of, prefetch
from fedjax_priv.data.pool import checked

RNG = np.random.default_rng(5)
X, Y = RNG.random((6, 4, 3), np.float32), RNG.integers(0, 9, (6, 4), np.int32)
COUNT = np.array([4, 0, 1, 2, 3, 4], np.int32)


def test_a_pool_of_arrays_hands_out_the_rows_asked_for():
    pool = pool_of(ClientData({"x": jnp.asarray(X), "y": Y}, jnp.asarray(COUNT)))
    got = pool.fetch(np.array([5, 0, 3], np.int32))
    assert all(type(rows) is np.ndarray for rows in got.values())
    np.testing.assert_array_equal(got["x"], np.stack([X[5], X[0], X[3]]))
    np.testing.assert_array_equal(got["y"], np.stack([Y[5], Y[0], Y[3]]))
    assert (pool.count.dtype, pool.count.tolist()) == (np.int32, COUNT.tolist())


def test_a_file_is_read_when_its_clients_are_fetched(tmp_path):
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, X.shape)
    stored[:] = X
    pool = pool_of(ClientData(np.load(tmp_path / "x.npy", mmap_mode="r"), COUNT))
    stored[4] = -1.0  # after the pool was made
    stored.flush()
    got = pool.fetch(np.array([4, 2], np.int32))
    np.testing.assert_array_equal(got, np.stack([np.full((4, 3), -1.0, np.float32), X[2]]))


test_bad_arrays_are_named = refused(
    (((X, Y), COUNT.astype(np.float32)), r"count must be integers \[population\], got float32 \(6,\)"),
    *((((X, Y), count), "count must be from 0 to 4") for count in (COUNT * 0, COUNT - 1, COUNT + 1)),
    (((X, Y[:5]), COUNT), r"examples\[1\] must have a row for each of 6 clients, got shape \(5, 4\)"),
    *(((bad, COUNT), "fetch must return arrays .* with one m") for bad in ((X, Y[:, :3]), (X, COUNT), ())),
    by=lambda arrays: pool_of(ClientData(*arrays)),
    pattern=r"^{}[^\n]*$",
)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda ids: (X[ids], Y[ids][1:]), r"int32 \(3, 4\) as examples\[1\], got int32 \(2, 4\)"),
        (lambda ids: (X[ids][:, :2], Y[ids]), r"float32 \(3, 4, 3\) as examples\[0\], got float32 \(3, 2, 3\)"),
        (lambda ids: (X[ids], Y[ids].astype(np.int64)), r"int32 \(3, 4\) as examples\[1\], got int64 \(3, 4\)"),
        (lambda ids: X[ids], r"PyTreeDef\(\(\*, \*\)\), got PyTreeDef\(\*\)"),
    ],
    ids=["clients", "samples", "dtype", "structure"],
)
def test_a_fetch_that_answers_otherwise_than_before_is_refused(answer, message):
    pool = checked(Pool(lambda ids: answer(ids) if ids.size > 1 else (X[ids], Y[ids]), COUNT))
    pool.fetch(np.array([3], np.int32))
    with pytest.raises(ValueError, match=f"^fetch must return {message}$"):
        pool.fetch(np.array([3, 4, 1], np.int32))


def test_a_fetch_may_write_all_answers_into_one_array():
    """A device may read the array in place, and a thread fetches ahead."""
    buffer = np.empty((2, *X.shape[1:]), np.float32)

    def fetch(ids):
        buffer[: len(ids)] = X[ids]
        return buffer[: len(ids)]

    first, second = (checked(Pool(fetch, COUNT)).fetch(np.array(ids)) for ids in ([0, 1], [2, 3]))
    np.testing.assert_array_equal(first, X[:2])
    np.testing.assert_array_equal(second, X[2:4])


def test_a_fetch_that_returns_too_many_clients_is_refused_at_once():
    said = r"^fetch must return float32 \(1, 4, 3\) as examples, got float32 \(6, 4, 3\)"
    with pytest.raises(ValueError, match=said):
        checked(Pool(lambda ids: X, COUNT))


def rounds(n):
    return [np.array([i, i + 1]) for i in range(n)]


def no_thread_is_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("depth", [1, 2, 20])
def test_rounds_come_in_order_and_are_placed_by_another_thread(depth):
    threads = set()

    def place(examples):
        threads.add(threading.current_thread())
        return examples + 1

    got = list(prefetch(lambda ids: 10 * ids, rounds(9), depth=depth, place=place))
    np.testing.assert_array_equal(got, 10 * np.stack(rounds(9)) + 1)
    assert len(threads) == 1 and threading.main_thread() not in threads
    assert no_thread_is_left()


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("where", ["ids", "fetch", "place"])
def test_an_error_is_raised_in_the_place_of_its_round(where, kind):
    def failing(name):
        def step(ids):
            if name == where and ids[0] == 3:
                raise kind(f"no {name}")
            return ids

        return step

    got = []
    with pytest.raises(kind, match=f"^no {where}$"):
        got.extend(prefetch(failing("fetch"), map(failing("ids"), rounds(9)), place=failing("place")))
    np.testing.assert_array_equal(got, rounds(3))
    assert no_thread_is_left()


@pytest.mark.parametrize("depth", [1, 3])
def test_never_further_ahead_than_depth(depth):
    begun = threading.Semaphore(0)
    fetched = []

    def fetch(ids):
        fetched.append(ids[0])
        begun.release()
        return ids

    stream = prefetch(fetch, rounds(50), depth=depth)
    assert not fetched, "nothing is fetched before it is asked for"
    for taken in range(1, 6):
        next(stream)
        for _ in range(depth + 1 if taken == 1 else 1):
            assert begun.acquire(timeout=30), "it does go as far ahead as it may"
        assert not begun.acquire(timeout=0.02)
        assert len(fetched) == taken + depth
    stream.close()
    assert len(fetched) == 5 + depth and no_thread_is_left()


def test_closing_waits_for_the_fetch_under_way_and_begins_no_other():
    slow, go = threading.Event(), threading.Event()
    fetched = []

    def fetch(ids):
        if ids[0] == 1:
            slow.set()
            assert go.wait(30)
        fetched.append(ids[0])
        return ids

    stream = prefetch(fetch, rounds(50), depth=4)
    next(stream)
    assert slow.wait(30)
    threading.Timer(0.05, go.set).start()
    stream.close()
    assert fetched == [0, 1] and no_thread_is_left()


def test_an_interrupt_in_the_loop_over_rounds_leaves_no_thread():
    def loop():
        for ids in prefetch(lambda ids: ids, rounds(50)):
            if ids[0] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert no_thread_is_left()


def test_what_was_handed_out_is_not_kept():
    class Examples:
        alive = 0

        def __init__(self, ids):
            Examples.alive += 1

        def __del__(self):
            Examples.alive -= 1

    stream = prefetch(Examples, rounds(3), depth=1)
    for _ in range(3):
        next(stream)
    assert Examples.alive == 0


def test_a_bad_depth_is_refused_before_the_first_round():
    with pytest.raises(ValueError, match="^depth must be an integer >= 1, got 0$"):
        prefetch(lambda ids: ids, [], depth=0)
    with pytest.raises(ValueError, match="^depth must be at most 1000, got 1099511627776$"):
        prefetch(lambda ids: ids, [], depth=2**40)


def test_what_is_no_function_is_refused_before_the_first_round():
    bare = inspect.unwrap(prefetch)
    with pytest.raises(ValueError, match=r"^fetch must be a function of \(clients\), got ndarray$"):
        bare(np.arange(3), [])
    with pytest.raises(ValueError, match=r"^place must be a function of \(examples\), got str$"):
        bare(lambda ids: ids, [], place="gpu")


def test_what_is_no_client_data_is_refused():
    with pytest.raises(ValueError, match="^data must be a ClientData, such as .*, got int$"):
        inspect.unwrap(pool_of)(3)
