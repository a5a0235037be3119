import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import leakage
from fedjax_priv.aggregators import bucketing, geometric_median, krum, mean, monna, pre_aggregated, trimmed_mean
from fedjax_priv.attacks import alie, foe, smallest
from fedjax_priv.status import Status
from fedjax_priv.systems import f2ed, fedrep, rcgd_ef, share
from fedjax_priv.systems._arguments import coordinates
from helpers import of_the_round, refuses, rounds_of, same_bits, targets, towards_target

KEY = jax.random.key(7)
M, D, N, S, ROUNDS = 6, 24, 2, 2, 5
VECTORS = np.random.default_rng(3).normal(size=(M, ROUNDS, D)).astype(np.float32)
DATA = targets(M, D)


def made(system, **how):
    return system(of_the_round(jnp.asarray(VECTORS)), num_clients=M, mesh=None, **how)


def fedrep_of(**how):
    return made(fedrep, **{"num_params": D, "k": M * N, "buffer_size": S, "aggregate": mean(), **how})


def ran(system):
    return rounds_of(system, KEY, jnp.zeros(D), DATA, ROUNDS)


@functools.partial(jax.jit, static_argnames="in_the_clear")
def program(dropout, levels, in_the_clear):
    return ran(fedrep_of(dropout=dropout, levels=levels, in_the_clear=in_the_clear, observe=lambda view: view))


def usual(dropout=0.0, levels=2.0**20, in_the_clear=False):
    """Rounds with means of buffers; all of them under masks are one program."""
    return program(dropout, levels, in_the_clear)


def top(v, n):
    return np.argsort(-np.abs(v), axis=-1, kind="stable")[..., :n]


def reference(forge=lambda rows: rows, forge_set=lambda v, own: own, aggregate=lambda rows: rows.mean(0)):
    """Algorithms 1 and 2 in float64, from the buffers of each round; `(directions, memory, sizes of I)`."""
    memory, directions, sizes = np.zeros((M, D)), [], []
    system = fedrep_of()
    for t in range(ROUNDS):
        group = np.asarray(system.draw(KEY, (), jnp.int32(t), DATA.count)[0].group)
        g = memory + VECTORS[:, t]
        union = np.unique(forge_set(g, top(g, N)))
        sent = np.zeros((M, D))
        sent[:, union] = g[:, union]
        memory = g - sent
        sent = forge(sent)
        buffers = np.stack([sent[group == b].mean(0) for b in range(M // S)])
        directions.append(aggregate(buffers))
        sizes.append(len(union))
    return np.array(directions), memory, np.array(sizes)


def bits_of(info, phase):
    return np.asarray(info.bits[phase].up), np.asarray(info.bits[phase].down)


def test_rounds_are_those_of_the_algorithms():
    """Through the field and masks, against NumPy; and the bytes of every message."""
    states, info = usual()
    directions, memory, sizes = reference()
    np.testing.assert_allclose(info.direction, directions, atol=1e-5)
    np.testing.assert_allclose(states.layers["conspar"][-1], memory, atol=1e-5)
    np.testing.assert_allclose(states.params[-1], -directions.sum(0), atol=1e-4)
    assert (info.status == 0).all() and sizes.min() > N
    assert (bits_of(info, "upload")[0] == 32 * sizes[:, None]).all()
    assert (bits_of(info, "propose")[0] == 5 * N).all() and (bits_of(info, "propose")[1] == 5 * sizes[:, None]).all()
    assert (bits_of(info, "model")[1] == 32 * sizes[:, None]).all()


def test_masks_change_no_bit():
    secure, clear = (usual(in_the_clear=in_the_clear) for in_the_clear in (False, True))
    assert (np.asarray(secure[1].status) == 0).all()
    assert same_bits(secure[0], clear[0]) and same_bits(secure[1].direction, clear[1].direction)


def test_attacks_replace_values_and_proposals_of_byzantine_clients():
    """FoE on the values and the smallest coordinates as proposals, on client 0 alone."""

    def forge(sent):
        return np.concatenate([-0.5 * sent[1:].mean(0, keepdims=True), sent[1:]])

    def forge_set(g, own):
        return np.concatenate([np.argsort(np.abs(g[:1]), axis=1, kind="stable")[:, :N], own[1:]])

    system = fedrep_of(
        num_byzantine=1,
        attack=foe(),
        coordinate_attack=smallest(),
        aggregate=trimmed_mean(1),
        levels=2.0**22,
        in_the_clear=True,
    )
    directions, _, sizes = reference(forge, forge_set, lambda rows: np.median(rows, axis=0))
    info = ran(system)[1]
    np.testing.assert_allclose(info.direction, directions, atol=1e-5)
    assert (bits_of(info, "upload")[0] == 32 * sizes[:, None]).all()


def test_share_is_fedrep_on_all_coordinates():
    everything = ran(fedrep_of(k=M * D, in_the_clear=True))[1]
    whole = ran(made(share, buffer_size=S, aggregate=mean(), in_the_clear=True))[1]
    np.testing.assert_allclose(whole.direction, everything.direction, atol=4e-6)  # rounded by other draws


def test_the_server_holds_no_single_clients_values():
    """It reads the sum of a buffer, and of no part of one."""
    observed = jax.tree.map(lambda rounds: rounds[0], usual(levels=2.0**12)[1].observed)
    reading = leakage.separate(observed, leakage.secagg_protocol(group_size=S), bound=2**15, max_size=2)
    assert (reading.size == 2).all() and len(reading.size) > 0
    group = np.asarray(observed.public["mask"].group)
    assert (group[reading.clients[:, 0]] == group[reading.clients[:, 1]]).all()


@pytest.mark.parametrize(("factor", "dropout"), [(3.0, 0.0), (1e6, 0.4)])
def test_rcgd_ef_is_its_definition(factor, dropout):
    """Top-K with memory, FoE of any size cut to top-K again, the longest messages left out; float64."""
    k, memory = 6, np.zeros((M, D))
    system = made(rcgd_ef, num_params=D, ratio=k / D, num_byzantine=1, attack=foe(factor), dropout=dropout)
    info = ran(system)[1]
    assert not info.status.any()
    for t in range(ROUNDS):
        p, came = memory + VECTORS[:, t], np.asarray(info.counted[t])
        sent = np.zeros((M, D))
        np.put_along_axis(sent, top(p, k), np.take_along_axis(p, top(p, k), 1), 1)
        memory = np.where(came[:, None], p - sent, memory)
        forged = -factor * sent[1:].mean(0)
        sent[0] = 0
        sent[0, top(forged, k)] = forged[top(forged, k)]
        sent = sent[came]
        kept = np.argsort((sent**2).sum(1), kind="stable")[: -(-len(sent) * (M - 1) // M)]
        expected = sent[kept].mean(0)
        np.testing.assert_allclose(info.direction[t], expected, atol=1e-5 * max(1, np.abs(expected).max()))
    assert dropout == 0 or np.abs(info.direction).max() > 1e4, "a forged message is kept where honest ones are lost"


def test_a_client_whose_upload_does_not_count_keeps_all_of_it():
    """g_k: nothing of its training is lost; the others keep what is off the union. A failed round changes nothing."""
    states, info = usual(dropout=0.6)
    unions = np.asarray(info.observed.header["conspar"])
    before, counted = np.zeros((M, D), np.float32), np.asarray(info.counted)
    assert (info.status != 0).any() and not counted[info.status == 0].all(1).all() and counted.any()
    for t in range(ROUNDS):
        g = before + VECTORS[:, t]
        after, union = g.copy(), unions[t]
        after[np.ix_(counted[t], union[union < D])] = 0
        expected = after if info.status[t] == 0 else before
        np.testing.assert_allclose(states.layers["conspar"][t], expected, atol=1e-6)
        before = np.asarray(states.layers["conspar"][t])


def test_a_lost_client_costs_its_buffer_and_the_round_goes_on():
    info = usual(dropout=0.3)[1]
    counted = np.asarray(info.counted).sum(1)
    assert (counted % S == 0).all() and 0 < counted.sum() < M * ROUNDS


SPOILT = "of 3 rows, but aggregate tolerates"


test_bad_compositions = refuses(
    lambda change: fedrep_of(**change),
    ({"buffer_size": 4}, "num_clients must be a multiple of buffer_size = 4, got 6"),
    (
        {"buffer_size": 1, "aggregate": krum(1)},
        "buffer_size must be at least 2 unless in_the_clear=True: the sum of one client is its update",
    ),
    ({"k": 7}, "k must be a multiple of num_clients = 6, got 7"),
    ({"k": None, "ratio": 1.5}, "ratio must be a number in (0, 1], got 1.5"),
    ({"num_byzantine": 2, "aggregate": trimmed_mean(1)}, f"num_byzantine=2 can corrupt 2 {SPOILT} 1"),
    (
        {"num_byzantine": 1},
        f"num_byzantine=1 can corrupt 1 {SPOILT} 0; a control without defence: the mean, "
        "in Python aggregators.mean()._replace(most_byzantine=None)",
    ),
    ({"num_byzantine": 1, "aggregate": krum(1)}, "aggregate must be a rule for 3 rows, and this one needs 5"),
    (
        {"num_byzantine": 1, "aggregate": pre_aggregated(bucketing(2), trimmed_mean(1))},
        "aggregate must be a rule for 3 rows, and this one needs 5",
    ),
    (
        {"num_byzantine": 2, "aggregate": geometric_median()},
        f"num_byzantine=2 can corrupt 2 {SPOILT} 1; it would need 5 rows",
    ),
    (
        {"num_byzantine": 1, "aggregate": mean()._replace(most_byzantine=3)},
        "aggregate.most_byzantine must be a function of (rows), got int",
    ),
    ({"aggregate": monna(1)}, "aggregate must trust no row where a row is 2 clients, drawn anew each round"),
    ({"num_byzantine": 3}, "num_byzantine must be below num_clients / 2 = 3, got 3"),
    ({"alpha": -0.1}, "alpha must be a number in [0, 1], got -0.1"),
    ({"dropout": 1.0}, "dropout must be a number in [0, 1), got 1.0"),
    (
        {"in_the_clear": True, "leave": 0.1},
        "leave must be 0 with in_the_clear=True, got 0.1: nobody is asked for shares",
    ),
    ({"in_the_clear": True, "threshold": 2}, "threshold must not be given with in_the_clear, got 2"),
    whole=True,
)


test_bad_arguments_of_rcgd_ef = refuses(
    lambda change: made(rcgd_ef, num_params=D, **change),
    ({"num_byzantine": 3}, "num_byzantine must be below num_clients / 2 = 3, got 3"),
    ({"num_byzantine": -1}, "num_byzantine must be an integer >= 0, got -1"),
    ({"num_byzantine": 3, "trimmed": 0.0}, "num_byzantine must be below num_clients / 2 = 3, got 3"),
    ({"trimmed": 0.5}, "trimmed must be a number in [0, 1/2), got 0.5"),
    ({"num_byzantine": 2, "trimmed": 0.2}, "trimmed must be at least num_byzantine / num_clients = 0.333333, got 0.2"),
    ({"ratio": 0.0}, "ratio must be a number in (0, 1], got 0.0"),
    whole=True,
)


def test_f2ed_hands_its_bound_on():
    with pytest.raises(ValueError, match=r"bound must be a finite number > 0, got -1.0"):
        made(f2ed, bound=-1.0)


def test_a_ratio_of_d_that_is_an_integer_but_for_rounding():
    """0.29 * 100 is 28.999999999999996 in float64, and 0.57 * 100 / 3 is 18.999999999999996."""
    assert coordinates(100, 0.29) == 29 and coordinates(100, 0.57, 3) == 19
    assert coordinates(100, 0.289) == 28 and coordinates(10, 0.01) == 1


def test_single_updates_in_the_clear_may_be_asked_for_by_name():
    fedrep_of(buffer_size=1, in_the_clear=True, aggregate=krum(1), num_byzantine=1, attack=alie())
    with pytest.raises(ValueError, match="^buffer_size must be at least 2"):
        share(towards_target(), num_clients=M, buffer_size=1)


def test_clusters_in_the_clear_have_nobody_to_ask_for_shares():
    share(towards_target(), num_clients=M, buffer_size=2, leave=0.1)
    with pytest.raises(ValueError, match="^leave must be 0 with in_the_clear=True, got 0.1: nobody is asked"):
        share(towards_target(), num_clients=M, buffer_size=2, leave=0.1, in_the_clear=True)


def test_a_value_that_two_of_its_size_would_wrap_costs_its_buffer():
    """The largest value sent is beyond q / (4 levels): one fits the field, two of a buffer would not."""
    g = VECTORS[:, 0]
    sent = np.abs(g[:, np.unique(top(g, N))]).max(1)
    largest = np.sort(sent)[-1]
    levels = (2**32 - 6) / 2 / (1.3 * largest)
    info = usual(levels=levels, in_the_clear=True)[1]
    group = np.asarray(fedrep_of().draw(KEY, (), jnp.int32(0), DATA.count)[0].group)
    beyond = sent > (2**32 - 6) / 4 / levels
    expected = [Status.FIELD_OVERFLOW * bool(beyond[group == b].any()) for b in range(M // S)]
    assert info.group_status[0].tolist() == expected and any(expected)


def test_any_two_clients_may_share_a_buffer():
    """All 15 ways to pair six clients are drawn; rotations of one order are 2."""
    draw = fedrep_of(in_the_clear=True).draw
    groups = jax.jit(jax.vmap(lambda t: draw(KEY, (), t, DATA.count)[0].group))(jnp.arange(300))
    assert len({frozenset(frozenset(np.flatnonzero(g == b)) for b in range(3)) for g in np.asarray(groups)}) == 15
