"""What runs over the air take, where a sweep's points measure different things."""

import numpy as np
import pytest
import xarray as xr

from fedjax_priv.analysis import Broadcast, OnAir, air_resources, link_measures, run_seconds
from fedjax_priv.runs.grid import checked_grid, join

D, EACH = 50, ("round", "client")
LINKS = {"compute_seconds": 1.0, "bandwidth": 1e3}
SENT = np.array([[True, False, True], [False, False, False], [True, True, True]])
ANALOG = {"amplitude": SENT * 0.5, "energy": SENT * 7.0, "gain": SENT * 1.0}
POINTS = {
    "plain": ANALOG,
    "pilots": ANALOG | {"pilot_uses": SENT * 3.0, "common_pilot_uses": SENT * 2.0, "pilot_energy": SENT * 5.0},
    "symbols": ANALOG | {"channel_uses": SENT * 40.0},
    "digital": {"rate": SENT * 2.0, "energy": SENT * 9.0, "channel_uses": SENT * np.array([100.0, 200.0, 400.0])},
}


def run(measured, clients=3):
    """A run with so many of the clients."""
    variables = {name: (EACH, values[:, :clients]) for name, values in measured.items()}
    variables["client_id"] = EACH, np.tile(np.arange(clients), (len(SENT), 1))
    variables["counted"] = EACH, SENT[:, :clients]
    sent = 100.0 * SENT[:, None, :clients]
    variables |= {name: (("round", "phase", "client"), sent) for name in ("up_bytes", "down_bytes")}
    return xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": D})


@pytest.fixture(scope="module")
def mixed():
    """A sweep over what is sent and over the size of the cohort."""
    grid = checked_grid({"system": [*POINTS, "messages"], "clients": [2, 3]})
    runs = {(i, n - 2): run(measured, n) for i, measured in enumerate([*POINTS.values(), {}]) for n in (2, 3)}
    return join(runs, grid, {"num_params": D})


@pytest.mark.parametrize("access", ["multiple", "orthogonal", "bands"])
@pytest.mark.parametrize("clients", [2, 3])
@pytest.mark.parametrize("system", POINTS)
def test_a_point_of_a_sweep_takes_what_its_run_alone_takes(mixed, system, clients, access):
    air = OnAir(1e6, access)
    alone = air_resources(run(POINTS[system], clients), air)
    here = air_resources(mixed, air).sel(system=system, clients=clients)
    assert np.isfinite(alone.air_seconds).all() and alone.air_seconds[0] > 0
    for name, values in alone.items():
        kept = here[name].isel(client=slice(clients)) if "client" in values.dims else here[name]
        np.testing.assert_array_equal(kept, values)
    assert here.joules.isel(client=slice(clients, None)).isnull().all()
    how = LINKS | {"air": air}
    found = run_seconds(mixed, **how).sel(system=system, clients=clients)
    np.testing.assert_array_equal(found, run_seconds(run(POINTS[system], clients), **how))


@pytest.mark.parametrize("axis", ["energy", "amplitude", "gain", "channel_uses", "pilot_energy", "common_pilot_uses"])
def test_an_axis_may_have_the_name_of_what_is_measured(axis):
    runs = {(i,): run(POINTS["symbols"] | POINTS["pilots"] | {"channel_uses": SENT * (1.0 + i)}) for i in range(2)}
    other, same = (join(runs, checked_grid({name: [4.0, 8.0]}), {"num_params": D}) for name in ("other", axis))
    down = Broadcast(1e6)
    for read in (
        lambda result: air_resources(result.assign_coords(phase=["model"]), OnAir(1e6), downlink=down),
        lambda result: link_measures(result, receiver_noise=1.0, access="multiple"),
        lambda result: run_seconds(result, **LINKS, air=OnAir(1e6), messages=[]).to_dataset(),
    ):
        found, expected = read(same), read(other)
        expected = expected.rename({axis: f"measured_{axis}"} if axis in expected else {}).rename(other=axis)
        xr.testing.assert_identical(found, expected)
        xr.testing.assert_identical(read(same.sel({axis: 8.0})), expected.sel({axis: 8.0}))


def test_pilots_take_uses_and_energy():
    """Own ones one after the other, common ones at once."""
    spent = air_resources(run(POINTS["pilots"]), OnAir(1e6), noise_density=2.0)
    np.testing.assert_array_equal(spent.joules, SENT * (7.0 + 5.0))
    np.testing.assert_array_equal(spent.channel_uses, SENT * (D + 3.0 + 2.0))
    senders = SENT.sum(1)
    np.testing.assert_allclose(spent.air_seconds, (D + 3.0 * senders + 2.0 * (senders > 0)) / 2e6, rtol=1e-12)


@pytest.mark.parametrize("clients", [2, 3])
def test_a_point_whose_uploads_are_messages_takes_no_air(mixed, clients):
    point, air = mixed.sel(system="messages", clients=clients), OnAir(1e6)
    np.testing.assert_array_equal(run_seconds(point, **LINKS), run_seconds(run({}, clients), **LINKS))
    assert run_seconds(mixed, air=air, **LINKS).sel(system="messages").isnull().all()
    assert all(values.sel(system="messages").isnull().all() for values in air_resources(mixed, air).values())
    with pytest.raises(ValueError, match="air must be None without uploads over the air"):
        run_seconds(point, air=air, **LINKS)


def test_a_point_of_a_sweep_has_the_links_of_its_run_alone(mixed):
    analog = mixed.drop_sel(system=["digital", "messages"])
    for system in ("plain", "pilots", "symbols"):
        alone, here = (
            link_measures(each, receiver_noise=2.0, access="orthogonal") for each in (run(POINTS[system]), analog)
        )
        for name, values in alone.items():
            np.testing.assert_allclose(here[name].sel(system=system, clients=3), values, rtol=1e-12)
