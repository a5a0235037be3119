"""Fig. 6: leakage by the participation probability, for several c."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim
from experiments.drawing import finish
from experiments.harness import Outcome
from experiments.wireless.leakage import DELTA_LOCAL
from experiments.wireless.leakage import delta_prime as experiments_delta_prime
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory


class Config(NamedTuple):
    """The paper's K and c; it does not give delta'."""

    num_users: int = 20
    exponents: tuple[float, ...] = (2.0, 4.0, 6.0, 8.0)  # c
    deltas: tuple[float, ...] = (1e-5, 0.01, 0.5, 0.9)  # delta', besides that of the experiments
    points: int = 400
    receiver_noise: float = 1.0  # of the exact figures
    seed: int = 0


EXPERIMENTS, LIMIT = "experiments", "beta = 0"
DIFFERS = "delta', which the paper does not publish for this figure, is that of the experiments"


def run(config: Config) -> Outcome:
    result = curves(config)
    caveats = [
        f"eq. 14, K = {config.num_users}; delta' of the experiments is 2 exp(-2 m^2/K) + 1e-5, which changes with p",
        "a curve begins where the bound does, at m > beta K; beta is "
        + ", ".join(f"{_beta(config, delta):.2g} (delta' = {delta:g})" for delta in config.deltas),
        "beta = 0: log(1 + p (exp(c/sqrt(K p)) - 1)), as if R were its mean, which bounds nothing",
        f"exact figures are for replacement, at delta = {DELTA_LOCAL:g} and N0 = {config.receiver_noise:g}",
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def _beta(config: Config, delta_prime: float) -> float:
    return float(np.sqrt(0.5 * np.log(2 / delta_prime) / config.num_users))


def noise_variance(c: float) -> float:
    """The sigma^2 with c = (2L/sigma) sqrt(2 log(1.25/delta_l)) for L = 1."""
    return float((2 * gaussian.classical_epsilon(DELTA_LOCAL, 1.0) / c) ** 2)


def curves(config: Config) -> xr.Dataset:
    """`eps` of eq. 14 by `delta_prime`, `c` and `p`, NaN where there is none, and `exact` by `c` and `p`."""
    p = np.linspace(0.02, 1, config.points)
    kinds = [EXPERIMENTS, *(f"{delta:g}" for delta in config.deltas), LIMIT]
    eps = [[[bound(config, kind, c, x) for x in p] for c in config.exponents] for kind in kinds]
    exact = [[_exact(config, c, x) for x in p] for c in config.exponents]
    coordinates = {"delta_prime": kinds, "c": list(config.exponents), "p": p}
    return xr.Dataset({"eps": (tuple(coordinates), eps), "exact": (("c", "p"), exact)}, coordinates)


def bound(config: Config, kind: str, c: float, p: float) -> float:
    """Eq. 14 at a delta' in words or digits; NaN where there is none."""
    if kind == LIMIT:
        variance = noise_variance(c) * config.num_users * p
        setting = theory.Round(config.num_users, p, 1.0, variance)
        return float(theory.sampled_orthogonal_epsilon(setting, DELTA_LOCAL))
    delta = experiments_delta_prime(np.full(config.num_users, p)) if kind == EXPERIMENTS else float(kind)
    if delta >= 1 or p <= _beta(config, delta):
        return np.nan
    return float(theory.central_epsilon(theory.Round(config.num_users, p, 1.0, noise_variance(c)), DELTA_LOCAL, delta))


def _exact(config: Config, c: float, p: float) -> float:
    setting = theory.Round(config.num_users, p, 1.0, noise_variance(c), config.receiver_noise)
    return float(theory.rigorous_epsilon(setting, DELTA_LOCAL))


def best(eps: xr.DataArray) -> xr.DataArray:
    """The p at which the bound is least."""
    return eps.idxmin("p")


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    where, first = best(result.eps), config.exponents[0]
    ours = where.sel(delta_prime=EXPERIMENTS).values
    text = ", ".join(
        f"{where.sel(delta_prime=kind, c=first).item():.2f} ({kind})" for kind in result.delta_prime.values
    )
    return [
        Claim(
            "rises-with-p", f"c = {first:g}: sampling fewer users leaks less, eps_c rises with p", "rises",
            f"least at p = {text}", bool(where.sel(c=first, delta_prime=EXPERIMENTS) < 0.99),
            "the least eps_c is below p = 0.99", "the p with the least eps_c, by delta'", differs=DIFFERS,
        ),
        Claim(
            "best-p-by-c", "sampling less stops helping for large c", "the larger c, the larger the best p",
            f"least at p = {_by_c(config, ours)}", bool((np.diff(ours) >= 0).all() and ours[-1] > ours[0]),
            "it never falls with c and is larger in the end",
            f"with beta = 0 {_by_c(config, where.sel(delta_prime=LIMIT).values)}; exact figures "
            f"{_by_c(config, best(result.exact).values)}", differs=DIFFERS,
        ),
    ]  # fmt: skip


def _by_c(config: Config, values: np.ndarray) -> str:
    return ", ".join(f"{value:.2f} (c = {c:g})" for c, value in zip(config.exponents, values, strict=True))


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = picture.subplots(1, 3)
    _draw(left, config, result.eps.sel(delta_prime=EXPERIMENTS), "eq. 14, delta' of the experiments")
    _draw(middle, config, result.eps.sel(delta_prime=LIMIT), "eq. 14 with beta = 0, the shape in the text")
    _draw(right, config, result.exact, f"exact, delta = {DELTA_LOCAL:g}")
    return picture


def _draw(axes: Axes, config: Config, eps: xr.DataArray, title: str) -> None:
    for colour, c in zip(COLOURS, config.exponents, strict=False):
        of = eps.sel(c=c)
        axes.plot(of.p, of, color=colour, linewidth=1.7, label=f"c = {c:g}")
        at = best(of)
        axes.plot(at, of.sel(p=at), "o", color=colour, markersize=5)
    axes.plot([], [], "o", color="grey", markersize=5, label="least")
    finish(axes, title, yscale="log", xlabel="participation p", ylabel="eps of a round", xlim=(0, 1.03))
