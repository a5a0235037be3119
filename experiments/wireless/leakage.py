"""The leakage that the paper's tables print, from the participation that runs recorded."""

import numpy as np
import xarray as xr

from experiments.wireless.training import RECEIVER_NOISE, Setting
from fedjax_priv.theory import wireless as theory

DELTA_LOCAL = 1e-5
"""delta_l of the paper's experiments."""


def delta_prime(participation: np.ndarray) -> float:
    """The experiments' 2 exp(-2 m^2/K) + 1e-5, of the p_k `[K]` of a round."""
    return 2 * float(np.exp(-2 * participation.sum() ** 2 / participation.size)) + 1e-5


def of_round(participation: np.ndarray, clip: float, noise_variance: float) -> dict[str, float]:
    """What a round with participation p_k `[K]` leaks about the user it leaks most about.

    Returns:
      By name: `local`, eps_l as in the tables, with the receiver's noise, and `lemma`, Lemma 2 without it, both at
      `local_delta`; `central`, eq. 13, and `printed`, the weaker form in some tables, both at `central_delta`. All are
      NaN if delta' is 1 or more.
    """
    small = delta_prime(participation)
    names = ("local", "lemma", "local_delta", "central", "printed", "central_delta")
    if small >= 1:
        return dict.fromkeys(names, np.nan)
    given = theory.Round(participation.size, participation, clip, noise_variance), DELTA_LOCAL, small
    values = (
        theory.local_epsilon(given[0]._replace(receiver_noise=RECEIVER_NOISE), DELTA_LOCAL, small),
        theory.local_epsilon(*given),
        theory.local_delta(*given),
        theory.central_epsilon(*given),
        theory.central_epsilon_printed(*given),
        theory.central_delta(*given),
    )
    return dict(zip(names, map(float, values), strict=True))


def of_run(participation: np.ndarray, clip: float, noise_variance: float) -> dict[str, float]:
    """The maxima of `of_round` over rounds, `[T, K]`, and two more figures.

    `frozen` is `central` of the first round, as if the channel did not change; `rigorous` is the exact figure for
    replacement at `central_delta`, in the round with the largest eq. 13, if all users were aligned.
    """
    distinct, where = np.unique(participation.astype(np.float64), axis=0, return_inverse=True)
    rows = [of_round(row, clip, noise_variance) for row in distinct]
    by_round = {name: np.array([row[name] for row in rows])[where.ravel()] for name in rows[0]}
    worst = int(np.argmax(by_round["central"]))
    p = participation[worst].astype(np.float64)
    rigorous = theory.rigorous_epsilon(
        theory.Round(p.size, p, clip, noise_variance, RECEIVER_NOISE), by_round["central_delta"][worst]
    )
    return {name: values.max() for name, values in by_round.items()} | {
        "frozen": by_round["central"][0],
        "rigorous": float(rigorous),
    }


def of_runs(probability: xr.DataArray, noise_variance: float) -> xr.Dataset:
    """`of_run` at every point; `probability` has the dimensions `round`, `client` and `clip`, L, and others."""
    others = [dim for dim in probability.dims if dim not in ("round", "client")]
    points = probability.stack(point=others).transpose("point", "round", "client")
    found = [of_run(point.values, point.coords["clip"].item(), noise_variance) for point in points]
    whole = {name: ("point", [run[name] for run in found]) for name in found[0]}
    return xr.Dataset(whole, {"point": points.point}).unstack("point")


def limited(runs: xr.Dataset, setting: Setting) -> xr.DataArray:
    """The fraction of transmissions that power limited, a_k < 1, by `group` of users, named by its SNR."""
    group = np.repeat(np.arange(len(setting.groups)), setting.groups)
    total = lambda values: values.assign_coords(client=group).groupby("client").sum().sum("round")
    found = total(runs.counted & (runs.amplitude < 1)) / total(runs.counted)
    return found.rename(client="group").assign_coords(group=list(setting.snr_db))
