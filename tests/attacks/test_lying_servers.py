"""Lying about survivors: what a server reads, alone and with colluders, with a check of lists and without."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.attacks import both_secrets, split_lists
from fedjax_priv.attacks.lying_servers import _honest
from fedjax_priv.base import Lists, LyingServer, View
from fedjax_priv.crypto import field
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers import pairwise_masks
from fedjax_priv.leakage import Colluders, colluders_of_round, residuals, secagg_protocol, separate
from fedjax_priv.status import Status
from fedjax_priv.systems import lightsecagg, secagg
from fedjax_priv.theory import lying_server as theory
from helpers import Q, cohort_of, refuses, same_bits, targets, towards_target

KEY, D, BOUND = jax.random.key(5), 3, 2**14


@functools.lru_cache
def layer_of(n, **how):
    return pairwise_masks(group_size=n, **how)


@functools.partial(jax.jit, static_argnames="layer")
def close(layer, x, told, helps):
    """A round of which the server tells lists."""
    n, cohort, everyone = len(x), cohort_of(len(x), round=3), jnp.ones(len(x), bool)
    private, public, _ = layer.advertise(KEY, layer.init(KEY, n), cohort)
    upload, _, sent = layer.encode(KEY, private, public, x, cohort)
    header, bits = layer.disclose(private, public, sent.clear, everyone, everyone, lists=Lists(told, helps))
    received = layer.decode(header, public, layer.combine.lower(layer.combine.lift(upload, everyone, cohort.group)))
    view = View(upload, sent.clear, everyone, {"mask": public}, {"mask": header}, ())
    return view, received, private, bits


def play(n, lies=None, colluding=(), **how):
    """What the server is sent, and what colluders bring to it; the values of clients."""
    value = np.random.default_rng(n).integers(-1000, 1001, (n, D))
    helps, told = jnp.asarray(np.isin(np.arange(n), colluding)), jnp.ones((n, n), bool)
    if lies is not None:
        told = lies.lists(told[0], cohort_of(n))
    layer = layer_of(n, **how)
    view, received, private, _ = close(layer, field.from_signed(jnp.asarray(value, jnp.int32)), told, helps)
    return view, Colluders(helps, *only_rows(helps, (private.key, private.shares))), value, received


def left_together(view, protocol, colluders):
    """Who still has masks after all that the server knows, and the sum over them in F_q, as signed integers."""
    left = residuals(view, protocol, colluders)
    total = np.bincount(left.coordinate, left.value.astype(float), minlength=D).astype(np.int64) % Q
    return sorted({*left.client.tolist()}), np.where(total > Q // 2, total - Q, total)


def test_the_server_reads_a_sum_over_as_few_as_the_formula_says():
    """All subsets of the formula's size are tried, none smaller is tiny. Control: the truth opens the total only."""
    n, protocol = 30, secagg_protocol(group_size=30)
    view, colluders, value, _ = play(n, split_lists(n, 16, target=4), threshold=16)
    users, total = left_together(view, protocol, colluders)
    assert len(users) == theory.smallest_sum(n, 16) == 4 and 4 in users
    assert total.tolist() == value[users].sum(0).tolist()
    found = separate(view, protocol, bound=BOUND, colluders=colluders, max_size=4)
    assert found.size.tolist() == [4] * D and found.clients.tolist() == [users] * D
    view, colluders, value, _ = play(n, threshold=16)
    users, total = left_together(view, protocol, colluders)
    assert users == [*range(n)] and total.tolist() == value.sum(0).tolist()


def test_a_check_of_lists_leaves_nothing_opened_and_the_round_fails_either_way():
    lies, protocol = split_lists(30, 16, target=4), secagg_protocol(group_size=30)
    view, colluders, _, received = play(30, lies, threshold=16)
    assert received.count.tolist() == [0] and view.header["mask"].online.all()
    view, colluders, _, received = play(30, lies, consistency=True)
    assert received.count.tolist() == [0] and not view.header["mask"].online.any()
    assert not view.header["mask"].shares.any() and len(residuals(view, protocol, colluders).value) == 0


@pytest.mark.parametrize("consistency", [False, True])
def test_two_signed_lists_expose_clients_one_by_one_if_the_threshold_is_too_low(consistency):
    """N = 30, t = 16 and two colluders: the sum is right, and 14 clients are read alone, check or not."""
    lies, how = both_secrets(30, 16, target=5, colluding=(28, 29)), dict(consistency=True) if consistency else {}
    view, colluders, value, received = play(30, lies, (28, 29), **(how or dict(threshold=16)))
    found = separate(view, secagg_protocol(group_size=30), bound=BOUND, colluders=colluders, max_size=1)
    assert {*found.clients[:, 0].tolist()} == {*range(20, 28), *range(6)} and len(found.value) == 14 * D
    assert (found.value == value[found.clients[:, 0], found.coordinate]).all()
    assert received.count.tolist() == [30] and int(received.status[0]) == 0
    assert field.to_signed(received.value)[0].tolist() == value.sum(0).tolist()


@pytest.mark.parametrize(("n", "threshold", "c"), [(100, 67, 0), (100, 67, 33), (31, 16, 0), (30, 21, 2), (7, 7, 3)])
def test_lists_are_such_as_clients_accept_and_open_what_is_needed(n, threshold, c):
    colluding = range(n - c, n)
    lists = jax.jit(split_lists(n, threshold, target=1, colluding=colluding).lists)
    told = np.asarray(lists(jnp.ones(n, bool), cohort_of(n)))
    assert told.diagonal().all() and (told.sum(1) >= threshold).all() and told[:, n - c :].all()
    missing = (~told)[: n - c].sum(0)
    read = missing == 0
    assert ((missing == threshold - c) | read).all() and read[1]
    assert read[: n - c].sum() == theory.smallest_sum(n, threshold, c)


def run(n, lies=None, **how):
    data = targets(n, D)
    system = secagg(towards_target(), num_clients=n, observe=lambda view: view, mesh=None, lying_server=lies, **how)
    return jax.jit(lambda: system.step(KEY, system.init(KEY, jnp.zeros(D), data), data))()


def test_a_round_tells_clients_the_lies_of_its_server_and_fails():
    """The ten clients of a round, of which two collude."""
    how, n, colluding = dict(threshold=7), 10, (0, 9)
    state, info = run(n, split_lists(n, 7, target=4, colluding=colluding), **how)
    assert int(info.status) == Status.NOT_RECOVERED and int(state.round) == 1 and not state.params.any()
    protocol, member = secagg_protocol(group_size=n, **how), jnp.isin(jnp.arange(n), jnp.array(colluding))
    colluders = colluders_of_round(protocol, KEY, info.observed.public["mask"], member)
    users, total = left_together(info.observed, protocol, colluders)
    x = np.asarray(targets(n, D).examples, float) * np.asarray(info.observed.public["mask"].selected)[:, None]
    weight = np.asarray(targets(n, D).count) / np.asarray(targets(n, D).count).sum()
    np.testing.assert_allclose(total / 2.0**20, -(weight[:, None] * x)[users].sum(0), atol=4 / 2.0**20)
    assert len(users) == theory.smallest_sum(n, 7, 2)


def test_lies_need_layers_that_hear_them_and_lists_of_everybody():
    with pytest.raises(ValueError, match="^layers must open secrets by lists"):
        lightsecagg(towards_target(), num_clients=6, num_params=D, lying_server=split_lists(6, 4))
    with pytest.raises(ValueError, match=r"^lists must return bool \(6, 6\), got"):
        run(6, LyingServer(lists=lambda alive, cohort: alive))
    with pytest.raises(ValueError, match="^elide must be False with bind_model"):
        secagg_protocol(group_size=5, bind_model=True, elide=True)
    with pytest.raises(ValueError, match="^consistency must be False with neighbours"):
        secagg_protocol(group_size=6, neighbours=2, consistency=True)


@pytest.mark.parametrize("lies", [split_lists, both_secrets])
def test_lies_for_another_population_are_refused(lies):
    """Rows beyond those of the lists would be read as the last one."""
    with pytest.raises(ValueError, match="^lying_server must be made for the 10 clients in data, got one for 9"):
        run(10, lies(9, 4), threshold=4)


@pytest.mark.parametrize("lies", [split_lists, both_secrets])
def test_lists_that_fill_the_memory_are_refused(lies):
    with pytest.raises(ValueError, match="^num_clients must be at most 10000, got 1099511627776$"):
        lies(2**40, 4)


def test_lists_follow_clients_into_a_cohort():
    told = split_lists(30, 16).lists(jnp.ones(30, bool), cohort_of(30))
    some = cohort_of(3)._replace(client=jnp.array([20, 3, 11]))
    assert same_bits(split_lists(30, 16).lists(jnp.ones(3, bool), some), told[some.client][:, some.client])


test_bad_lists = refuses(
    inspect.unwrap(_honest),
    (10, 0.5, 0, (), "threshold must be an integer >= 0, got 0.5"),
    (10, 6, 0, 3, "colluding must be a sequence of clients, such as .2, 3., got 3"),
    (10, 11, 0, (), "threshold must be above 0 colluders, at most 10, got 11"),
    (10, 2, 0, (1, 2), "threshold must be above 2 colluders"),
    (10, 6, 10, (), "target and colluding must be different clients below 10"),
    (10, 6, 1, (1,), "target and colluding must be different clients below 10, got 1"),
    (10, 6, 0, (8, 3, 8), r"target and colluding must be different clients below 10, got 0, \[8, 3, 8\]"),
    (10, 6, True, (), "target must be an integer >= 0, got True"),
    (10, 6, 0, (-1,), "colluding must be an integer >= 0, got -1"),
)
test_bad_pairs_of_lists = refuses(both_secrets, (30, 16, "threshold must be at most 15, half of clients and colluders"))
test_bad_colluders_of_pairs = refuses(
    lambda colluding: both_secrets(30, 16, colluding=colluding),
    ((28, 28), "target and colluding must be different clients below 30"),
)
