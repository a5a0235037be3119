import numpy as np
import pytest
import xarray as xr

from fedjax_priv.analysis import link_measures


def run_of(amplitude, gain, energy):
    each = ("round", "client")
    return xr.Dataset(
        {name: (each, np.array(rows)) for name, rows in dict(amplitude=amplitude, gain=gain, energy=energy).items()},
        attrs={"num_params": 10},
    )


RUN = run_of(
    [[1.0, 0.25, 0.0], [0.0, 0.0, 0.0]], [[2.0, 0.5, 9.0], [1.0, 1.0, 1.0]], [[5.0, 40.0, 0.0], [0.0, 0.0, 0.0]]
)


def test_measures_of_a_round_by_hand():
    first = link_measures(RUN, receiver_noise=0.5, access="multiple").isel(round=0)
    assert (int(first.participants), int(first.limited), int(first.channel_uses)) == (2, 1, 10)
    assert float(first.alignment_error) == 0.375 and float(first.energy) == 45
    assert float(first.received_snr_db) == pytest.approx(10 * np.log10((4 * 5 + 0.25 * 40) / 2 / 10 / 0.5))


def test_a_round_in_which_nobody_sent():
    second = link_measures(RUN, receiver_noise=1.0, access="orthogonal").isel(round=1)
    assert all(float(second[name]) == 0 for name in ("participants", "limited", "channel_uses", "energy"))
    assert np.isnan(second.alignment_error) and np.isnan(second.received_snr_db)
    assert int(link_measures(RUN, receiver_noise=1.0, access="orthogonal").channel_uses[0]) == 20


@pytest.mark.parametrize("known", [True, False])
def test_points_that_were_not_run_have_no_measures(known):
    """Else a mean over seeds counts them as rounds in which nobody sent."""
    none = xr.full_like(RUN, np.nan)
    sweep = xr.concat([RUN, none], "seed")
    sweep = sweep.assign(client_id=sweep.gain) if known else sweep
    found = link_measures(sweep, receiver_noise=1.0, access="multiple")
    assert all(found[name][1].isnull().all() for name in found)
    xr.testing.assert_equal(found.isel(seed=0), link_measures(RUN, receiver_noise=1.0, access="multiple"))
    assert found.participants.mean("seed").values.tolist() == [2.0, 0.0]


def test_a_client_that_a_smaller_cohort_lacks_is_left_out():
    smaller = RUN.where(xr.DataArray([True, True, False], dims="client"))
    found, whole = (link_measures(run, receiver_noise=1.0, access="multiple").isel(round=0) for run in (smaller, RUN))
    xr.testing.assert_equal(found, whole)  # the third client did not send in the first round


def test_bad_arguments():
    with pytest.raises(ValueError, match="run must be a run of systems.wireless"):
        link_measures(RUN.drop_vars("amplitude"), receiver_noise=1.0, access="multiple")
    with pytest.raises(ValueError, match="^run must be a run of systems.wireless: no gains of links were measured"):
        link_measures(RUN.drop_vars("gain"), receiver_noise=1.0, access="multiple")
    with pytest.raises(ValueError, match="receiver_noise must be a finite number > 0, got 0.0"):
        link_measures(RUN, receiver_noise=0.0, access="multiple")
