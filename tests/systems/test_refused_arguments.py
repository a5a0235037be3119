"""Arguments of several systems that are refused by the name that the caller knows, before a part is built of them."""

import functools
import re

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from fedjax_priv import (
    aggregators,
    attacks,
    audit,
    channels,
    clients,
    layers,
    server_noise,
    simulate,
    sweep,
    systems,
)
from fedjax_priv.aggregators import trimmed_mean
from fedjax_priv.layers import plain_field
from helpers import cohort_of, targets, towards_target


@pytest.fixture(autouse=True)
def without_checks_of_annotations():
    """As users call these functions: tests check annotations before a function can say what is wrong."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def of(system, **usual):
    return functools.partial(getattr(systems, system), towards_target(), **usual)


SHARE, FEDREP = of("share", num_clients=6), of("fedrep", num_clients=6, num_params=12)
ROBAJOL = of("robajol", num_clients=6, num_params=12)
COMMON = of("common_secagg", num_clients=6, num_params=5, alpha=0.5)
SPARSE = of("sparse_fedavg", num_params=5, k=2)
COMPOSE = of("compose", num_clients=6, num_params=5)
TRAIN = functools.partial(clients.fedsgd, lambda params, x: x @ params)
LOCAL = functools.partial(
    clients.local_sgd, lambda params, x: x @ params, learning_rate=0.1, batch_size=2, num_steps=1, momentum=0.5
)
SCAFFOLD = lambda **given: systems.scaffold(LOCAL(), num_clients=6, **given)


MASKED = [
    of("secagg", num_clients=6), of("sparse_secagg", num_clients=6, alpha=0.5), of("cdp_fl", num_clients=6),
    of("lightsecagg", num_clients=6, num_params=5), of("one_shot_secagg", num_clients=6, num_params=5),
    of("flamingo", num_clients=6), of("thresholded_secagg", num_clients=6, num_params=5, alpha=0.5),
    of("compose", num_clients=6, secure="secagg"),
]  # fmt: skip


@pytest.mark.parametrize("value", ["no", 1, None, np.array([True])])
@pytest.mark.parametrize(
    ("part", "name"),
    [
        (SHARE, "in_the_clear"),
        (FEDREP, "in_the_clear"),
        (FEDREP, "check_range"),
        (ROBAJOL, "dense"),
        (COMMON, "error_feedback"),
        (SPARSE, "error_feedback"),
        (SPARSE, "exact"),
        (COMPOSE, "error_feedback"),
        (COMPOSE, "check_range"),
        (COMPOSE, "exact"),
        (LOCAL, "carry_momentum"),
        *[(part, "elide") for part in MASKED],
        (of("secagg", num_clients=6), "consistency"),
        (of("secagg", num_clients=6), "bind_model"),
        (channels.multiple_access, "known_count"),
        (channels.true_gains, "known_count"),
        (channels.antenna_array, "every_antenna"),
        (functools.partial(layers.blind_mean, 1.0), "every_antenna"),
        (functools.partial(layers.blind_mean, 1.0), "measured_gains"),
        (layers.over_the_air_mean, "known_count"),
        (functools.partial(layers.top_k, 5, 2), "error_feedback"),
        (functools.partial(layers.rand_k, 5, 2), "error_feedback"),
        (functools.partial(layers.jl, 5, 2), "dense"),
        (functools.partial(aggregators.in_sketch, trimmed_mean(1), 5, 2), "dense"),
        (functools.partial(aggregators.filter_l2, 1.0), "squared"),
        (functools.partial(server_noise.tree, 4), "variance_reduced"),
        (functools.partial(attacks.replay, jnp.zeros(3), 0, 6), "nudge"),
        (functools.partial(attacks.property_detector, 0, 6, "Dense_0", 0, jnp.ones(3), 1.0), "to_all"),
        (functools.partial(audit.direction_canary, jax.random.key(0), 6, 5, 1.0), "alone"),
        (functools.partial(audit.direction_canary, jax.random.key(0), 6, 5, 1.0), "opposite"),
        (functools.partial(audit.client_crowd, jax.random.key(0), 6, 5, 1.0), "opposite"),
        (functools.partial(audit.two_worlds, np.arange(8.0), np.arange(8.0)), "gaussian"),
        (functools.partial(audit.one_run, np.arange(8.0), np.arange(8) > 3, guesses=4), "gaussian"),
        (functools.partial(SCAFFOLD, secure=True), "exact"),
        (SCAFFOLD, "elide"),
        *[(of(name, num_clients=6), "elide") for name in ("dp_fedavg", "compose")],
    ],
)
def test_a_flag_is_a_truth_value(part, name, value):
    with pytest.raises(ValueError, match=f"^{name} must be one of True, False, got {re.escape(repr(value))}"):
        part(**{name: value})
    part(**{name: np.False_})


START = (jax.random.key(0), jnp.zeros(5), targets(6, 5)._replace(count=jnp.ones(6, jnp.int32)))


@pytest.mark.parametrize(
    "run", [lambda **how: simulate(systems.fedavg(towards_target()), *START, **how),
            lambda **how: sweep(lambda dropout: systems.fedavg(towards_target(), dropout=dropout),
                                {"dropout": [0.1]}, *START, **how)], ids=["simulate", "sweep"],
)  # fmt: skip
def test_whether_progress_is_shown_is_a_truth_value(run):
    with pytest.raises(ValueError, match="^progress must be one of True, False, got 'no'$"):
        run(rounds=1, progress="no")


def test_static_axes_come_in_a_list():
    with pytest.raises(ValueError, match="^static must be names of axes in a list, got None$"):
        sweep(lambda dropout: None, {"dropout": [0.1]}, *START, rounds=1, static=None)


SWITCHED_OFF = [
    (of("dp_fedavg", num_clients=6), "clip_rate", "a finite number >= 0"),
    (of("fedbuff", num_clients=6), "levels", "a finite number > 0"),
    (SCAFFOLD, "levels", "a finite number > 0"),
    (of("sparse_fedavg", num_params=5, k=2), "num_clients", "an integer >= 1"),
    (functools.partial(ROBAJOL, k=3), "ratio", r"a number in \(0, 1\]"),
    (functools.partial(FEDREP, k=6), "ratio", r"a number in \(0, 1\]"),
]


@pytest.mark.parametrize("value", [np.nan, "x", -1])
@pytest.mark.parametrize(("part", "name", "allowed"), SWITCHED_OFF)
def test_an_argument_of_what_is_switched_off_must_be_in_range_too(part, name, allowed, value):
    with pytest.raises(ValueError, match=f"^{name} must be {allowed}, got {value!r}$"):
        part(**{name: value})


def traced(part, **usual):
    """The part, given one number that is traced."""

    def build(**given):
        ((name, value),) = given.items()
        return jax.eval_shape(lambda value: part(**usual, **{name: value}) and None, value)

    return build


def started(part):
    """The part of six clients, and the state that it starts from."""
    return lambda **given: part(**given, mesh=None).init(jax.random.key(0), jnp.zeros(5), targets(6, 5))


SECURE_FEDBUFF = of("secure_fedbuff", num_clients=6, num_params=5, buffer_size=2)
FEDBUFF = of("fedbuff", num_clients=6, buffer_size=2)
IN_FIELD = functools.partial(FEDBUFF, secure_sum=plain_field())
DISTRIBUTED = of("distributed_dp_fedavg", num_clients=6, num_params=5)
DIGITAL = of("digital_fedavg", num_params=5)
WEIGHED = functools.partial(clients.weighed_by_staleness, clients.buffered(2, 3, max_staleness=9), levels=64)
ROBUST = of("robust_fedavg", num_clients=6)
COHORTS = [of(name) for name in ("fedavg", "fednova")] + [
    of("scaffold", num_clients=6), of("secagg", num_clients=6), of("sparse_secagg", num_clients=6, alpha=0.5),
    functools.partial(SPARSE, num_clients=6), ROBUST, of("dp_fedavg", num_clients=6), DISTRIBUTED,
]  # fmt: skip
CLIPPED = [
    of("secagg", num_clients=6), of("sparse_secagg", num_clients=6, alpha=0.5), of("over_the_air_vote"),
    of("two_tone_vote"), of("wireless"), FEDREP, ROBAJOL, of("blind_wireless", antennas=2), COMPOSE,
]  # fmt: skip

ON_AIR = [
    of("wireless"),
    of("blind_wireless", antennas=2, clip=1.0),
    of("compose", num_clients=6, channel="orthogonal", clip=1.0),
]
VOTE = of("majority_vote")
BY_LOCAL = [
    functools.partial(systems.dp_fedavg, num_clients=6), functools.partial(systems.dp_sgd, num_clients=6),
    functools.partial(systems.distributed_dp_fedavg, num_clients=6, num_params=5),
    functools.partial(clients.bounded, clip=1.0), functools.partial(clients.bounded_and_counted, bit=0.5),
]  # fmt: skip
CASES = [
    (SECURE_FEDBUFF, {"staleness_power": 2.0}, "weight_levels must be from 196 to 65536, so that no factor is 0 up to"),
    (of("secure_fedbuff", num_clients=100_000, num_params=5), {}, "weight_levels must be from 224 to 65536"),
    (functools.partial(IN_FIELD, weight_levels=8), {"staleness_power": 2.0}, "weight_levels must be from 196 to 65536"),
    (SECURE_FEDBUFF, {"staleness_power": 4e2}, "staleness_power must be at most 4.202 up to staleness 13, so"),
    (WEIGHED, {"power": 400.0}, "power must be at most 4.816 up to staleness 9, so .* got 400.0"),
    (WEIGHED, {"levels": 2}, "levels must be from 4 to 65536, .* up to staleness 9, got 2"),
    (traced(SECURE_FEDBUFF), {"staleness_power": 0.5}, "staleness_power must be known"),
    (traced(SECURE_FEDBUFF), {"failure": 0.1}, "failure must be known"),
    (SECURE_FEDBUFF, {"coins": 10**12}, "coins must be at most the bits of a word = 32, got 1000000000000"),
    (of("one_shot_secagg", num_clients=4, num_params=5, failure=1e-9), {"coins": 33}, "coins must be at most the bits"),
    (SECURE_FEDBUFF, {"coins": "3"}, "coins must be an integer >= 0, got '3'"),
    (SECURE_FEDBUFF, {"concurrency": "3"}, "concurrency must be an integer >= 1, got '3'"),
    (FEDBUFF, {"concurrency": "3"}, "concurrency must be an integer >= 1, got '3'"),
    (IN_FIELD, {"weight_levels": "8"}, "weight_levels must be an integer >= 1, got '8'"),
    (IN_FIELD, {"weight_levels": 0}, "weight_levels must be an integer >= 1, got 0"),
    (channels.estimated, {"fading": channels.rayleigh, "pilot_energy": 9.0}, "fading must be a Fading, such as"),
    (channels.outage, {"fixed_rate": 600}, r"fixed_rate must be a number in \(0, 32\], got 600"),
    (channels.outage, {"fixed_rate": np.float64(600)}, r"fixed_rate must be a number in \(0, 32\]"),
    (DIGITAL, {"fixed_rate": 600}, r"fixed_rate must be a number in \(0, 32\], got 600"),
    *[(DIGITAL, {"num_params": value}, "num_params must be an integer >= 1") for value in ("1", np.nan, None, -1)],
    *[(VOTE, {"num_clients": value}, "num_clients must be an integer >= 1") for value in (2.5, "6", True)],
    *[(part, {"local": clients.fedsgd}, "local must be a Local, .* got fedsgd, which may") for part in BY_LOCAL],
    *[(part, {"local": None}, "local must be a Local, such as clients.local_sgd.*, got NoneType") for part in BY_LOCAL],
    *[(of("fedavg"), {"observe": bad}, "observe must be a function of 1 argument") for bad in ("", 0, jnp.dot)],
    (FEDREP, {"k": 78}, r"k must be at most num_clients \* num_params = 72, got 78"),
    (functools.partial(COMPOSE, compress="conspar"), {"k": 36}, r"k must be at most num_clients \* num_params = 30"),
    *[(started(part), {"snr_db": [1.0, 2.0]}, "snr_db must be a number, or one per client; shape") for part in ON_AIR],
    (of("dp_fedavg", num_clients=6), {"noise": "x"}, "noise must be a ServerNoise, such as server_noise.independent"),
    *[(DISTRIBUTED, {"bits": value}, "bits must be an integer >= 2, got") for value in (None, [1], 1)],
    (DISTRIBUTED, {"noise": [1]}, "noise must be one of 'discrete_gaussian', 'skellam', got"),
    (DISTRIBUTED, {"growth": "n"}, "growth must be one of 'linear', 'sqrt', got 'n'"),
    *[(ROBAJOL, {"num_params": value}, "num_params must be an integer >= 1") for value in (None, np.nan)],
    (SPARSE, {"sparsifier": [1]}, "sparsifier must be one of 'rand_k', 'top_k', got"),
    (SPARSE, {"num_clients": "6", "cohort_size": 2}, "num_clients must be an integer >= 1, got '6'"),
    (channels.gains_from_file, {"path": None}, "path must be the path of a .npy or .npz file, got None"),
    (of("wireless"), {"power_control": "x"}, "power_control must be one of 'gradient', 'bound', 'signal', got 'x'"),
    *[(part, {"power_control": how}, f"power_control must not be given without snr_db, got '{how}'")
      for part in (ON_AIR[0], ON_AIR[2]) for how in ("bound", "signal")],
    (traced(of("dp_fedavg", num_clients=6)), {"clip_rate": 0.2}, "clip_rate must not be given without clip_quantile"),
    (of("sparse_secagg", num_clients=6), {"alpha": 1e-60}, "alpha must be a number that float32 holds"),
    *[(of("wireless", noise_drawn=drawn), {"noise_variance": bad}, "noise_variance must be a finite number >= 0, got")
      for drawn in ("by client", "as one") for bad in (-1.0, "x", None, np.nan)],
    *[(functools.partial(ON_AIR[1], snr_db=9.0), {"noise_variance": bad}, "noise_variance must be a finite number >= 0")
      for bad in ("x", None)],
    (ON_AIR[1], {"fading": channels.rayleigh_antennas()._replace(anew="no")}, "anew must be one of True, False, got"),
    *[(part, {"noise_variance": []}, "noise_variance must be a number or an array of numbers") for part in ON_AIR[:2]],
    (functools.partial(clients.at_levels, clients.everyone()), {"levels": 0.6}, "levels must be a Levels, such as"),
    (
        functools.partial(clients.at_levels, clients.everyone()),
        {"levels": layers.within_budget(0.6, budget=1.0)._replace(of_each="no")},
        "of_each must be one of True, False, got 'no'",
    ),
    (functools.partial(attacks.on_sparse, attacks.foe()), {"num_params": np.nan}, "num_params must be an integer >= 1"),
    *[(part, {"clip": -1}, "clip must be a finite number > 0, got -1") for part in CLIPPED],
    *[(part, {"cohort_size": bad}, "cohort_size must be an integer >= [12]") for part in COHORTS for bad in (0, "1")],
]  # fmt: skip


@pytest.mark.parametrize(("part", "given", "said"), CASES, ids=range(len(CASES)))
def test_an_argument_is_refused_by_the_name_that_the_caller_knows(part, given, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        part(**given)


def test_the_least_number_of_levels_that_a_message_names_is_enough():
    SECURE_FEDBUFF(staleness_power=2.0, weight_levels=196)
    WEIGHED(power=4.8, levels=2**16)


@pytest.mark.parametrize(
    ("part", "name"), [(DISTRIBUTED, "num_params"), (SPARSE, "num_params"), (FEDREP, "num_params")]
)
def test_integers_of_numpy_are_integers(part, name):
    part(**{name: np.int64(12)})


@pytest.mark.parametrize("num_params", [4, 999])
@pytest.mark.parametrize(
    "part",
    [
        DIGITAL,
        functools.partial(DIGITAL, k=2),
        functools.partial(COMPOSE, compress="jl", k=2),
        functools.partial(ROBAJOL, k=2),
        functools.partial(ROBAJOL, k=2, noise="before"),
        of("one_shot_secagg", num_clients=6),
        of("one_shot_secagg", num_clients=6, elide=True),
        of("lightsecagg", num_clients=6),
        of("thresholded_secagg", num_clients=6, alpha=0.5),
        of("thresholded_secagg", num_clients=6, alpha=0.5, select="pairs"),
        SECURE_FEDBUFF,
        functools.partial(SECURE_FEDBUFF, masks="one_shot", coins=1),
    ],
)
def test_a_number_of_parameters_that_is_not_the_models_is_refused(part, num_params):
    one, data, key = part(num_params=num_params, mesh=None), targets(6, 5), jax.random.key(0)
    state = jax.eval_shape(one.init, key, jnp.zeros(5), data)
    with pytest.raises(ValueError, match=f"^num_params must be the size of an update, 5, got {num_params}"):
        jax.eval_shape(one.step, key, state, data)


SUMMED, OPENED = {"secure": "secagg"}, {"secure": "thresholded", "compress": "rand_k", "k": 2}
OVER_THE_AIR = {"channel": "multiple_access", "clip": 1.0}
ARRAYS = [
    *[(name, usual) for name in ("alpha", "num_params") for usual in ({}, SUMMED, OPENED, OVER_THE_AIR)],
    *[(name, usual) for name in ("leave", "neighbours", "threshold", "prg") for usual in (SUMMED, {})],
    *[(name, usual) for name in ("committee", "quorum") for usual in (OPENED, SUMMED)],
    *[(name, usual) for name in ("receiver_noise", "power_control", "known_count") for usual in (OVER_THE_AIR, {})],
    *[(name, SUMMED | {"num_byzantine": 1}) for name in ("attack", "field_attack")],
    ("elide", SUMMED), ("snr_db", {}), ("cohort", {}), ("cohort", OVER_THE_AIR),
]  # fmt: skip


@pytest.mark.parametrize(("name", "usual"), ARRAYS, ids=range(len(ARRAYS)))
def test_an_array_in_the_place_of_one_value_is_refused_by_name(name, usual):
    with pytest.raises(ValueError, match=f"^{name} must "):
        COMPOSE(**usual, **{name: np.array([0.1, 0.2])})


@pytest.mark.parametrize("name", ["attack", "group_attack", "field_attack", "coordinate_attack"])
def test_an_array_in_the_place_of_an_attack_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"^{name} must be a function"):
        FEDREP(num_byzantine=1, **{name: np.array([0.1, 0.2])})


def test_a_rate_that_is_traced_and_out_of_range_loses_every_upload():
    who = cohort_of(2)
    arrivals = jax.jit(lambda rate: channels.outage(rate).transmit(jax.random.key(0), (), who)[1])
    assert arrivals(0.4).all() and not arrivals(600.0).any() and not arrivals(-1.0).any()


MAJORITY, RCGD = of("majority_vote", num_clients=6), of("rcgd_ef", num_clients=6, num_params=12)
ROBUST, F2ED = of("robust_fedavg", num_clients=6), of("f2ed", num_clients=6)
NOBODY = np.zeros(6, bool)
OF_NOBODY = [
    *[(part, "attack") for part in (MAJORITY, RCGD, ROBUST, ROBAJOL, SHARE, F2ED, FEDREP, COMPOSE)],
    *[(part, name) for name in ("group_attack", "field_attack") for part in (SHARE, F2ED, FEDREP)],
    (FEDREP, "coordinate_attack"),
    (functools.partial(ROBUST, byzantine=NOBODY, aggregate=trimmed_mean(2), num_byzantine=2), "attack"),
    (functools.partial(ROBUST, byzantine=NOBODY, cohort_size=4), "attack"),
]


@pytest.mark.parametrize(("part", "name"), OF_NOBODY, ids=range(len(OF_NOBODY)))
def test_an_attack_of_nobody_is_refused(part, name):
    attack = {"field_attack": attacks.random_elements, "coordinate_attack": attacks.same_set}.get(name, attacks.foe)()
    said = f"^num_byzantine must be at least 1 with {name}, got 0: an attack of nobody would look harmless$"
    with pytest.raises(ValueError, match=said):
        part(**{name: attack})
    part(**{name: None})


def test_a_mask_says_who_carries_an_attack_out():
    ROBUST(byzantine=np.arange(6) == 4, cohort_size=4, attack=attacks.foe())
