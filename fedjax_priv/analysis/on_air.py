"""Channel uses, seconds and joules of a run over the air, by client and round."""

from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.analysis.downlink import Broadcast, check_downlink, model_of
from fedjax_priv.runs.records.measured_names import described, variables_of

THERMAL_NOISE = 10**-20.4
"""Density of thermal noise in watts per hertz at 290 K, -174 dBm/Hz; multiply it by the receiver's noise figure."""


class OnAir(NamedTuple):
    """The channel of uploads over the air: a band of W hertz has 2 W uses of a real baseband channel per second.

    "multiple": signals add up on the air and share the same uses, which pass even if nobody sends. "orthogonal":
    senders, analog or digital, take turns, so their uses add up. "bands": each of r senders has a band of W / r hertz,
    and the server waits for the slowest.

    Examples:
      >>> sixty = np.full(60, 7850)  # uses of each sender
      >>> round(float(OnAir(hertz=1e6).seconds(sixty)), 6), round(float(OnAir(1e6, "orthogonal").seconds(sixty)), 4)
      (0.003925, 0.2355)
    """

    hertz: float  # W
    access: Literal["multiple", "orthogonal", "bands"] = "multiple"

    def seconds(
        self, uses: ArrayLike, pilots: ArrayLike = 0.0, common_pilots: ArrayLike = 0.0, block: ArrayLike = 0.0
    ) -> Any:
        """Seconds of a round, `[...]`.

        Args:
          uses: channel uses of each client's upload, `[..., n]`; 0 for clients that do not send.
          pilots: uses of each client's pilots `[..., n]`, sent in turns: they add up over clients.
          common_pilots: uses of pilots `[..., n]` that all clients send at once.
          block: uses `[..., n]` in which signals may add up; they pass even if nobody sends.

        Raises:
          ValueError: `hertz` is not > 0, or `access` is none of the three.
        """
        _validate.positive(hertz=self.hertz)
        _validate.one_of(("multiple", "orthogonal", "bands"), access=self.access)
        by_client = np.asarray(uses, np.float64)
        longest = by_client.max(-1)
        shared = {
            "multiple": np.maximum(longest, np.max(block, -1)),
            "orthogonal": by_client.sum(-1),
            "bands": longest * (by_client > 0).sum(-1),
        }[self.access]
        return (shared + np.sum(pilots, -1) + np.max(common_pilots, -1)) / (2 * self.hertz)


def uses_of(measured: Any, num_params: int) -> Any:
    """Channel uses by client: as measured, or d for analog senders; None if uploads do not go over the air."""
    numbers = {name: values for name, values in dict(measured).items() if not _is_missing(values)}
    amplitude, uses = numbers.get("amplitude"), numbers.get("channel_uses")
    if amplitude is None:
        return uses
    analog = num_params * (amplitude > 0)
    if isinstance(amplitude, xr.DataArray):
        analog = analog.where(amplitude.notnull())
    return analog if uses is None else _or_else(uses, analog)


def block_of(measured: Any, num_params: int, like: Any) -> Any:
    """Channel uses in which signals may add up, even if nobody sends, in the shape of `like`; 0 for digital uploads.

    If uses are measured, this is the largest number of any client in any round.
    """
    numbers = dict(measured)
    if "amplitude" not in numbers:
        return 0.0 * like
    amplitude, uses = numbers["amplitude"], numbers.get("channel_uses", np.float64(num_params))
    if not isinstance(amplitude, xr.DataArray):
        return 0.0 * like + np.max(uses)
    run = ("round", "client")
    most = _or_else(uses.max(run), num_params) if isinstance(uses, xr.DataArray) else uses
    return 0.0 * like + most * amplitude.notnull().any(run)


def pilots_of(measured: Any, like: Any) -> tuple[Any, Any]:
    """Channel uses by client for pilots in turns and for common pilots, in the shape of `like`; 0 without pilots."""
    numbers = dict(measured)
    turns, common = (_or_else(numbers.get(name, 0.0), 0.0) for name in ("pilot_uses", "common_pilot_uses"))
    return 0.0 * like + turns, 0.0 * like + common


def energy_of(run: xr.Dataset) -> xr.DataArray:
    """The energy `||x||**2` by client, pilots included."""
    measured = variables_of(run)
    return measured["energy"] + _or_else(measured.get("pilot_energy", 0.0), 0.0)


def _is_missing(values: Any) -> bool:
    """Whether these are the values of a point of a sweep that did not measure them."""
    return isinstance(values, xr.DataArray) and values.size > 0 and bool(values.isnull().all())


def _or_else(measured: Any, otherwise: Any) -> Any:
    """`measured`, or `otherwise` at points of a sweep, or for clients, that measured nothing."""
    return measured.where(measured.notnull(), otherwise) if isinstance(measured, xr.DataArray) else measured


def present(run: xr.Dataset, like: xr.DataArray) -> xr.DataArray:
    """Which clients there are. In a sweep, smaller cohorts lack some clients, and points that were not run lack all.

    If `run` has no `client_id`, these are the clients for which `like` has numbers.
    """
    return run.get("client_id", like).notnull()


def taken(run: xr.Dataset, uses: xr.DataArray) -> tuple[np.ndarray, ...]:
    """The arguments of `OnAir.seconds`, `[..., round, client]`, from measured uses; 0 for absent clients."""
    here = uses.where(present(run, uses), 0)
    measured = variables_of(run)
    pilots = pilots_of(measured, here)
    block = block_of(measured, int(run.attrs["num_params"]), here)
    return tuple(each.transpose(..., "round", "client").values for each in (here, *pilots, block))


def air_resources(
    run: xr.Dataset,
    air: OnAir,
    *,
    receiver_noise: float = 1.0,
    noise_density: float = THERMAL_NOISE,
    path_loss_db: float = 0.0,
    downlink: Broadcast | None = None,
) -> xr.Dataset:
    """Channel uses, seconds and joules of a run over the air, by client and round.

    Noise of one channel use has variance N0 in the run and energy `noise_density / 2` in the physical channel. So an
    energy `||x||**2` in the run is `||x||**2 noise_density / (2 N0)` joules, times the path loss.

    Args:
      run: result of `simulate` or `sweep` with `systems.wireless`, a vote over the air or `systems.digital_fedavg`.
      air: the channel.
      receiver_noise: N0 of the run, > 0.
      noise_density: watts per hertz at the receiver, noise figure included, > 0.
      path_loss_db: of a link of gain 1, in dB, in [-300, 300].
      downlink: how the server broadcasts the model; if not given, the downlink is not counted.

    Returns:
      `channel_uses`, `joules` `[..., round, client]`, pilots included, and `air_seconds` `[..., round]`: if signals add
      up on the air, a round takes its time even if nobody sends. With `downlink`, also the server's `downlink_uses`,
      `downlink_seconds` and `downlink_joules` `[..., round]`. NaN at points of a sweep that were not run or did not
      send over the air, and for clients that a smaller cohort lacks.

    Raises:
      ValueError: nothing was sent over the air in the run, or a number is out of its range.

    Examples:
      >>> import xarray as xr
      >>> ones = ("round", "client"), np.ones((1, 60))
      >>> run = xr.Dataset({"amplitude": ones, "energy": ones}, attrs={"num_params": 7850})
      >>> spent = air_resources(run, OnAir(1e6))
      >>> print(spent.air_seconds.item(), spent.channel_uses.sum().item())
      0.003925 471000.0
    """
    _validate.positive(receiver_noise=receiver_noise, noise_density=noise_density)
    _validate.decibels(path_loss_db=path_loss_db)
    check_downlink(downlink)
    uses = uses_of(variables_of(run), int(run.attrs["num_params"]))
    if uses is None:
        raise ValueError("run must be one over the air, which measures amplitudes or channel uses, got one without")
    uses = uses.transpose(..., "round", "client").astype(np.float64)
    there = present(run, uses).transpose(*uses.dims)
    ran, of_all = there.any("client"), taken(run, uses)
    data, turns, common, _ = of_all
    of_one = noise_density / 2 * 10 ** (path_loss_db / 10)
    joules = energy_of(run) * (of_one / receiver_noise)
    by_round = lambda numbers: ran.copy(data=numbers).where(ran)
    said = {
        "channel_uses": (uses.copy(data=data + turns + common).where(there), "real uses of the channel", "1"),
        "joules": (joules.transpose(..., "round", "client"), "energy sent", "J"),
        "air_seconds": (by_round(air.seconds(*of_all)), "time on the air", "s"),
    }
    if downlink is not None:
        down = by_round(downlink.uses(*model_of(run)))
        said |= {
            "downlink_uses": (down, "real uses of the channel by the server", "1"),
            "downlink_seconds": (down / (2 * downlink.hertz), "time of the broadcast", "s"),
            "downlink_joules": (down * (downlink.snr * of_one), "energy sent by the server", "J"),
        }
    return described(said)
