"""Noise in the model after each round, at equal privacy: closed forms, and streams as the server draws them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Source, told_apart
from experiments.correlated_noise.factors import Factor, factors, sign_error
from experiments.drawing import finish
from experiments.harness import Outcome
from fedjax_priv.server_noise import ServerNoise
from fedjax_priv.theory.correlated_noise import Schedule, root_mean_square


class Config(NamedTuple):
    """Server optimizer SGD; clients take part once, or as often as the separation allows."""

    rounds: int = 1024
    separation: int = 128
    bands: int = 32
    buffers: int = 3
    coordinates: int = 2000  # of the simulated noise
    seed: int = 0

    @property
    def schedules(self) -> dict[str, Schedule]:
        """By name: once, and often."""
        often = Schedule(self.rounds, self.separation)
        times = -(-self.rounds // self.separation)
        return {"once": Schedule(self.rounds, self.rounds), f"{times} times, {self.separation} apart": often}


STANDARD_ERRORS = 6
"""How far a simulated variance may lie from its closed form; ten thousand of them are compared."""


def run(config: Config) -> Outcome:
    key = jax.random.key(config.seed)
    compared = {name: factors(of, config.bands, config.buffers) for name, of in config.schedules.items()}
    streams = {one.noise.correlation: one.noise for made in compared.values() for one in made.values()}
    drawn = {about: simulated(noise, key, config) for about, noise in streams.items()}
    result = xr.concat([dataset(made, drawn) for made in compared.values()], "schedule")
    broken = "round", simulated(sign_error(config.rounds), key, config)
    return judge(config, result.assign_coords(schedule=[*compared]).assign(sign_error=broken))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the streams; `sign_error` is that of a square root with a sign error in C^-1."""
    caveats = [
        f"n = {config.rounds} rounds of SGD, in units of sigma C_clip with mu = 1/sigma for the whole run; each error "
        "is sensitivity times the deviation of a coordinate of the prefix sum",
        f"dots: {config.coordinates:,} coordinates of the noise as the server streams it, float32; no sampling is "
        "used, and no data",
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def simulated(noise: ServerNoise, key: jax.Array, config: Config) -> np.ndarray:
    """`[n]`: root mean square over coordinates of the prefix sums of a stream."""
    d = config.coordinates

    def one(carried: tuple, t: jax.Array) -> tuple:
        state, total = carried
        row, state = noise.draw(jax.random.fold_in(key, t), state, d)
        return (state, total + row), jnp.sqrt(jnp.mean(jnp.square(total + row)))

    run = jax.jit(lambda: jax.lax.scan(one, (noise.init(d), jnp.zeros(d)), jnp.arange(config.rounds))[1])
    return np.asarray(run(), np.float64)


def dataset(made: Mapping[str, Factor], drawn: Mapping[Any, np.ndarray]) -> xr.Dataset:
    """`error` and `simulated` `[factor, round]`; `sensitivity`, `largest`, `rms` and `vectors` `[factor]`."""
    sensitivity = np.array([one.sensitivity for one in made.values()])
    error = sensitivity[:, None] * [one.error for one in made.values()]
    streams = sensitivity[:, None] * [drawn[one.noise.correlation] for one in made.values()]
    each, both = ("factor",), ("factor", "round")
    variables = {
        "error": (both, error), "simulated": (both, streams), "sensitivity": (each, sensitivity),
        "largest": (each, error.max(1)), "rms": (each, [root_mean_square(row) for row in error]),
        "vectors": (each, [one.vectors for one in made.values()]),
    }  # fmt: skip
    return xr.Dataset(variables, {"factor": [*made], "round": 1 + np.arange(error.shape[1])})


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """Ours: papers state other settings."""
    schedules = once, often = result.isel(schedule=0), result.isel(schedule=1)
    rms = lambda of, factor: float(of.rms.sel(factor=factor))
    bsr, bisr, bandmf = (f"{kind} {config.bands}" for kind in ("BSR", "BISR", "BandMF"))
    best, root, blt = "BandMF, b bands", "square root", f"BLT {config.buffers}"
    least = [(float(of.rms.min()), of.rms.idxmin().item()) for of in schedules]
    above = rms(once, blt) / rms(once, best) - 1
    gain = [rms(of, "independent") / rms(of, best) for of in schedules]
    return [
        _streams(config, result, once.sel(factor=root)),
        *_logarithm(config, once),
        _ours("trees", "a tree is noisier than the square root, with its best estimates too", "more",
              _both(result, "tree, reduced", root), all(rms(of, "tree, reduced") > rms(of, root) for of in schedules)),
        _ours("optimal", "no matrix has less mean error than BandMF with b bands", f"{best} is least",
              ", ".join(f"{value:.4g} ({name})" for value, name in least),
              all(value >= rms(of, best) * (1 - 1e-6) for (value, _), of in zip(least, schedules, strict=True))),
        _ours("optimal-bands", f"with {config.bands} bands BandMF has less mean error than BSR, BISR less than BandMF",
              "BISR, BandMF, BSR", _both(result, bisr, bandmf, bsr),
              all(rms(of, bisr) < rms(of, bandmf) < rms(of, bsr) for of in schedules),
              "BISR keeps as many vectors as BandMF"),
        _ours("buffers", f"{config.buffers} buffers come within 0.5% of the best matrix if clients take part once",
              "at most 0.5% above", f"{above:.3%}", above < 0.005),
        _ours("many-rounds", "if clients take part often, the square root of n bands is noisier than BandMF of b bands",
              "more", f"{rms(often, root):.4g} and {rms(often, best):.4g}", rms(often, root) > rms(often, best)),
        _ours("gain", "the best correlated noise has at most a quarter of the mean error of independent noise",
              "at most 1/4", ", ".join(f"1/{times:.1f}" for times in gain), min(gain) >= 4),
    ]  # fmt: skip


def _logarithm(config: Config, once: xr.Dataset) -> list[Claim]:
    k = np.arange(1, config.rounds)
    expected = float(np.sum(np.cumprod(np.append(1, (2 * k - 1) / (2 * k))) ** 2))
    found = float(once.largest.sel(factor="square root"))
    text = "once: the largest error of the square root is the sum of squares of (2k choose k)/4^k"
    return [_ours("logarithm", text, f"{expected:.6f}", f"{found:.6f}", bool(np.isclose(found, expected)))]


def _streams(config: Config, result: xr.Dataset, root: xr.Dataset) -> Claim:
    """Of all factors; a stream with a sign error must not pass."""
    off, wrong = (_standard_errors(config, *of) for of in (
        (result.simulated, result.error), (root.sensitivity * result.sign_error, root.error)
    ))  # fmt: skip
    said = f"at most {STANDARD_ERRORS} standard errors"
    claim = _ours("streams", "every stream has the error of its closed form, after every round", said, f"{off:.2f}",
                  off <= STANDARD_ERRORS)  # fmt: skip
    control = f"with a sign error in C^-1 the square root is {wrong:.3g} away"
    return told_apart(claim, wrong > STANDARD_ERRORS, control)


def _ours(id: str, text: str, expected: str, found: str, verdict: bool, note: str = "") -> Claim:
    return Claim(id, text, expected, found, bool(verdict), expected, note, Source.OURS)


def _both(result: xr.Dataset, *names: str) -> str:
    """Mean errors of some factors, for both schedules."""
    rows = result.rms.sel(factor=[*names]).values
    return "; ".join(", ".join(f"{error:.4g}" for error in row) for row in rows)


def _standard_errors(config: Config, simulated: xr.DataArray, error: xr.DataArray) -> float:
    """The largest distance of a simulated variance from its closed form."""
    return float(np.abs((simulated / error) ** 2 - 1).max() / np.sqrt(2 / config.coordinates))


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(14, 5), layout="constrained")
    panels = picture.subplots(1, 3, width_ratios=(5, 5, 4))
    colours = dict(zip(result.factor.values, matplotlib.colormaps["tab10"](np.arange(10)), strict=False))
    dots = np.unique(np.geomspace(1, config.rounds, 14).astype(int)) - 1
    for axes, (i, name) in zip(panels, enumerate(result.schedule.values), strict=False):
        for factor, colour in colours.items():
            line = result.isel(schedule=i).sel(factor=factor)
            width = 0.5 if factor.startswith("tree") else 1.4  # jagged
            axes.plot(line["round"], line.error, color=colour, linewidth=width, label=factor)
            axes.plot(line["round"][dots], line.simulated[dots], ".", color=colour, markersize=5)
        finish(
            axes, f"clients take part {name}", size=8, legend={"loc": "upper left", "ncols": 3},
            xlabel="round", ylabel="error at equal privacy",
        )  # fmt: skip
        axes.set(xscale="log", yscale="log", ylim=(None, 2.5 * float(result.error.isel(schedule=i).max())))
    _memory(panels[-1], result.isel(schedule=1), colours)
    return picture


def _memory(axes: Axes, of: xr.Dataset, colours: Mapping[str, Any]) -> None:
    """Mean error by what is kept."""
    for factor, colour in colours.items():
        x, y = 1 + int(of.vectors.sel(factor=factor)), float(of.rms.sel(factor=factor))
        axes.plot(x, y, "o", color=colour)
        axes.annotate(factor, (x, y), (5, 4), textcoords="offset points", fontsize=8)
    finish(axes, f"mean error, {of.schedule.item()}", xlabel="1 + vectors of d numbers that are kept")
    axes.set(ylabel="root mean square error", xscale="log", yscale="log")
    axes.margins(x=0.35)
