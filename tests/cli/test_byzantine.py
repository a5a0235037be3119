"""Rules and attacks that are chosen by name."""

import inspect
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import aggregators, attacks, systems
from fedjax_priv.aggregators.by_name import PRE_AGGREGATORS, RULES, TRUSTING
from fedjax_priv.attacks import CoordinateAttack
from fedjax_priv.attacks.attack_layers import of_a_round
from fedjax_priv.attacks.by_name import ATTACKS, COORDINATE_ATTACKS, FIELD_ATTACKS, SEARCHED
from fedjax_priv.cli.byzantine import byzantine_options, byzantine_parts, check_attackers
from fedjax_priv.cli.experiment import options_by_part
from fedjax_priv.cli.options import REQUIRED
from helpers import towards_target

KEY = jax.random.key(0)
ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(9, 4)), jnp.float32)
HONEST = jnp.arange(9) >= 2
NEEDED = {
    "aggregate_fraction": 0.2,
    "aggregate_sigma": 0.5,
    "aggregate_size": 2,
    "pre_aggregate_size": 2,
    "pre_aggregate_radius": 1.5,
}


def parts(system=systems.robust_fedavg, num_byzantine=2, **given):
    values = {name: option.default for name, option in byzantine_options(system).items()}
    assert REQUIRED not in values.values() and not given.keys() - values.keys()
    return byzantine_parts(system, {**values, "num_byzantine": num_byzantine, **given})


def needed(kind, functions, name):
    """What cannot be left out, of the arguments this one has."""
    return {
        f"{kind}_{argument}": NEEDED[f"{kind}_{argument}"]
        for argument, parameter in inspect.signature(functions[name]).parameters.items()
        if parameter.default is REQUIRED and argument != "num_byzantine"
    }


def same_program(found, expected):
    """Whether two functions of a key are made of the same operations and numbers; nothing is compiled."""
    one, other = (jax.jit(lambda key, each=each: each(key)).lower(KEY).as_text() for each in (found, expected))
    return one == other


def returning(module, kind):
    """Public functions of a module whose return annotation is this type."""
    functions = {name: value for name, value in inspect.getmembers(module, inspect.isfunction)}
    return {name for name in module.__all__ if name in functions and annotation(functions[name]) is kind}


def annotation(function):
    return inspect.signature(function, eval_str=True).return_annotation


def test_every_public_rule_and_attack_can_be_chosen():
    no_rule = {
        "from_host",
        "in_sketch",
        "on_coordinates",
        "one_of",
        "pre_aggregated",
    }  # of other rules, or of functions
    assert returning(aggregators, annotation(aggregators.mean)) == {*RULES} | no_rule
    assert returning(aggregators, aggregators.PreAggregator) == {*PRE_AGGREGATORS}
    assert returning(attacks, attacks.FromHistory) == {"relocated_perturbation"}
    of_a_round = {*ATTACKS, "furthest", "before_groups"} - {"relocated_perturbation"}
    assert returning(attacks, annotation(attacks.foe)) == of_a_round
    assert returning(attacks, CoordinateAttack) == {*COORDINATE_ATTACKS, "honest_set"}
    assert returning(attacks, attacks.FieldAttack) == {*FIELD_ATTACKS, "mean_replacement"}


@pytest.mark.parametrize("system", systems.__all__)
def test_no_option_of_a_rule_or_attack_hides_another(system):
    parts = options_by_part(system)
    own = parts.pop("byzantine").keys()
    assert not own & {name for options in parts.values() for name in options}


@pytest.mark.parametrize("name", sorted({*RULES} - TRUSTING))
def test_a_rule_is_told_how_many_are_byzantine(name):
    rule = parts(aggregate=name, **needed("aggregate", RULES, name))["aggregate"]
    told = {"num_byzantine": 2} if "num_byzantine" in inspect.signature(RULES[name]).parameters else {}
    given = {key.removeprefix("aggregate_"): value for key, value in needed("aggregate", RULES, name).items()}
    expected = getattr(aggregators, name)(**told, **given)
    assert same_program(lambda key: rule(ROWS, key=key), lambda key: expected(ROWS, key=key))
    if told:
        other = getattr(aggregators, name)(1, **given)
        assert not same_program(lambda key: rule(ROWS, key=key), lambda key: other(ROWS, key=key)), "the control"


@pytest.mark.parametrize("name", PRE_AGGREGATORS)
def test_a_step_comes_before_the_rule(name):
    chosen = parts(aggregate="coordinate_median", pre_aggregate=name, **needed("pre_aggregate", PRE_AGGREGATORS, name))
    step = getattr(aggregators, name)(1.5 if name == "clipping" else 2)
    by_hand = aggregators.pre_aggregated(step, aggregators.coordinate_median())
    found, expected = jax.jit(lambda: (chosen["aggregate"](ROWS, key=KEY), by_hand(ROWS, key=KEY)))()
    np.testing.assert_array_equal(found, expected)
    assert np.abs(expected - np.median(ROWS, axis=0)).max() > 1e-3


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_its_arguments(name):
    given = {
        "sign_flip": {"magnitude": 3.0}, "foe": {"scale": 2.0}, "alie": {"z": 0.7}, "mimic": {"client": 1},
        "relocated_perturbation": {"length": 2.0, "angle": 270.0, "location": 0.3},
    }  # fmt: skip
    rule = [aggregators.krum(2)] if name in SEARCHED else []
    now = lambda attack: lambda key: of_a_round(attack, ROWS[-1])(key, ROWS, HONEST, ~HONEST)
    expected = getattr(attacks, name)(*rule, **given.get(name, {}))
    options = {f"attack_{argument}": value for argument, value in given.get(name, {}).items()}
    chosen = parts(aggregate="krum", attack=name, **options)["attack"]
    assert same_program(now(chosen), now(expected))


def test_an_attack_on_groups_tries_out_the_rule():
    chosen = parts(systems.share, aggregate="krum", group_attack="optimal_foe")["group_attack"]
    given, expected = (KEY, ROWS, HONEST, ~HONEST), attacks.optimal_foe(aggregators.krum(2))
    np.testing.assert_array_equal(*jax.jit(lambda: (chosen(*given), expected(*given)))())


def test_trimming_takes_a_share_in_place_of_the_number():
    chosen = parts(aggregate="trimmed_mean", aggregate_fraction=0.4, num_byzantine=1)["aggregate"]
    np.testing.assert_allclose(chosen(ROWS), np.sort(ROWS, axis=0)[3:6].mean(0), rtol=1e-6)


def test_the_mean_is_a_baseline_that_is_not_refused():
    assert parts(aggregate="mean")["aggregate"].most_byzantine is None
    mixed = parts(aggregate="mean", pre_aggregate="nearest_neighbour_mixing")["aggregate"]
    assert mixed.most_byzantine is None
    assert parts(aggregate="krum", pre_aggregate="nearest_neighbour_mixing")["aggregate"].most_byzantine(9) == 2
    with pytest.raises(ValueError, match="tolerates 0; a control without defence: "):
        systems.robust_fedavg(towards_target(), num_clients=9, num_byzantine=2, aggregate=aggregators.mean())


def test_a_rule_without_a_direction_is_refused_whoever_is_honest():
    chosen = parts(aggregate="multi_krum", aggregate_selected=10, num_byzantine=0)
    with pytest.raises(ValueError, match="^aggregate must be a rule for 9 rows, and this one needs 10$"):
        systems.robust_fedavg(towards_target(), num_clients=9, **chosen)


def test_what_a_system_has_is_what_can_be_chosen():
    chosen = lambda system: {name for name in byzantine_options(system) if not name.startswith(tuple(prefixes))}
    prefixes = {"aggregate_", "pre_aggregate_", "attack_", "group_attack_", "field_attack_"}
    assert byzantine_options(systems.secagg) == {} == parts(systems.secagg)
    assert chosen(systems.rcgd_ef) == {"attack"}
    of_groups = {"attack", "group_attack", "field_attack"}
    assert chosen(systems.f2ed) == of_groups
    assert chosen(systems.share) == {"aggregate", "pre_aggregate"} | of_groups
    assert chosen(systems.fedrep) == {"aggregate", "pre_aggregate", "coordinate_attack"} | of_groups
    every = {"aggregate", "coordinate_attack"} | of_groups
    assert parts(systems.fedrep, coordinate_attack="smallest").keys() == every
    sent = parts(systems.share, field_attack="sum_replacement", field_attack_total=7)["field_attack"]
    elements = jnp.full((9, 3), 5, jnp.uint32)
    forged = jax.jit(sent)(KEY, elements, HONEST, ~HONEST, jnp.zeros(9, int))
    assert forged[0].tolist() == [(7 - 35) % (2**32 - 5)] * 3
    names = lambda system, option: {*typing.get_args(typing.get_args(byzantine_options(system)[option].type)[0])}
    assert names(systems.robust_fedavg, "attack") - names(systems.share, "attack") == SEARCHED
    assert names(systems.share, "group_attack") - names(systems.f2ed, "group_attack") == SEARCHED


def test_the_client_that_is_trusted_is_honest_and_none_is_where_rows_are_buffers():
    """Clients 0 and 1 are Byzantine; rows 2 to 8 are near one another, so MoNNA is the mean of the honest ones."""
    rows = ROWS.at[2:].multiply(0.01).at[:2].add(50.0)
    rule = parts(aggregate="monna")["aggregate"]
    other = parts(aggregate="monna", aggregate_pivot=0)["aggregate"]
    found, fooled = jax.jit(lambda: (rule(rows), other(rows)))()
    np.testing.assert_allclose(found, np.asarray(rows)[2:].mean(0), atol=1e-6)
    assert np.abs(fooled).min() > 1
    for system in (systems.share, systems.fedrep):
        assert "monna" not in typing.get_args(byzantine_options(system)["aggregate"].type)


def test_an_attack_that_nobody_carries_out_is_refused():
    for name in ("attack", "group_attack", "field_attack", "coordinate_attack"):
        with pytest.raises(ValueError, match=f"^num_byzantine must be at least 1 with {name}, got 0$"):
            check_attackers({name: "foe", "num_byzantine": 0})
        with pytest.raises(ValueError, match="^num_byzantine must be"):
            check_attackers({name: None, "num_byzantine": 0}, {name: [None, "foe"]})
    check_attackers({"attack": "foe", "num_byzantine": 0}, {"num_byzantine": [0, 2]})
    assert parts(num_byzantine=0, attack="foe")["attack"] is None, "a point of a grid without Byzantine clients"
    check_attackers({"attack": "foe", "num_byzantine": 2})
    check_attackers({})


def test_what_would_be_ignored_is_refused():
    with pytest.raises(ValueError, match="^attack_scale is for attack foe, got it without one$"):
        parts(attack_scale=2.0)
    with pytest.raises(ValueError, match="^aggregate_nu is for aggregate geometric_median or weiszfeld, got it"):
        parts(aggregate="krum", aggregate_nu=1.0)
    with pytest.raises(ValueError, match="^pre_aggregate clipping: radius must be a finite number > 0, got -1"):
        parts(pre_aggregate="clipping", pre_aggregate_radius=-1.0)
    with pytest.raises(ValueError, match="^attack optimal_alie: ddof must be"):
        parts(attack="optimal_alie", attack_ddof=2)
    with pytest.raises(ValueError, match="^pre_aggregate_size must be given with pre_aggregate bucketing$"):
        parts(pre_aggregate="bucketing")


@pytest.mark.parametrize(("system", "name"), [(systems.robust_fedavg, "attack"), (systems.share, "group_attack")])
def test_a_search_against_buckets_tries_each_factor_on_sixteen_draws(system, name):
    made = parts(system, pre_aggregate="bucketing", pre_aggregate_size=2, **{name: "optimal_foe"})
    key, honest = jax.random.key(3), jnp.arange(len(ROWS)) >= 2
    by_hand, given = attacks.optimal_foe(made["aggregate"], draws=16), (key, ROWS, honest, ~honest)
    found, expected = jax.jit(lambda: (made[name](*given), by_hand(*given)))()
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(expected).all() and np.abs(expected).max() > 0
