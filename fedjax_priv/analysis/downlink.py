"""A digital downlink: the server broadcasts the model to a round's clients at the rate of the weakest link."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.runs.records.measured_names import variables_of

MODEL = ("model", "down")
"""Phase and direction of the message that is broadcast."""


class Broadcast(NamedTuple):
    """One coded message to all clients, at Shannon's rate of the weakest link: `log2(1 + min_k h_k^2 P / N0) / 2`.

    The rate is in bits per use of a real baseband channel. P is the power of the server; a client's downlink has the
    gain of its uplink. Several antennas share the power and send independent signals.

    Examples:
      >>> down = Broadcast(hertz=1e6, snr_db=10.0)
      >>> bits, gain = [3200, 3200, 0], [1.5**0.5, 2.0, 0.1]  # the third client is sent nothing
      >>> print(round(float(down.uses(bits, gain)), 3), round(float(down.seconds(bits, gain)), 6))
      1600.0 0.0008
    """

    hertz: float  # W
    snr_db: float = 10.0  # P / N0 per channel use, for a link of gain 1

    def uses(self, bits: ArrayLike, gain: ArrayLike) -> Any:
        """Channel uses of a round, `[...]`: those of the longest message to a client.

        Args:
          bits: of the message to each client, `[..., n]`; 0: the server sends this client nothing.
          gain: amplitudes h of the links, >= 0, `[..., n]`; NaN: unknown, and then the result is NaN.

        Raises:
          ValueError: `hertz` is not > 0, `snr_db` is not in [-300, 300], or a gain is below 0.
        """
        _validate.positive(hertz=self.hertz)
        _validate.decibels(snr_db=self.snr_db)
        bits, gain = np.asarray(bits, np.float64), np.asarray(gain, np.float64)
        if (gain < 0).any():
            raise ValueError(f"gain must be numbers >= 0, got {gain[gain < 0][0]}")
        longest, weakest = bits.max(-1), np.where(bits > 0, gain, np.inf).min(-1)
        rate = np.log1p(np.where(longest > 0, weakest, 1.0) ** 2 * self.snr) / (2 * np.log(2))
        with np.errstate(divide="ignore"):
            return longest / rate

    def seconds(self, bits: ArrayLike, gain: ArrayLike) -> Any:
        """Seconds of a round, `uses / (2 W)`; arguments and errors are those of `uses`."""
        return self.uses(bits, gain) / (2 * self.hertz)

    @property
    def snr(self) -> float:
        """P / N0."""
        return 10.0 ** (self.snr_db / 10)


def check_downlink(downlink: Broadcast | None) -> None:
    """ValueError unless it is a broadcast, or there is none."""
    if downlink is not None:
        _validate.part(Broadcast, "Broadcast(hertz=1e6)", downlink=downlink)


def amplitudes_of(measured: Any, needs: str = "downlink must be None") -> Any:
    """The amplitudes of the true gains, by client.

    Args:
      measured: measured numbers by name.
      needs: the beginning of the error message.

    Raises:
      ValueError: no gains were measured.
    """
    numbers = dict(measured)
    if "gain" not in numbers:
        raise ValueError(f"{needs}: no gains of links were measured, such as those of systems.wireless")
    if "coefficient_real" not in numbers:
        return numbers["gain"]
    return numbers["gain"] * np.hypot(numbers["coefficient_real"], numbers["coefficient_imaginary"])


def model_of(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Bits of the model (0 for an absent client) and gains of the links of a run, `[..., round, client]`.

    Raises:
      ValueError: no gains were measured.
    """
    last = lambda values: values.transpose(..., "round", "client").values
    return 8 * last(run.down_bytes.sel(phase=MODEL[0]).fillna(0)), last(amplitudes_of(variables_of(run)))
