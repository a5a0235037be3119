"""The laws of rules, attacks, channels and fading, with jit and without; a public part that is missing
from the tables fails.
"""

import pathlib
import typing

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from aggregators.references import RULES
from fedjax_priv import aggregators, attacks, channels
from fedjax_priv.attacks.attack_layers import of_a_round
from fedjax_priv.base import Aggregator, Channel
from fedjax_priv.crypto.sketch import Sketched
from fedjax_priv.testing import (
    check_aggregator,
    check_attack,
    check_channel,
    check_coordinate_attack,
    check_fading,
    check_fading_by_number,
    check_field_attack,
    check_label_attack,
)
from helpers import heard_alike

VARIANTS = dict(with_jit=True, without_jit=True)  # arguments lie on a device in both

G, D = 9, 7


def median(updates):
    return jnp.sort(updates, axis=0)[3]


def with_positions(rule):
    """A rule on pairs of values and positions: all of them, in another order."""

    def apply(key, state, received):
        position = jnp.broadcast_to(jnp.arange(D)[::-1], received.value.shape)
        return rule.apply(key, state, received._replace(value=(received.value, position)))

    return rule._replace(apply=apply)


def with_seed(rule):
    """A rule on projections of a public seed: the rows are the projections."""

    def apply(key, state, received):
        seed = jnp.zeros((len(received.value), 2), jnp.uint32)
        return rule.apply(key, state, received._replace(value=Sketched(received.value, seed)))

    return rule._replace(apply=apply)


AGGREGATORS = {name: rule.made for name, rule in RULES.items() if "," not in name} | {
    "from_host": aggregators.from_host(lambda rows: rows.mean(0)),
    "on_coordinates": with_positions(aggregators.on_coordinates(aggregators.mean(), D)),
    "in_sketch": with_seed(aggregators.in_sketch(aggregators.mean(), D, D)),
    "one_of": aggregators.one_of(1, [aggregators.mean(), aggregators.krum(2)]),
    "bucketing": aggregators.pre_aggregated(aggregators.bucketing(2), aggregators.mean()),
    "pre_aggregated": aggregators.pre_aggregated(aggregators.clipping(2), aggregators.mean()),
}
STEPS = {"bucketing", "clipping", "arc", "nearest_neighbour_mixing"}
"""They are no rules; each stands before one."""
ATTACKS = {
    "sign_flip": attacks.sign_flip(2.0),
    "foe": attacks.foe(),
    "alie": attacks.alie(1.2),
    "mimic": attacks.mimic(4),
    "gaussian": attacks.gaussian(),
    "infinite": attacks.infinite(),
    "min_max": attacks.min_max(),
    "min_sum": attacks.min_sum("unit"),
    "orthogonal_perturbation": attacks.orthogonal_perturbation(2.0, angle=120.0),
    "relocated_perturbation": attacks.relocated_perturbation(2.0, angle=120.0, location=0.7),
    "model_replacement": attacks.model_replacement(0.5, largest_norm=4.0),
    "optimal_foe": attacks.optimal_foe(median, evals=3),
    "optimal_alie": attacks.optimal_alie(median, evals=3),
    "one_of": attacks.one_of(1, [attacks.foe(), attacks.gaussian()]),
    "before_groups": attacks.before_groups(
        lambda rule: attacks.optimal_foe(rule, evals=3), aggregators.coordinate_median(), 4, draws=3
    ),
}
OF_OWN_UPDATES = {"min_max": attacks.min_max("sign", seen="own"), "min_sum": attacks.min_sum(seen="own")}
FIELD_ATTACKS = {
    "random_elements": attacks.random_elements(),
    "sum_replacement": attacks.sum_replacement(5),
    "mean_replacement": attacks.mean_replacement(attacks.alie(1.2), 2.0**10, 2),
}
COORDINATE_ATTACKS = {
    "honest_set": attacks.honest_set(),
    "smallest": attacks.smallest(),
    "random_set": attacks.random_set(),
    "same_set": attacks.same_set(),
}
LABEL_ATTACKS = {"flip_labels": attacks.flip_labels}
LAYERS_OF_ATTACKS = {"on_updates", "on_sparse", "on_group_means", "on_field_elements"}
"""Those in the table of layers, in layer_cases.py."""
LYING_SERVERS = {"both_secrets", "gradient_suppression", "property_detector", "replay", "split_lists"}
"""In attacks/test_lying_servers.py, test_lying_models.py, test_property_detectors.py and test_replays.py there."""
BACKDOORS = {"PixelTrigger", "plant_backdoor"}
"""Of images, in attacks/test_backdoors.py."""
EXAMPLE_GAINS = pathlib.Path(__file__).parents[2] / "docs" / "recorded_gains.npz"
CHANNELS = {
    "erasure": channels.erasure(0.4, leave=0.3),
    "multiple_access": channels.multiple_access(1.0),
    "orthogonal": channels.orthogonal(1.0),
    "antenna_array": heard_alike(channels.antenna_array(1.0)),
    "outage": channels.outage(1.0, snr=4.0),
    "true_gains": channels.true_gains(1.0),
    "unknown_phases": channels.unknown_phases(1.0),
}
FADING = {
    "constant": channels.constant(2.0),
    "rician": channels.rician(),
    "rayleigh": channels.rayleigh(correlation=0.5),
    "estimated": channels.estimated(channels.rayleigh(), pilot_energy=2.0),
    "turned": channels.turned(channels.rician(), deviation=0.8),
    "gains_from_file": channels.gains_from_file(EXAMPLE_GAINS, antenna=0),
    "recorded": channels.recorded(np.random.default_rng(0).uniform(0.5, 2, (5, 7))),
}


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in ("gaussian", "one_of")])  # those draw
def test_zeros_at_the_end_of_rows_change_no_attack(name):
    """As of places that ConSpar does not use: what is sent elsewhere is the same."""
    rows = jnp.asarray(np.random.default_rng(2).normal(1, 2, (G, D)), jnp.float32)
    byzantine = jnp.arange(G) < 2
    last = rows[3]
    attack = jax.jit(lambda rows, last: of_a_round(ATTACKS[name], last)(jax.random.key(3), rows, ~byzantine, byzantine))
    padded = attack(jnp.pad(rows, ((0, 0), (0, 3 * D))), jnp.pad(last, (0, 3 * D)))
    np.testing.assert_allclose(padded[:, :D], attack(rows, last), rtol=1e-4, atol=1e-4)


def test_every_public_attack_is_in_a_table():
    """Whatever it attacks; the others help to choose the strength of one, or to read what it found."""
    found = {name for name in attacks.__all__ if not name.endswith("Attack")}
    tables = ATTACKS | FIELD_ATTACKS | COORDINATE_ATTACKS | LABEL_ATTACKS
    helpers = {"FromHistory", "baruch_z", "detector_coordinates", "furthest"}
    assert found == set(tables) | LAYERS_OF_ATTACKS | helpers | BACKDOORS | LYING_SERVERS


def named(table):
    return [(name.replace(", ", "_").replace(" ", "_"), name) for name in table]


def returning(module, type_):
    """Public functions of a module whose result is of a type."""
    public = {name: getattr(module, name) for name in module.__all__}
    return {
        name
        for name, part in public.items()
        if not isinstance(part, type) and callable(part) and typing.get_type_hints(part).get("return") == type_
    }


@pytest.mark.parametrize(
    ("module", "type_", "table", "others"),
    [
        (aggregators, Aggregator, AGGREGATORS, STEPS),
        (channels, Channel, CHANNELS, set()),
        (channels, channels.Fading, FADING, set()),
    ],
)
def test_every_public_part_is_in_a_table(module, type_, table, others):
    found = returning(module, type_)
    assert len(found) >= 3 and found - others == {name.split(",")[0] for name in table} - STEPS


class TestParts(chex.TestCase):
    """Each with jit and without."""

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(AGGREGATORS))
    def test_aggregator(self, name):
        check_aggregator(AGGREGATORS[name], num_rows=G, num_params=D, variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(ATTACKS))
    def test_attack(self, name):
        check_attack(ATTACKS[name], finite=name != "infinite", variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(OF_OWN_UPDATES))
    def test_attack_of_own_updates(self, name):
        check_attack(OF_OWN_UPDATES[name], seen="own", variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(FIELD_ATTACKS))
    def test_field_attack(self, name):
        check_field_attack(FIELD_ATTACKS[name], variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(COORDINATE_ATTACKS))
    def test_coordinate_attack(self, name):
        check_coordinate_attack(COORDINATE_ATTACKS[name], variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(LABEL_ATTACKS))
    def test_label_attack(self, name):
        check_label_attack(LABEL_ATTACKS[name], variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(CHANNELS))
    def test_channel(self, name):
        check_channel(CHANNELS[name], num_params=6, variant=self.variant)

    @chex.variants(**VARIANTS)
    @parameterized.named_parameters(*named(FADING))
    def test_fading(self, name):
        check_fading(FADING[name], variant=self.variant)


@pytest.mark.parametrize("name", [name for name in FADING if name not in ("recorded", "gains_from_file")])
def test_another_client_moves_no_gain(name):
    check_fading_by_number(FADING[name])
