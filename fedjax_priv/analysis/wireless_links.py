"""Measures of the links of a wireless run, round by round."""

from typing import Literal

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.analysis.downlink import amplitudes_of
from fedjax_priv.analysis.on_air import block_of, energy_of, pilots_of
from fedjax_priv.runs.records.measured_names import described, variables_of

LIMITED = 1 - 1e-5
"""An amplitude below this is of a user that lacks power; between this and 1, the difference to 1 is rounding."""


def link_measures(
    run: xr.Dataset, *, receiver_noise: float | xr.DataArray, access: Literal["multiple", "orthogonal"]
) -> xr.Dataset:
    """Measures of each round of `systems.wireless`; other dimensions, such as axes of a sweep, stay.

    Args:
      run: result of `simulate` or `sweep`.
      receiver_noise: N0 of the run, above 0; if it is an axis of the sweep, an array along this axis.
      access: of the run.

    Returns:
      Dataset with these variables by round:

      - `participants`: R, the number of users that sent;
      - `limited`: the number of users that sent with an amplitude a_k below 1;
      - `alignment_error`: the mean of `|1 - a_k|` over participants. a_k is the received amplitude if the channel
        measures it: if users do not know their gains, or several antennas are combined. With unequal links of
        antennas, the mean of a_k is the user's weight and not 1;
      - `received_snr_db`: `10 log10(mean_k h_k^2 ||x_k||^2 / (d N0))` of a user, with true gains, at one antenna; with
        complex symbols, d is twice their number;
      - `energy`: the sum of `||x_k||^2`, in power x channel uses; and `channel_uses`. Both include pilots.

      Means are NaN in rounds in which nobody sent. All measures are NaN at points of a sweep that were not run or did
      not send over the air.

    Raises:
      ValueError: the run measured no amplitudes or gains, or an argument is outside its range.
    """
    _validate.each(_validate.positive, receiver_noise=receiver_noise)
    _validate.one_of(("multiple", "orthogonal"), access=access)
    measured = variables_of(run)
    if "amplitude" not in measured:
        raise ValueError("run must be a run of systems.wireless, which records amplitudes, got one without")
    d, sent = int(run.attrs["num_params"]), measured["amplitude"] > 0
    amplitude = measured.get("received_amplitude", measured["amplitude"])  # the same where gains are known
    uses_of_one = block_of(measured, d, sent).max(("round", "client"))
    senders = sent.sum("client")
    gain = amplitudes_of(measured, "run must be a run of systems.wireless")
    received = (gain**2 * measured["energy"]).where(sent).mean("client")
    with np.errstate(divide="ignore"):
        snr = 10 * np.log10(received / (uses_of_one * receiver_noise))
    turns, common = pilots_of(measured, sent)
    shared = d * senders if access == "orthogonal" else xr.zeros_like(senders) + uses_of_one
    uses = shared + turns.sum("client") + common.max("client")
    measures = {
        "participants": (senders, "users that sent", "1"),
        "limited": ((sent & (measured["amplitude"] < LIMITED)).sum("client"), "users limited by power", "1"),
        "alignment_error": (abs(1 - amplitude).where(sent).mean("client"), "error of the received amplitude", "1"),
        "received_snr_db": (snr, "received SNR of a user", "dB"),
        "energy": (energy_of(run).sum("client"), "energy of all users", "power x channel uses"),
        "channel_uses": (uses, "uses of the channel", "1"),
    }
    analog = measured["amplitude"].notnull().any("client")
    return described({name: (values.where(analog), *words) for name, (values, *words) in measures.items()})
