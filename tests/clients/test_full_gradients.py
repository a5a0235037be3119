"""Gradients of all samples, in pieces, against NumPy, and what is computed for clients of different sizes."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import ClientData, Rows
from fedjax_priv.clients import fedsgd, full_gradients
from helpers import accelerator_forms, cohort_of

KEY = jax.random.key(3)
FORMS = {"cpu": contextlib.nullcontext, "accelerator": accelerator_forms}
COUNT = np.array([23, 0, 1, 4, 5, 9, 22, 12])
M, D, PIECES = 23, 3, 5
"""Room for five pieces of five samples, the last of which has three."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(full_gradients, "LEAST", 4)


def squares(params, examples):
    x, y = examples
    return jnp.square(x @ params["w"] + params["b"] - y)


def regression(count=COUNT):
    """Samples whose padding is NaN, and parameters."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(count.size, M, D)).astype(np.float32), rng.normal(size=(count.size, M)).astype(np.float32)
    x[np.arange(M) >= count[:, None]] = np.nan
    params = {"w": jnp.asarray(rng.normal(size=D), jnp.float32), "b": jnp.float32(0.3)}
    return ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.asarray(count, jnp.int32)), params


def by_hand(params, data, i):
    """Gradient by b and w, and the mean loss, in float64."""
    x, y = (np.asarray(leaf[i, : data.count[i]], float) for leaf in data.examples)
    if not y.size:
        return np.zeros(D + 1), 0.0
    error = x @ np.asarray(params["w"], float) + float(params["b"]) - y
    return np.array([2 * error.mean(), *2 * x.T @ error / y.size]), np.square(error).mean()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "count", [COUNT, COUNT[:1], COUNT[1:6], 0 * COUNT, np.full(8, M), np.array([1] * 16 + [M])], ids=str
)
def test_the_update_is_the_gradient_by_hand(form, count):
    data, params = regression(count)
    with FORMS[form]():
        update, memory, loss = jax.jit(fedsgd(squares).apply)(KEY, (), params, data, cohort_of(count.size))
    expected = [by_hand(params, data, i) for i in range(count.size)]
    assert memory == ()
    np.testing.assert_allclose(update, [gradient for gradient, _ in expected], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loss, [mean for _, mean in expected], rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_cohort_is_read_where_its_samples_are(form):
    data, params = regression()
    row = jnp.array([3, 6, 0, 1], jnp.int32)
    among = ClientData(Rows(data.examples, row), data.count[row])
    with FORMS[form]():
        gradients = jax.jit(full_gradients.full_gradients(squares))
        found = gradients(params, among)
        whole = gradients(params, data)
    has = np.flatnonzero(data.count[row])
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a[has], b[row][has], rtol=1e-6, atol=1e-6)


def test_members_of_a_vmap_are_as_alone():
    data, params = regression()
    counts = jnp.asarray(
        [np.minimum(counts, most) for counts in (COUNT, COUNT[::-1]) for most in (12, 5, 0)], jnp.int32
    )
    clean = jax.tree.map(lambda a: jnp.nan_to_num(a), data.examples)
    update = lambda count: fedsgd(squares).apply(KEY, (), params, ClientData(clean, count), cohort_of(COUNT.size))[0]
    alone = [jax.jit(update)(count) for count in counts]
    for form in FORMS.values():
        with form():
            np.testing.assert_allclose(jax.jit(jax.vmap(update))(counts), alone, rtol=1e-5, atol=1e-5)


@functools.cache
def counted():
    """Gradients whose losses say for how many clients they are computed."""
    seen = []

    def loss(params, examples):
        jax.debug.callback(lambda _: seen.append(1), examples[1][0])  # once for each client of a piece
        return squares(params, examples)

    return jax.jit(full_gradients.full_gradients(loss)), seen


def clients_computed(count):
    data, params = regression(count)
    gradients, seen = counted()
    seen.clear()
    jax.block_until_ready(gradients(params, data))
    jax.effects_barrier()
    return len(seen)


@pytest.mark.parametrize(("most", "pieces"), [(M, 1), (21, 1), (20, 4), (10, 2), (1, 1), (0, 0)])
def test_on_a_cpu_a_block_takes_as_many_pieces_as_its_largest_client_and_all_at_once(most, pieces):
    assert clients_computed(np.minimum(COUNT, most)) == pieces * COUNT.size


@pytest.mark.parametrize(
    ("count", "computed"),
    [
        (np.array([M] + [5] * 15), 16 + 4 * 1),
        (np.array([M, 12] + [5] * 14), 16 + 2 * 4 + 2 * 1),
        (np.array([M] * 16), PIECES * 16),
        (np.array([0] * 16), 0),
    ],
    ids=str,
)
def test_on_accelerators_small_clients_drop_out(count, computed):
    """Until a quarter is left, and then a 16th, as counted here by hand."""
    with accelerator_forms():
        assert clients_computed(count) == computed


def test_clients_with_little_room_are_one_piece():
    jaxpr = jax.make_jaxpr(full_gradients.full_gradients(squares))
    data, params = regression()
    few = ClientData(jax.tree.map(lambda a: a[:, :7], data.examples), jnp.minimum(data.count, 7))
    branches = [sum(eqn.primitive.name == "cond" for eqn in jaxpr(params, d).eqns) for d in (few, data)]
    assert branches == [0, 1]


@pytest.mark.parametrize("room", [1, 63, 64, 127, 128, 129, 600, 1024, 1025, 60_000])
def test_pieces_have_no_fewer_samples_than_the_least_and_hold_all(room, monkeypatch):
    monkeypatch.undo()
    size = full_gradients.piece_size(room)
    pieces = -(-room // size)
    assert size * pieces >= room > size * (pieces - 1)
    assert size >= min(room, full_gradients.LEAST)
    assert pieces <= full_gradients.MOST
