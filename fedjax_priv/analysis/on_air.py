"""What a run over the air takes, by client and round: uses of the channel, seconds and joules."""

from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.analysis.downlink import Broadcast, model_of
from fedjax_priv.runs.records.measured_names import described, variables_of

THERMAL_NOISE = 10**-20.4
"""Watts per hertz at 290 K, -174 dBm/Hz; a receiver adds its noise figure."""


class OnAir(NamedTuple):
    """What uploads over the air take: uses of a real baseband channel, of which a band of W hertz has 2 W in a second.

    Signals that add on the air share their uses, whoever sends, and if nobody does ("multiple"). Those of links that
    take turns add up over senders, analog or digital ones ("orthogonal"): the server does not wait for the slowest
    only. If each of r senders has its own band of W / r hertz, it does ("bands").

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
        """Of a round in which clients have so many uses, `[..., n]`; 0 of those that do not send.

        Pilots of their own take turns: their uses `[..., n]` add up over clients. Common ones are sent at once. `block`
        `[..., n]` has the uses that each client may add its signal on: they pass even if nobody sends.

        Raises:
          ValueError: `hertz` is not > 0, or `access` is none of these.
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
    """Uses of the channel by client, as measured; d of those that send analog; None where uploads are messages."""
    numbers = {name: values for name, values in dict(measured).items() if not _is_missing(values)}
    amplitude, uses = numbers.get("amplitude"), numbers.get("channel_uses")
    if amplitude is None:
        return uses
    analog = num_params * (amplitude > 0)
    if isinstance(amplitude, xr.DataArray):
        analog = analog.where(amplitude.notnull())
    return analog if uses is None else _or_else(uses, analog)


def block_of(measured: Any, num_params: int, like: Any) -> Any:
    """Uses on which signals add, whoever sends, of the shape of `like`; 0 of digital uploads.

    Where they are measured they are the most of any client in any round, and 0 if nobody ever sent.
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
    """Uses of the channel by client for pilots in turns and for common ones, of the shape of `like`; 0 without any."""
    numbers = dict(measured)
    turns, common = (_or_else(numbers.get(name, 0.0), 0.0) for name in ("pilot_uses", "common_pilot_uses"))
    return 0.0 * like + turns, 0.0 * like + common


def energy_of(run: xr.Dataset) -> xr.DataArray:
    """`||x||**2` by client, with that of pilots."""
    measured = variables_of(run)
    return measured["energy"] + _or_else(measured.get("pilot_energy", 0.0), 0.0)


def _is_missing(values: Any) -> bool:
    """Whether it is of a point of a sweep, and only others measured it."""
    return isinstance(values, xr.DataArray) and values.size > 0 and bool(values.isnull().all())


def _or_else(measured: Any, otherwise: Any) -> Any:
    """Something else at points of a sweep, or for clients, that measured nothing."""
    return measured.where(measured.notnull(), otherwise) if isinstance(measured, xr.DataArray) else measured


def present(run: xr.Dataset, like: xr.DataArray) -> xr.DataArray:
    """Which clients there are: of a sweep, a smaller cohort lacks some, and a point that was not run all of them.

    Where `run` does not say who they are, those that `like` has numbers of.
    """
    return run.get("client_id", like).notnull()


def taken(run: xr.Dataset, uses: xr.DataArray) -> tuple[np.ndarray, ...]:
    """The arguments of `OnAir.seconds`, `[..., round, client]`, from the uses measured; 0 where a client is absent."""
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
    """The uses of the channel, seconds and joules of a run over the air, by client and round.

    A use of the channel has noise of variance N0 in the run, and of energy `noise_density / 2` in the world, so a run's
    energy `||x||**2` is `||x||**2 noise_density / (2 N0)` joules, times the path loss.

    Args:
      run: of `systems.wireless`, a vote over the air or `systems.digital_fedavg`, as `simulate` or `sweep` returns it.
      air: the channel.
      receiver_noise: N0 of the run, > 0.
      noise_density: watts per hertz at the receiver, > 0, its noise figure included.
      path_loss_db: of a link of gain 1, in dB, in [-300, 300].
      downlink: by which the server sends the model; not counted if not given.

    Returns:
      `channel_uses`, `joules` `[..., round, client]`, with those of pilots; `air_seconds` `[..., round]`, once per
      round as `air` has it: signals that add take theirs in a round in which nobody sends, too. With `downlink`, the
      server's `downlink_uses`, `downlink_seconds` and `downlink_joules` `[..., round]`. NaN at points of a sweep that
      were not run or whose uploads are messages, and of clients that a smaller cohort lacks.

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
