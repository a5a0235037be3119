"""Gains for the trials of an audit: those of the run that a privacy figure is about."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fedjax_priv.base import Release
from fedjax_priv.channels import AntennaFading, Fading, recorded, recorded_antennas
from fedjax_priv.ledger import Entry, Figure, blind_uploads
from fedjax_priv.systems.releases import BlindUploads, OverTheAir, Vote


def gains_of_run(release: Release, run: xr.Dataset) -> dict[str, Any]:
    """The argument `fading` with which a system over the air has the gains of a run.

    Gains are public, and most figures over the air are at those of the run. Trials with other gains bound another eps:
    a larger one contradicts a true figure, a smaller one lets a false figure stand.

    Args:
      release: of the system.
      run: result of `simulate`, of clients that know their gains or are heard by antennas.

    Returns:
      `{"fading": ...}`, which gives fewer clients, as where colluders are left out, the first gains. Empty where the
      figure is at no gains: nothing is sent over the air, or the ledger averages over their law.

    Raises:
      ValueError: clients estimate their gains, which the run does not have as a fading.

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
    """With the mean power that the system counts on, which is not that of these few gains."""
    of_first = lambda key, state, round, n, antennas: recorded_antennas(gains[:, :n]).apply(
        key, state, round, n, antennas
    )
    return AntennaFading(lambda key, n, antennas: (), of_first, release.link_power)


def of_first_client(entries: Sequence[Entry]) -> list[Entry]:
    """Entries whose figures, where each client has its own, are those of client 0, which has an audit's canary."""
    own = lambda figure: figure._replace(epsilon=_first(figure))
    return [entry._replace(claimed=own(entry.claimed), proved=own(entry.proved)) for entry in entries]


def _first(figure: Figure) -> float | None:
    return None if figure.epsilon is None else float(np.ravel(figure.epsilon)[0])
