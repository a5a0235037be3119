"""Gives the trials of an audit the channel gains of the run that a privacy figure is about."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fedjax_priv.base import Release
from fedjax_priv.channels import AntennaFading, Fading, recorded, recorded_antennas
from fedjax_priv.ledger import Entry, Figure, blind_uploads
from fedjax_priv.systems.releases import BlindUploads, OverTheAir, Vote


def gains_of_run(release: Release, run: xr.Dataset) -> dict[str, Any]:
    """The argument `fading` that gives a system over the air the gains of a run.

    Gains are public, and most figures over the air hold at the gains of the run. Trials with other gains bound another
    eps: if it is larger, they contradict a true figure; if it is smaller, they let a false figure stand.

    Args:
      release: of the system.
      run: result of `simulate`; clients know their gains, or the server has many antennas.

    Returns:
      `{"fading": ...}`; with fewer clients, as when colluders are left out, they have the first gains. Empty if the
      figure depends on no gains: nothing is sent over the air, or the ledger averages over the law of the gains.

    Raises:
      ValueError: clients estimate their gains; trials cannot be given such gains.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.softmax_regression((3,), 2))
      >>> make = lambda **how: fedjax_priv.systems.wireless(fedjax_priv.clients.fedsgd(loss), **how)
      >>> data = fedjax_priv.ClientData((jnp.ones((2, 1, 3)), jnp.zeros((2, 1), jnp.int32)), jnp.ones(2, jnp.int32))
      >>> params = fedjax_priv.models.softmax_regression((3,), 2).init(jax.random.key(0))
      >>> run = fedjax_priv.simulate(make(), jax.random.key(0), params, data, rounds=1, progress=False)
      >>> there = make(**gains_of_run(make().release, run))
      >>> other = fedjax_priv.simulate(there, jax.random.key(1), params, data, rounds=1, progress=False)
      >>> print(bool((run.gain == other.gain).all()))
      True
    """
    if isinstance(release, BlindUploads):
        averaged = blind_uploads.is_averaged(release)
        return {} if averaged else {"fading": _of_antennas(blind_uploads.gains(release, run), release)}
    if not isinstance(release, OverTheAir | Vote):
        return {}
    if isinstance(release, OverTheAir) and release.knowledge is not None:
        raise ValueError("release must be of known gains: the gains that clients estimated cannot be given to trials")
    gains = run.gain.transpose("round", "client").values
    of_first = lambda key, state, round, n: recorded(gains[:, :n]).apply(key, state, round, n)
    return {"fading": Fading(lambda key, n: (), of_first)}


def _of_antennas(gains: np.ndarray, release: BlindUploads) -> AntennaFading:
    """Fading with these gains; its mean power is the one that the system assumes, not the mean of these gains."""
    of_first = lambda key, state, round, n, antennas: recorded_antennas(gains[:, :n]).apply(
        key, state, round, n, antennas
    )
    return AntennaFading(lambda key, n, antennas: (), of_first, release.link_power)


def of_first_client(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries, but a figure with an eps per client keeps the eps of client 0, which has the canary."""
    own = lambda figure: figure._replace(epsilon=_first(figure))
    return [entry._replace(claimed=own(entry.claimed), proved=own(entry.proved)) for entry in entries]


def _first(figure: Figure) -> float | None:
    return None if figure.epsilon is None else float(np.ravel(figure.epsilon)[0])
