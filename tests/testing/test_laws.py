"""The laws every layer and every system keeps; a public one that is missing from the tables fails."""

import functools
import importlib
import inspect
import itertools
import pkgutil
import typing

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from testing.layer_cases import BUILDERS, DEPENDS_ON_PEERS, LAYERS, MASKED, UNBIASED
from testing.system_cases import BOUNDED, PLACES, RATE, SYSTEMS

import fedjax_priv.attacks
import fedjax_priv.layers
from fedjax_priv import systems
from fedjax_priv.base import Algorithm, Layer
from fedjax_priv.clients.control_variates import Controlled
from fedjax_priv.status import Status
from fedjax_priv.testing import NUM_CLIENTS as N
from fedjax_priv.testing import NUM_PARAMS as D
from fedjax_priv.testing import check_layer, check_round_trip, check_system
from fedjax_priv.testing.single_layer_round import cohort_of, layer_round, run_layer, survivors
from helpers import mesh_of, remembering, same_bits, targets, towards_target

KEY = jax.random.key(7)


def public_names(packages, returning):
    """Functions of the packages' modules whose return annotation is the given type; those inside a secure sum aside."""
    found = [pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in packages]
    names = [info.name for infos in found for info in infos if "layers.secure_sum" not in info.name]
    for module in map(importlib.import_module, names):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = not name.startswith("_") and function.__module__ == module.__name__
            if own and typing.get_type_hints(function).get("return") is returning:
                yield name


@pytest.mark.parametrize(
    ("packages", "type_", "table"),
    [((fedjax_priv.layers, fedjax_priv.attacks), Layer, LAYERS), ((systems,), Algorithm, SYSTEMS)],
)
def test_every_public_part_is_in_the_table(packages, type_, table):
    named = {name.split(",")[0] for name in table}
    assert set(public_names(packages, type_)) - BUILDERS == named


@pytest.mark.parametrize("named", [DEPENDS_ON_PEERS, MASKED, UNBIASED])
def test_only_layers_of_the_table_have_claims_of_their_own(named):
    assert named <= LAYERS.keys()


COMPILED_ONLY = MASKED - {"coded_masks", "enrolled_masks"} | {"over_opened"}
"""Without jit each shape of an operation is a program; two secure sums, the smallest, stand for all."""


def peers_matter(case):
    """Whether clients of the first group send something else when its last member takes no part."""
    *others, out = np.flatnonzero(case.group == 0)
    sent = []
    for lost in ([], [out]):
        there = survivors(N, lost)
        sent.append(run_layer(case.layer, KEY, jnp.asarray(case.updates), case.cohort._replace(selected=there), there))
    return not same_bits(*(jax.tree.map(lambda a: a[np.array(others)], found["upload"]) for found in sent))


def refuses_other_sizes(case):
    few = cohort_of(N - 1)
    with pytest.raises(ValueError, match="^num_clients must be the size of every cohort"):
        jax.eval_shape(functools.partial(layer_round, case.layer), KEY, case.updates[1:], few, few.selected)


@pytest.mark.parametrize("name", LAYERS, scope="class")
class TestLayers:
    """All tests of a layer come one after the other, and share its program."""

    def test_a_layer_keeps_the_laws(self, name):
        """The keys of masks, which depend on all peers, are tested in layers/test_mask.py."""
        claims = dict(unbiased=name in UNBIASED, masked=name in MASKED, by_number=name not in DEPENDS_ON_PEERS)
        check_layer(LAYERS[name], **claims)
        if "," not in name:
            check_round_trip(LAYERS[name], [*itertools.combinations(range(N), 3), *itertools.combinations(range(N), 2)])
        if name not in COMPILED_ONLY:
            check_layer(LAYERS[name], variant=lambda run: run)

    def test_only_layers_that_say_so_depend_on_peers(self, name):
        """No layer is let off law 5 that keeps it."""
        if peers_matter(LAYERS[name]):
            assert name in DEPENDS_ON_PEERS
        elif name in DEPENDS_ON_PEERS:
            refuses_other_sizes(LAYERS[name])


def system_of(name, block=3, devices=1):
    return SYSTEMS[name](remembering(), N, server=optax.sgd(RATE), block=block, mesh=mesh_of(devices))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_keeps_the_laws(name):
    """Laws 3, 4, 8, 11, 13 and 15 on 1, 2 and 8 devices; and it learns: the mean of the targets is its fixed point,
    or their median, where signs are sent."""
    data = targets(N, D)
    elsewhere = [system_of(name, block, devices) for block, devices in PLACES[name]]
    state, infos = check_system(
        system_of(name), KEY, jnp.zeros(D), data, rounds=40, elsewhere=elsewhere, bounded=name in BOUNDED
    )
    assert len(np.unique(np.asarray(state.params))) > 1
    accepted = sum(np.bincount(info.client[info.counted], minlength=N) for info in jax.device_get(infos))
    memory = state.memory.memory if isinstance(state.memory, Controlled) else state.memory
    chex.assert_trees_all_equal(np.asarray(memory), accepted.astype(np.int32))
    moves = [np.where(info.status == 0, info.direction, 0) for info in jax.device_get(infos)]
    late = -RATE * np.cumsum(moves, axis=0)[-15:]
    np.testing.assert_allclose(late[-1], state.params, atol=1e-4)
    weight = np.asarray(data.count) / np.asarray(data.count).sum()
    examples = np.asarray(data.examples)
    centre = np.median(examples, axis=0) if "vote" in name else (examples * weight[:, None]).sum(0)
    near = 0.85 if name == "two_tone_vote" else 0.5  # lost clients and unknown phases: 0.45 to 0.76 with 16 keys
    assert np.abs(np.mean(late, axis=0) - centre).mean() < near * np.abs(centre).mean()


class TestSystemsInOtherWays(chex.TestCase):
    """A step that is not compiled."""

    @chex.variants(without_jit=True, with_device=True)
    def test_a_system(self):
        check_system(system_of("fedavg"), KEY, jnp.zeros(D), targets(N, D), rounds=2, variant=self.variant)


def secagg_of(**how):
    return systems.secagg(towards_target(), num_clients=N, block=7, mesh=None, **how)


def begun(data):
    return secagg_of().init(KEY, jnp.zeros(D), data)


@jax.jit
def secagg_round(state, data, dropout, levels):
    return secagg_of(dropout=dropout, levels=levels).step(KEY, state, data)


def test_too_few_survivors_abort_the_round_and_the_run_goes_on():
    data, outcomes = targets(N, D), []
    state = begun(data)
    for _ in range(12):
        new, info = secagg_round(state, data, dropout=0.45, levels=2.0**16)
        enough = int((info.bits["upload"].up > 0).sum()) >= N // 2 + 1
        assert (int(info.status) == 0) == enough
        assert same_bits(new.params, state.params) == (not enough)
        assert enough or int(info.status) == Status.NOT_RECOVERED
        outcomes.append(enough)
        state = new
    assert len(set(outcomes)) == 2


def test_an_overflowing_field_sets_its_bit():
    """Law 9."""
    data = targets(N, D)
    before = begun(data)
    after, info = secagg_round(before, data, dropout=0.0, levels=2.0**31)
    assert int(info.status) == Status.FIELD_OVERFLOW
    assert same_bits(after, before._replace(round=before.round + 1))
