"""A digital downlink: its uses, seconds and joules against closed forms, and what is refused."""

from inspect import unwrap

import numpy as np
import pytest
import xarray as xr
from refusals import refused

from fedjax_priv.analysis import Broadcast, OnAir, air_resources, link_measures, run_seconds
from fedjax_priv.analysis.downlink import check_downlink
from fedjax_priv.analysis.on_air import THERMAL_NOISE

D, EACH = 10, ("round", "client")
GAIN = np.array([[2.0, 0.5, 0.1], [1.0, 3.0, 0.2]])
TAKES_PART = np.array([[1, 1, 0], [0, 0, 1]])
BITS = 32 * D * TAKES_PART
RATE = np.array([np.log2(1 + 0.25 * 100), np.log2(1 + 0.04 * 100)]) / 2  # of the weakest that takes part, at 20 dB


def run_of(measured, bits=BITS):
    """Two rounds of three clients; the third sends in the second one only."""
    down = np.zeros((2, 2, 3))
    down[0] = bits / 8
    up = np.zeros((2, 2, 3))
    up[1] = 5.0
    each = {name: (EACH, np.broadcast_to(np.asarray(value, float), (2, 3))) for name, value in measured.items()}
    return xr.Dataset(
        {
            **each, "counted": (EACH, TAKES_PART), "client_id": (EACH, np.tile([0.0, 1, 2], (2, 1))),
            "up_bytes": (("phase", *EACH), up), "down_bytes": (("phase", *EACH), down),
        },
        {"phase": ["model", "upload"], "round": [1, 2]}, {"num_params": D},
    )  # fmt: skip


ANALOG = {"amplitude": TAKES_PART, "gain": GAIN, "energy": 3.0 * TAKES_PART}
DIGITAL = {"channel_uses": 7.0 * TAKES_PART, "gain": GAIN, "energy": 3.0 * TAKES_PART}
DOWN = Broadcast(hertz=50.0, snr_db=20.0)


@pytest.mark.parametrize("measured", [ANALOG, DIGITAL])
def test_the_model_goes_at_the_rate_of_the_weakest_that_gets_it(measured):
    """Analog and digital uploads alike; a weaker one that takes no part slows nobody."""
    spent = air_resources(run_of(measured), OnAir(1e3), receiver_noise=0.5, path_loss_db=80.0, downlink=DOWN)
    np.testing.assert_allclose(spent.downlink_uses, 32 * D / RATE)
    np.testing.assert_allclose(spent.downlink_seconds, 32 * D / RATE / 100)
    np.testing.assert_allclose(spent.downlink_joules, 100 * THERMAL_NOISE / 2 * 1e8 * 32 * D / RATE)
    assert not {"downlink_uses", "downlink_seconds"} & {*air_resources(run_of(measured), OnAir(1e3))}
    own = run_seconds(run_of(measured), compute_seconds=0.0, air=OnAir(1e3), downlink=DOWN)
    np.testing.assert_allclose(own, spent.air_seconds + 32 * D / RATE / 100)


def test_a_broadcast_is_sent_once_and_messages_to_each_are_not():
    over_links = run_seconds(run_of(ANALOG), compute_seconds=1.0, bandwidth=64.0, air=OnAir(1e3))
    broadcast = run_seconds(run_of(ANALOG), compute_seconds=1.0, air=OnAir(1e3), downlink=DOWN)
    np.testing.assert_allclose(over_links - 1.0 - D / 2e3, 32 * D / 64)
    np.testing.assert_allclose(broadcast - 1.0 - D / 2e3, 32 * D / RATE / 100)
    keys = run_of(ANALOG).assign_coords(phase=["model", "keys"])  # an upload goes over the air
    both = run_seconds(keys, compute_seconds=0.0, bandwidth=8.0, messages=[("keys", "up")],
                       air=OnAir(1e3), downlink=DOWN)  # fmt: skip
    np.testing.assert_allclose(both, 5.0 + D / 2e3 + 32 * D / RATE / 100)


def test_true_gains_count_where_clients_know_others():
    turned = ANALOG | {"coefficient_real": 0.6, "coefficient_imaginary": 0.8}
    same = air_resources(run_of(turned), OnAir(1e3), downlink=DOWN)
    np.testing.assert_allclose(same.downlink_uses, 32 * D / RATE)
    half = ANALOG | {"coefficient_real": 0.0, "coefficient_imaginary": 0.5}
    slower = air_resources(run_of(half), OnAir(1e3), downlink=DOWN).downlink_uses[0]
    assert float(slower) == pytest.approx(32 * D / (np.log2(1 + 0.25 * 25) / 2))


def test_a_weak_link_is_slow_and_not_dead():
    assert Broadcast(1e6, -170.0).seconds([10.0], [1.0]) == pytest.approx(5e-6 / (1e-17 / np.log(4)), rel=1e-12)


def test_nobody_takes_no_time_and_a_dead_link_forever():
    assert DOWN.seconds([0, 0], [1.0, 0.0]) == 0
    assert DOWN.seconds([8, 0], [0.0, 1.0]) == np.inf
    assert DOWN.uses([320, 320], [1.0, 3.0]) == pytest.approx(320 / (np.log2(101) / 2))


@pytest.mark.parametrize("access", ["multiple", "orthogonal", "bands"])
def test_pilots_take_turns_and_a_common_one_is_sent_at_once(access):
    uses = np.array([[4.0, 0.0, 4.0]])
    air = OnAir(0.5, access)
    alone = air.seconds(uses)
    np.testing.assert_allclose(air.seconds(uses, np.full((1, 3), 2.0)) - alone, 6.0)
    np.testing.assert_allclose(air.seconds(uses, common_pilots=np.full((1, 3), 2.0)) - alone, 2.0)


def test_pilots_are_in_the_measures_of_links():
    own = ANALOG | {"pilot_uses": 2.0, "pilot_energy": 0.5}
    links = link_measures(run_of(own), receiver_noise=1.0, access="multiple")
    np.testing.assert_array_equal(links.channel_uses, [D + 6, D + 6])
    np.testing.assert_allclose(links.energy, [6 + 1.5, 3 + 1.5])
    common = ANALOG | {"common_pilot_uses": 2.0, "pilot_energy": 0.5}
    links = link_measures(run_of(common), receiver_noise=1.0, access="orthogonal")
    np.testing.assert_array_equal(links.channel_uses, [2 * D + 2, D + 2])


WITHOUT = {name: value for name, value in DIGITAL.items() if name != "gain"}


def test_a_gain_that_is_not_known_leaves_a_round_unknown():
    np.testing.assert_array_equal(np.isnan(DOWN.uses([[8, 8], [8, 0]], [[1.0, np.nan], [1.0, np.nan]])), [True, False])


test_bad_arguments = refused(
    (lambda: DOWN.uses([8, 8], [1.0, -1.0]), "gain must be numbers >= 0, got -1.0"),
    (lambda: Broadcast(0.0).uses([8], [1.0]), "hertz must be a finite number > 0, got 0.0"),
    (lambda: Broadcast(1.0, np.inf).uses([8], [1.0]), "snr_db must be a number of dB in"),
    (lambda: Broadcast(1e6, 4000.0).uses([8], [1.0]), r"snr_db must be a number of dB in \[-300, 300\], got 4000.0"),
    (
        lambda: air_resources(run_of(DIGITAL), OnAir(1e3), path_loss_db=1e4),
        r"path_loss_db must be a number of dB in \[-300, 300\], got 10000.0",
    ),
    (
        lambda: run_seconds(run_of(ANALOG), compute_seconds=0.0, air=OnAir(1.0)),
        r"bandwidth must be given for messages over the users' links, \[\('model', 'down'\)\], got None",
    ),
    (
        lambda: run_seconds(run_of(ANALOG), compute_seconds=0.0, bandwidth=1.0, downlink=DOWN),
        "air must be given for uploads over the air",
    ),
    (
        lambda: run_seconds(run_of(WITHOUT), compute_seconds=0.0, air=OnAir(1.0), downlink=DOWN),
        "downlink must be None: no gains of links were measured",
    ),
    (
        lambda: run_seconds(
            run_of(ANALOG), compute_seconds=0.0, messages=[("model", "down")], air=OnAir(1.0), downlink=DOWN
        ),
        r"messages must not have \('model', 'down'\) with downlink",
    ),
    (lambda: unwrap(check_downlink)(1), "downlink must be a Broadcast, such as .*, got int"),
    by=lambda make: make(),
)
