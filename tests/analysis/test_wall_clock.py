import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from refusals import refused

from fedjax_priv.aggregators import mean
from fedjax_priv.analysis import (
    Broadcast,
    air_resources,
    link_measures,
    round_bytes,
    round_seconds,
    run_bytes,
    run_seconds,
)
from fedjax_priv.analysis.on_air import OnAir
from fedjax_priv.base import Link, RoundInfo
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone, poisson, sample
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack, stateless
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import digital_fedavg, fedavg, fedbuff, wireless
from helpers import rounds_of, targets, towards_target

KEY = jax.random.key(0)


def a_round(counted, client=(0, 1, 2)):
    """Three users; the second has the longest messages."""
    link = lambda up, down: Link(jnp.asarray(up, jnp.uint32), jnp.asarray(down, jnp.uint32))
    bits = {
        "model": link([0, 0, 0], [800, 800, 800]),
        "share": link([40, 80, 40], [40, 80, 40]),
        "upload": link([300, 9000, 500], [0, 0, 0]),
    }
    zeros = jnp.zeros(3)
    return RoundInfo(
        direction=jnp.zeros(2), client=jnp.asarray(client), loss=zeros, trains=zeros == 0, bits=bits,
        counted=jnp.asarray(counted), group_status=jnp.zeros(1, jnp.int32), status=jnp.int32(0),
    )  # fmt: skip


ALL, WITHOUT_SECOND, NONE = [True, True, True], [True, False, True], [False, False, False]


@pytest.mark.parametrize(
    ("counted", "bits"), [(ALL, 800 + 80 + 80 + 9000), (WITHOUT_SECOND, 800 + 40 + 40 + 500), (NONE, 9960)]
)
def test_every_step_waits_for_the_slowest_whose_upload_counted(counted, bits):
    """Down, up, down, up: four messages one after the other; a round that failed waited for everybody."""
    seconds = round_seconds(a_round(counted), compute_seconds=2.0, bandwidth=100.0, latency=0.5)
    assert seconds == pytest.approx(2.0 + bits / 100 + 4 * 0.5, rel=1e-12)


def test_nobody_waits_for_places_that_nobody_took():
    """The third place, which would compute for 100 s, was sent nothing; alone it is a round of no time."""
    info = a_round(NONE)
    computing = {"compute_seconds": [1.0, 2.0, 100.0], "bandwidth": 100.0}
    only = lambda *took: info._replace(
        bits={phase: Link(*(way * jnp.array(took, jnp.uint32) for way in link)) for phase, link in info.bits.items()}
    )
    assert round_seconds(only(1, 1, 0), **computing) == pytest.approx(2.0 + 9960 / 100, rel=1e-12)
    assert round_seconds(only(0, 0, 0), **computing) == 0
    assert round_seconds(only(0, 0, 0)._replace(counted=jnp.array(ALL)), **computing) == 100
    assert round_seconds(info, **computing) == pytest.approx(100.0 + 9960 / 100, rel=1e-12)


def test_a_poisson_round_to_which_nobody_came_takes_no_time():
    data = targets(6, 9)
    rare = federated_round(
        cohort=poisson(0.1), local=towards_target(), layers=stack(send=plain()), channel=erasure(0.0),
        aggregate=mean(), mesh=None,
    )  # fmt: skip
    result = simulate(rare, KEY, jnp.zeros(9), data, rounds=12, progress=False)
    nobody = ~result.counted.any("client")
    assert 0 < nobody.sum() < 12
    seconds = run_seconds(result, compute_seconds=np.linspace(1, 2, 6), bandwidth=1e6)
    np.testing.assert_array_equal(seconds > 0, ~nobody)


def test_an_asynchronous_run_has_a_clock_of_its_own():
    system = fedbuff(towards_target(), num_clients=6, buffer_size=2, concurrency=3, mesh=None)
    result = simulate(system, KEY, jnp.zeros(9), targets(6, 9), rounds=2, progress=False)
    with pytest.raises(ValueError, match="result must be of rounds that start together, got an asynchronous run"):
        run_seconds(result, compute_seconds=1.0, bandwidth=1e6)
    info = a_round(ALL)._replace(measured={"virtual_time": jnp.ones(3)})
    with pytest.raises(ValueError, match="info must be of rounds that start together"):
        round_seconds(info, compute_seconds=1.0, bandwidth=1e6)


def test_users_differ_by_their_number_in_the_population():
    """Each step has a slowest user of its own."""
    info = a_round(WITHOUT_SECOND, client=(4, 0, 2))
    seconds = round_seconds(
        info, compute_seconds=[9.0, 9, 1, 9, 3], bandwidth=[1.0, 1, 50, 1, 100], latency=[9.0, 9, 0, 9, 1]
    )
    assert seconds == pytest.approx(3 + max(800 / 100 + 1, 800 / 50) + 2 * max(1.4, 0.8) + max(4, 10), rel=1e-12)


def test_only_the_messages_asked_for_take_time():
    info = a_round(WITHOUT_SECOND)
    upload = round_seconds(info, compute_seconds=0.25, bandwidth=100, messages=[("upload", "up")])
    assert upload == 0.25 + 5
    assert round_seconds(info, compute_seconds=0.25, bandwidth=100, messages=[]) == 0.25


def test_bytes_by_phase():
    traffic = round_bytes(a_round(WITHOUT_SECOND))
    assert traffic == {"model": (0, 100), "share": (160 / 24, 160 / 24), "upload": (9800 / 24, 0)}


def test_bits_that_float32_cannot_hold():
    info = a_round(ALL)
    big = info._replace(bits={"upload": Link(jnp.full(3, 2**32 - 1, jnp.uint32), jnp.zeros(3, jnp.uint32))})
    assert round_bytes(big)["upload"].up == (2**32 - 1) / 8
    assert round_seconds(big, compute_seconds=0, bandwidth=1) == 2**32 - 1


def system():
    """Six users, a quarter of them lost, who enrol with 40 bits times their number."""

    def advertise(key, state, cohort):
        up = 40 * cohort.client.astype(jnp.uint32)
        return (), (), {"share": Link(up, up + 8)}

    return federated_round(
        cohort=everyone(), local=towards_target(),
        layers=stack(keys=stateless()._replace(advertise=advertise), send=plain()),
        channel=erasure(0.25), aggregate=mean(), mesh=None,
    )  # fmt: skip


def test_a_run_is_its_rounds():
    data, rounds = targets(6, 9), 4
    how = {"compute_seconds": np.linspace(1, 2, 6), "bandwidth": np.linspace(900, 100, 6), "latency": 0.1}
    result = simulate(system(), KEY, jnp.zeros(9), data, rounds=rounds, progress=False)
    _, infos = rounds_of(system(), KEY, jnp.zeros(9), data, rounds)
    seconds, traffic = [], []
    for number in range(rounds):
        info = jax.tree.map(lambda rows, number=number: rows[number], infos)
        seconds.append(round_seconds(info, **how))
        traffic.append(round_bytes(info))
    modelled = run_seconds(result, **how)
    assert modelled.dims == ("round",) and modelled.dtype == np.float64 and modelled.units == "s"
    assert not result.counted.all() and len(set(seconds)) > 1
    np.testing.assert_allclose(modelled, seconds, rtol=1e-12)
    by_phase = run_bytes(result)
    assert by_phase.dims == ("phase", "way")
    for phase in by_phase.phase.values:
        mean = np.mean([one[phase] for one in traffic], axis=0)
        np.testing.assert_allclose(by_phase.sel(phase=phase, way=["up", "down"]), mean, rtol=1e-12)
    np.testing.assert_allclose(
        run_bytes(result).sel(phase="upload", way="up"), result.up_bytes.sel(phase="upload").mean()
    )


def test_a_sweep_is_its_runs():
    data, how = targets(6, 9), {"compute_seconds": np.arange(6.0), "bandwidth": 1e3, "messages": [("upload", "up")]}
    make = lambda dropout: fedavg(towards_target(), dropout=dropout, mesh=None)
    result = sweep(make, {"dropout": [0.0, 0.25]}, KEY, jnp.zeros(9), data, rounds=3, progress=False)
    seconds = run_seconds(result, **how)
    assert seconds.dims == ("dropout", "round")
    alone = simulate(make(0.25), KEY, jnp.zeros(9), data, rounds=3, progress=False)
    np.testing.assert_allclose(seconds.sel(dropout=0.25), run_seconds(alone, **how), rtol=1e-12)
    np.testing.assert_allclose(run_bytes(result).sel(dropout=0.25), run_bytes(alone), rtol=1e-12)


def of_two_sizes(make, rounds=6):
    """A sweep over two cohort sizes, and the run of the smaller size alone."""
    data = targets(6, 9)
    result = sweep(make, {"cohort_size": [2, 4]}, KEY, jnp.zeros(9), data, rounds=rounds, progress=False)
    assert np.isnan(result.client_id.values[0, :, 2:]).all()
    return result, simulate(make(2), KEY, jnp.zeros(9), data, rounds=rounds, progress=False)


def without_a_run(result):
    """As if the second point had not been run."""
    return result.where(result.cohort_size == 2)


def test_cohorts_of_several_sizes():
    """Clients that a smaller cohort lacks keep nobody waiting, in rounds without a counted upload, too."""
    result, alone = of_two_sizes(lambda cohort_size: fedavg(
        towards_target(), cohort_size=cohort_size, dropout=0.8, mesh=None
    ))  # fmt: skip
    counted = alone.counted.any("client").values
    assert counted.any() and not counted.all()
    how = {"compute_seconds": np.arange(6.0, 0, -1), "bandwidth": np.linspace(100, 900, 6), "latency": 0.1}
    seconds = run_seconds(result, **how)
    np.testing.assert_allclose(seconds[0], run_seconds(alone, **how), rtol=1e-12)
    half = run_seconds(without_a_run(result), **how)
    np.testing.assert_array_equal(half[0], seconds[0])
    assert np.isnan(half[1]).all()


@functools.cache
def digital_of_two_sizes():
    return of_two_sizes(lambda cohort_size: digital_fedavg(
        towards_target(), num_params=9, cohort=sample(cohort_size), mesh=None
    ), rounds=3)  # fmt: skip


@pytest.mark.parametrize("access", ["multiple", "orthogonal", "bands"])
def test_digital_cohorts_of_several_sizes(access):
    result, alone = digital_of_two_sizes()
    how = {"compute_seconds": 1.0, "air": OnAir(1e3, access), "downlink": Broadcast(1e3)}
    seconds, spent = run_seconds(result, **how), air_resources(result, how["air"], downlink=how["downlink"])
    np.testing.assert_allclose(seconds[0], run_seconds(alone, **how), rtol=1e-12)
    expected = air_resources(alone, how["air"], downlink=how["downlink"])
    for name in ("air_seconds", "downlink_seconds", "downlink_joules"):
        np.testing.assert_allclose(spent[name][0], expected[name], rtol=1e-12)
    for i in range(2):
        there = result.client_id[i].notnull().values
        np.testing.assert_array_equal(spent.channel_uses[i].notnull(), there)
    missing = without_a_run(result)
    half = air_resources(missing, how["air"], downlink=how["downlink"])
    assert np.isnan(run_seconds(missing, **how)[1]).all() and np.isfinite(half.air_seconds[0]).all()
    assert all(np.isnan(half[name][1]).all() for name in half)


def test_phases_that_only_some_runs_have():
    """What a run does not have takes no time of it."""
    make = lambda enrols: system() if enrols else fedavg(towards_target(), mesh=None)
    data, how = targets(6, 9), {"compute_seconds": 1.0, "bandwidth": 1e3}
    result = sweep(make, {"enrols": [False, True]}, KEY, jnp.zeros(9), data, rounds=2, progress=False)
    alone = simulate(make(False), KEY, jnp.zeros(9), data, rounds=2, progress=False)
    assert result.up_bytes.sel(phase="share", enrols="False").isnull().all()
    np.testing.assert_allclose(run_seconds(result, **how)[0], run_seconds(alone, **how), rtol=1e-12)


def test_the_papers_network():
    """32 bits of each of 165,000 parameters at 100 Mbit/s, uploads alone: 52.8 ms beside the computing."""
    upload = Link(jnp.full(3, 32 * 165_000, jnp.uint32), jnp.zeros(3, jnp.uint32))
    info = a_round(ALL)._replace(bits={"upload": upload})
    seconds = round_seconds(info, compute_seconds=1.0, bandwidth=1e8, messages=[("upload", "up")])
    assert seconds == pytest.approx(1.0528, rel=1e-12)


test_bad_arguments = refused(
    ({"bandwidth": 0}, "bandwidth must be a finite number > 0, got 0.0"),
    ({"bandwidth": [1.0, 1.0, -1.0]}, "bandwidth must be a finite number > 0, got -1.0"),
    ({"bandwidth": [1.0, np.nan, 1.0]}, "bandwidth must be a finite number > 0, got nan"),
    ({"latency": -1.0}, "latency must be a finite number >= 0, got -1.0"),
    ({"compute_seconds": np.nan}, "compute_seconds must be a finite number >= 0, got nan"),
    (
        {"bandwidth": [1.0, 1.0]},
        r"bandwidth must be a number, or one for each client, more than 2, got numbers of shape \(2,\)",
    ),
    ({"compute_seconds": []}, r"compute_seconds must be a number, or one for each client, more than 2, got .* \(0,\)"),
    (
        {"latency": np.zeros((3, 1))},
        r"latency must be a number, or one for each client, .* got .* \(3, 1\)",
    ),
    ({"messages": [("uplink", "up")]}, r"messages must be one of \('model', 'up'\), .*, got \('uplink', 'up'\)"),
    by=lambda change: round_seconds(a_round(ALL), **{"compute_seconds": 1.0, "bandwidth": 1.0} | change),
    pattern="^{}$",
)


def one_round(system, data):
    return jax.jit(lambda: system.step(KEY, system.init(KEY, jnp.zeros(9), data), data))()


@pytest.mark.parametrize("access", ["multiple", "orthogonal"])
def test_analog_uploads_take_the_time_of_their_uses_of_the_channel(access):
    """Superposed, as much whoever sends; orthogonal, in turns."""
    data, d, air = targets(6, 9), 9, OnAir(hertz=50.0, access=access)
    system = wireless(
        towards_target(), clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, participation=0.5, mesh=None,
        access="orthogonal" if access == "orthogonal" else "multiple",
    )  # fmt: skip
    run = simulate(system, KEY, jnp.zeros(d), data, rounds=5, progress=False)
    seconds = run_seconds(run, compute_seconds=1.0, bandwidth=1e3, air=air)
    senders = (run.amplitude > 0).sum("client").values
    assert len(set(senders)) > 1 and senders.min() > 0
    model = 32 * d / 1e3
    turns = senders if access == "orthogonal" else 1
    np.testing.assert_allclose(seconds, 1.0 + model + turns * d / (2 * 50.0), rtol=1e-12)
    _, info = one_round(system, data)
    assert round_seconds(info, compute_seconds=1.0, bandwidth=1e3, air=air) == pytest.approx(float(seconds[0]))
    with pytest.raises(ValueError, match=r"^air must be given for uploads over the air, such as OnAir\(hertz=1e6\)"):
        run_seconds(run, compute_seconds=1.0, bandwidth=1e3)


@pytest.mark.parametrize(("access", "each"), [("multiple", 1), ("orthogonal", 0)])
def test_a_round_in_which_nobody_sends(access, each):
    """Superposed, the server waits for the block of d uses, whoever sends; where senders take turns, for nobody."""
    data, d = targets(6, 9), 9
    one = wireless(towards_target(), participation=lambda round: 0.0, access=access, mesh=None)
    run, air = simulate(one, KEY, jnp.zeros(d), data, rounds=2, progress=False), OnAir(50.0, access)
    expected = np.full(2, each * d / (2 * 50.0))
    np.testing.assert_allclose(air_resources(run, air).air_seconds, expected)
    links = link_measures(run, receiver_noise=1.0, access=access)
    assert (links.participants == 0).all()
    np.testing.assert_allclose(links.channel_uses / (2 * 50.0), expected)
    how = {"compute_seconds": 0.0, "bandwidth": 1e3, "messages": [], "air": air}
    np.testing.assert_allclose(run_seconds(run, **how), expected)
    _, info = one_round(one, data)
    assert round_seconds(info, **how) == pytest.approx(expected[0])


def test_a_block_is_as_long_as_in_rounds_in_which_somebody_sends():
    """Of symbols of a form that only their senders measure, and of digital uploads: there nobody waits for nothing."""
    each = ("round", "client")
    uses = {"channel_uses": (each, [[18.0, 0.0], [0.0, 0.0]]), "energy": (each, np.zeros((2, 2)))}
    digital = xr.Dataset(uses, attrs={"num_params": 9})
    analog = digital.assign(amplitude=digital.channel_uses > 0)
    assert air_resources(analog, OnAir(1.0)).air_seconds.values.tolist() == [9, 9]
    assert air_resources(digital, OnAir(1.0)).air_seconds.values.tolist() == [9, 0]
    for access in ("multiple", "orthogonal", "bands"):
        assert OnAir(1e3, access).seconds(np.zeros(3)) == 0


def test_coded_uploads_are_on_the_air_and_on_no_link():
    one = digital_fedavg(towards_target(), num_params=9, mesh=None)
    data, how = targets(6, 9), {"compute_seconds": 0.0, "bandwidth": 100.0, "air": OnAir(1e3)}
    run = simulate(one, KEY, jnp.zeros(9), data, rounds=2, progress=False)
    model = run_seconds(run, messages=[("model", "down")], **how)
    np.testing.assert_allclose(run_seconds(run, **how), model)
    assert (run_seconds(run, messages=[], **how) < model).all()
    for messages in ([("upload", "up")], [("model", "down"), ("upload", "up")]):
        with pytest.raises(
            ValueError, match=r"^messages must not have \('upload', 'up'\) with air, which carries it, got"
        ):
            run_seconds(run, messages=messages, **how)


def test_air_is_for_analog_uploads():
    with pytest.raises(ValueError, match="^air must be None without uploads over the air"):
        round_seconds(a_round(ALL), compute_seconds=0, bandwidth=1, air=OnAir(1.0))
    with pytest.raises(ValueError, match="^hertz must be"):
        OnAir(0.0).seconds([3])
    with pytest.raises(ValueError, match="^access must be"):
        OnAir(1.0, "frequency").seconds([3])
