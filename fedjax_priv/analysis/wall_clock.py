"""A model of the seconds that a round takes over the users' links, from exact message sizes and measured compute time.

A round is a sequence of steps: the users compute, then the messages of each phase go up or down. A step takes as long
as the slowest user whose upload counted needs; nobody waits for the others. A message of b bits takes
`latency + b / bandwidth`, and no message takes no time. Uploads over the air, analog or coded, do not use these links:
see `OnAir`. Nor does a model that is broadcast: see `Broadcast`. SparseSecAgg's figures assume 100 Mbit/s per user and
do not say which messages they count: `bandwidth=1e8, messages=[("upload", "up")]` leaves out the downlink, keys and
shares.

Computed on the host, in float64.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.analysis.downlink import MODEL, Broadcast, amplitudes_of, check_downlink, model_of
from fedjax_priv.analysis.on_air import OnAir, block_of, pilots_of, present, taken, uses_of
from fedjax_priv.base import RoundInfo
from fedjax_priv.runs.records.measured_names import variables_of

Message = tuple[str, str]
"""Phase of the round, and "up" or "down"."""


class Traffic(NamedTuple):
    """Bytes on a user's link, mean over the cohort."""

    up: float
    down: float


def round_seconds(
    info: RoundInfo,
    *,
    compute_seconds: ArrayLike,
    bandwidth: ArrayLike | None = None,
    latency: ArrayLike = 0.0,
    messages: Sequence[Message] | None = None,
    air: OnAir | None = None,
    downlink: Broadcast | None = None,
) -> float:
    """Seconds that a round takes.

    Args:
      info: of the round. If no upload counted, the round takes as long as the slowest user that sent or received
        anything needs.
      compute_seconds: measured compute time of a user, in seconds: one number, or one per client of the population.
      bandwidth: of a user's link, in bits per second: likewise. Not needed if no message goes over these links.
      latency: seconds that a message takes in addition to its bits: likewise.
      messages: the messages over the users' links that are counted, such as `("upload", "up")`; by default all.
      air: the channel of uploads over the air, counted once per round; needed if there are such uploads.
      downlink: how the server broadcasts the model. If not given, the model is a message over each user's link.

    Raises:
      ValueError: the round is asynchronous, so that its clock is the measured `virtual_time`; a number is out of its
        range, or there are too few numbers for the clients; a message is not in the round, or goes over the air or is
        broadcast; `air` is given without uploads over the air, or missing; `downlink` without measured gains; or
        messages over links without `bandwidth`.
    """
    bits = {
        (phase, way): np.asarray(link, np.float64)
        for phase, links in info.bits.items()
        for way, link in zip(("up", "down"), links, strict=True)
    }
    measured = {name: np.asarray(numbers) for name, numbers in info.measured.items()} if info.measured else {}
    _check_synchronous(measured, "info")
    awaited = _awaited(bits, np.asarray(info.counted))
    users = _Users(np.asarray(info.client), awaited, compute_seconds, bandwidth, latency)
    d = info.direction.size
    uses = _on_air(measured, d, air)
    waves = 0.0
    if uses is not None and air is not None:
        waves = air.seconds(uses, *pilots_of(measured, uses), block_of(measured, d, uses))
    if downlink is not None:
        waves += downlink.seconds(bits[MODEL], amplitudes_of(measured))
    return float(_seconds(users, _chosen(bits, messages, air, downlink)) + waves)


def run_seconds(
    result: xr.Dataset,
    *,
    compute_seconds: ArrayLike,
    bandwidth: ArrayLike | None = None,
    latency: ArrayLike = 0.0,
    messages: Sequence[Message] | None = None,
    air: OnAir | None = None,
    downlink: Broadcast | None = None,
) -> xr.DataArray:
    """Seconds of each round of `simulate` or `sweep`, `[..., round]`, float64; `cumsum("round")` is the time so far.

    NaN at points of a sweep that were not run. With `air`, also NaN at points whose uploads do not go over the air:
    select these points and call without `air`. Arguments and errors are those of `round_seconds`.
    """
    _check_synchronous(result, "result")
    last = lambda values: values.transpose(..., "round", "client")
    there = last(present(result, result.counted))
    bits = {
        (str(phase), way): 8 * last(result[f"{way}_bytes"].sel(phase=phase)).fillna(0).values
        for phase in result.phase.values
        for way in ("up", "down")
    }
    client, counted = last(result.client_id).fillna(0).values.astype(int), last(result.counted).values == 1
    users = _Users(client, _awaited(bits, counted), compute_seconds, bandwidth, latency)
    seconds = _seconds(users, _chosen(bits, messages, air, downlink))
    uses = _on_air(variables_of(result), int(result.attrs["num_params"]), air)
    if uses is not None and air is not None:
        seconds = seconds + air.seconds(*taken(result, uses))
    if downlink is not None:
        seconds = seconds + downlink.seconds(*model_of(result))
    ran = there.any("client")
    found = ran.copy(data=seconds).where(ran).rename("wall_clock")
    return found.assign_attrs(long_name="modelled time of the round", units="s")


def round_bytes(info: RoundInfo) -> dict[str, Traffic]:
    """Bytes of a round by phase: means over all places of the cohort.

    A lost user counts with the bytes it sent. A place that nobody took, as under Poisson sampling, counts as 0 bytes.

    Args:
      info: of the round, as `step` returns it.

    Returns:
      By phase of the protocol: bytes up and down, float.
    """
    return {
        phase: Traffic(*(np.mean(np.asarray(bits, np.float64)).item() / 8 for bits in link))
        for phase, link in info.bits.items()
    }


def run_bytes(result: xr.Dataset) -> xr.DataArray:
    """Bytes per round of `simulate` or `sweep` by phase, `[..., phase, way]`: means over rounds and places.

    Places of a cohort that nobody took count as in `round_bytes`.

    Args:
      result: of `simulate` or `sweep`.
    """
    ways = xr.concat([result.up_bytes, result.down_bytes], xr.Variable("way", ["up", "down"]))
    mean = ways.mean(("round", "client")).transpose(..., "phase", "way")
    return mean.rename("bytes").assign_attrs(long_name="mean bytes on a user's link in a round", units="B")


class _Users(NamedTuple):
    client: np.ndarray  # [..., n]
    awaited: np.ndarray  # [..., n]
    compute_seconds: ArrayLike
    bandwidth: ArrayLike | None
    latency: ArrayLike


def _check_synchronous(measured: Any, name: str) -> None:
    """Raises ValueError for an asynchronous run, whose rounds do not start together."""
    if "virtual_time" in measured:
        raise ValueError(f"{name} must be of rounds that start together, got an asynchronous run: see its virtual_time")


def _awaited(bits: Mapping[Message, np.ndarray], counted: np.ndarray) -> np.ndarray:
    """Clients whose upload counted; if no upload counted, all clients that sent or received a message."""
    reached = functools.reduce(np.logical_or, (size > 0 for size in bits.values()), counted)
    return reached & (counted | ~counted.any(-1, keepdims=True))


def _seconds(users: _Users, bits: Mapping[Message, np.ndarray]) -> np.ndarray:
    """Seconds of compute and of messages over links, `[...]`, from bits `[..., n]`."""
    of_links = 1.0 if users.bandwidth is None else users.bandwidth
    compute = _by_client(users.client, compute_seconds=users.compute_seconds)
    bandwidth, latency = _by_client(users.client, bandwidth=of_links), _by_client(users.client, latency=users.latency)
    _validate.non_negative(compute_seconds=_least(users.compute_seconds), latency=_least(users.latency))
    _validate.positive(bandwidth=_least(of_links))
    if users.bandwidth is None and (sent := [message for message, size in bits.items() if size.any()]):
        raise ValueError(f"bandwidth must be given for messages over the users' links, {sent}, got None")
    slowest = lambda seconds: np.where(users.awaited, seconds, 0).max(-1)
    total = slowest(compute)
    for size in bits.values():
        total = total + slowest(size / bandwidth + np.where(size > 0, latency, 0))
    return np.asarray(total)


def _on_air(measured: Any, num_params: int, air: OnAir | None) -> Any:
    """Channel uses by client; None if uploads do not go over the air.

    Raises:
      ValueError: there are uploads over the air but no `air`, or the other way round.
    """
    uses = uses_of(measured, num_params)
    if (uses is None) != (air is None):
        missing = "air must be given for uploads over the air, such as OnAir(hertz=1e6): they take no link of a user"
        raise ValueError(
            f"{missing}, got None" if air is None else f"air must be None without uploads over the air, got {air}"
        )
    return uses


def _least(value: ArrayLike) -> float:
    return np.min(np.asarray(value, np.float64)).item()


def _by_client(client: np.ndarray, **given: ArrayLike) -> np.ndarray:
    """One number per client of the cohort, from one number for all or one per client of the population."""
    ((name, value),) = given.items()
    value = np.asarray(value, np.float64)
    if value.ndim == 0:
        return np.broadcast_to(value, client.shape)
    if value.ndim > 1 or value.size <= client.max():
        raise ValueError(
            f"{name} must be a number, or one for each client, more than {int(client.max())}, "
            f"got numbers of shape {value.shape}"
        )
    return value[client]


def _chosen(
    bits: Mapping[Message, np.ndarray],
    messages: Sequence[Message] | None,
    air: OnAir | None,
    downlink: Broadcast | None,
) -> Mapping[Message, np.ndarray]:
    check_downlink(downlink)
    elsewhere = {("upload", "up"): "air, which carries it"} if air else {}
    elsewhere |= {MODEL: "downlink, which broadcasts it"} if downlink else {}
    if messages is None:
        return {message: size for message, size in bits.items() if message not in elsewhere}
    for message in messages:
        _validate.one_of(bits, messages=message)
        if message in elsewhere:
            raise ValueError(f"messages must not have {message} with {elsewhere[message]}, got {messages}")
    return {message: bits[message] for message in messages}
