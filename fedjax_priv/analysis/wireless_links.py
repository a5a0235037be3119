"""What a run over a wireless channel came to, round by round."""

from typing import Literal

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.analysis.downlink import amplitudes_of
from fedjax_priv.analysis.on_air import block_of, energy_of, pilots_of
from fedjax_priv.runs.records.measured_names import described, variables_of

LIMITED = 1 - 1e-5
"""Received amplitudes below this are those of users without the power to be heard in full; above it, of rounding."""


def link_measures(
    run: xr.Dataset, *, receiver_noise: float | xr.DataArray, access: Literal["multiple", "orthogonal"]
) -> xr.Dataset:
    """Measures of each round of `systems.wireless`; other dimensions, as those of a sweep, stay.

    Args:
      run: as `simulate` or `sweep` returns it.
      receiver_noise: N0 of the run, above 0; by point where it is an axis of the sweep.
      access: of the run.

    Returns:
      `participants` R; `limited`, those that send with an amplitude a_k below 1; `alignment_error`, the mean of `|1 -
      a_k|` over participants, of the amplitudes that are received, as the channel measured them if users do not know
      their gains or several antennas are combined, where the mean of a_k is 1 for links of equal power and else the
      user's weight, so that unequal weights are in it; `received_snr_db`, of a user, `10 log10(mean_k h_k^2 ||x_k||^2 /
      (d N0))` with the true gains, twice the complex uses for d where there are such, at one of several antennas;
      `energy`, the sum of `||x_k||^2`, in units of power and channel uses; and `channel_uses`, both with those of
      pilots. Means are NaN where nobody sent, and all measures at points of a sweep that were not run or whose uploads
      are messages.

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
