"""Theorem 4: measured loss under the bound on a strongly convex problem, and what rounding adds in the end."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure

from experiments.claims import Claim, Source, controlled
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome, span
from experiments.resuming import next_run
from experiments.sparse_secagg.logistic import Logistic, constants, evaluate, gradient, users
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, ClientData, Cohort, Local
from fedjax_priv.keys import per_client
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """Logistic regression with weight decay on digits, below 5 or not; the paper publishes nothing of it."""

    num_clients: int = 40
    alpha: float = 0.1
    dropout: float = 0.3
    levels: tuple[float, ...] = (2.0**4, 2.0**6, 2.0**8, 2.0**20)
    local_steps: int = 5
    batch_size: int = 10
    decay: float = 0.1  # mu
    rounds: int = 2000
    every: int = 20
    repeats: int = 10
    seed: int = 0


def run(config: Config) -> Outcome:
    problem, data = users(config.num_clients, config.decay, config.seed)
    known = constants(problem)
    result = sweep(
        lambda levels: algorithm(config, problem, known.smoothness, levels),
        {"levels": list(config.levels), "seed": list(range(config.repeats))},
        jax.random.key(config.seed), jnp.zeros(problem.num_params), data,
        rounds=config.rounds, every=config.every, keep=next_run(), progress=False, over="clients",
        evaluate=functools.partial(evaluate, data, known, config.batch_size),
    )  # fmt: skip
    kept = result[["gap", "variance", "second_moment"]].assign(failed=(result.status > 0).sum())
    return judge(config, kept)


def judge(config: Config, kept: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    problem, _ = users(config.num_clients, config.decay, config.seed)
    known = constants(problem)
    bounded = known.theorem(float(kept.variance.max()), float(kept.second_moment.max()))
    steps = config.local_steps * kept.evaluation.values
    bound = [_bound(config, bounded, problem.num_params, levels, steps) for levels in config.levels]
    by = "levels", "evaluation"
    kept = kept.assign(printed=(by, [one.printed for one in bound]), repaired=(by, [one.repaired for one in bound]))
    kept = kept.assign_coords(step=("evaluation", steps))
    caveats = [
        f"digits, below 5 or not, d = {problem.num_params}, N = {config.num_clients}, alpha = {config.alpha}, "
        f"theta = {config.dropout}, E = {config.local_steps}, batch {config.batch_size}, {config.repeats} runs",
        f"measured: L = {bounded.smoothness:.3g}, mu = {config.decay}, sigma^2 = {bounded.gradient_variance:.3g}, "
        f"G^2 = {bounded.gradient_second_moment:.3g}, Gamma = {bounded.heterogeneity:.3g}, "
        f"|w_0 - w*| = {bounded.initial_distance:.3g}; sigma^2 and G^2 are the largest at the server's models",
        "masks were elided",
        BANDS,
        f"{int(kept.failed)} of {config.rounds * config.repeats * len(config.levels)} rounds had too few survivors",
    ]
    nu = max(8 * bounded.smoothness / config.decay, config.local_steps)
    return Outcome(figure(config, kept, caveats[0]), kept, claims(kept, nu), caveats)


def _bound(
    config: Config, problem: theory.Problem, num_params: int, levels: float, steps: np.ndarray
) -> theory.ConvergenceBound:
    return theory.convergence_bound(
        problem, num_params=num_params, alpha=config.alpha, dropout=config.dropout, levels=levels,
        local_steps=config.local_steps, steps=steps,
    )  # fmt: skip


def algorithm(config: Config, problem: Logistic, smoothness: float, levels: float | Array) -> Algorithm:
    return sparse_secagg(
        decaying_sgd(config, problem, smoothness), num_clients=config.num_clients, alpha=config.alpha,
        dropout=config.dropout, levels=levels, elide=True,
    )  # fmt: skip


def decaying_sgd(config: Config, problem: Logistic, smoothness: float) -> Local:
    """E steps with eta_t = 2 / (mu (nu + t)), t the local steps since the start, as the theorem requires."""
    nu = max(8 * smoothness / config.decay, config.local_steps)

    def client(params: Array, key: Array, x: Array, y: Array, count: Array, round: Array) -> Array:
        def step(w: Array, j: Array) -> tuple[Array, None]:
            rate = 2 / (config.decay * (nu + (round * config.local_steps + j).astype(jnp.float32)))
            rows = jax.random.randint(jax.random.fold_in(key, j), (config.batch_size,), 0, count)
            return w - rate * gradient(problem.decay, w, x[rows], y[rows]), None

        return params - jax.lax.scan(step, params, jnp.arange(config.local_steps))[0]

    def apply(key: Any, memory: Any, params: Array, data: ClientData, cohort: Cohort) -> tuple[Array, Any, Array]:
        keys = per_client(lambda key: key, key, cohort.client)
        x, y = data.examples
        update = jax.vmap(functools.partial(client, params))(keys, x, y, data.count, cohort.round)
        return update, memory, jnp.zeros(data.count.size)

    return Local(lambda n, params: (), apply)


def claims(result: xr.Dataset, nu: float) -> list[Claim]:
    mean, x = result.gap.mean("seed"), nu + result.step.values
    bounds = ("printed", "repaired")
    ratio = {name: (mean / result[name]).max().item() for name in bounds}
    idle = {name: (mean.isel(evaluation=0) / result[name]).max().item() for name in bounds}
    tested = lambda name, claim: controlled(
        claim, idle[name] > 1 or ratio[name] > 1, f"of a model that is never trained at most {idle[name]:.2g} of it"
    )
    slopes = lambda values: [_slope(x, values.sel(levels=c).values) for c in result.levels.values]
    slope, bound = np.array(slopes(mean)), slopes(result.printed)
    rounding = (mean - mean.isel(levels=-1)).isel(levels=slice(-1))
    growth = _slope(x, rounding.isel(levels=0).values)
    late = rounding.isel(evaluation=slice(len(x) // 2, None)).mean("evaluation").values
    times_c = late * rounding.levels.values
    listed = lambda values: ", ".join(f"{value:+.2f}" for value in values)
    return [
        tested("printed", Claim(
            "bound", "E[F(w_J)] - F* below the bound", "for every J", f"at most {ratio['printed']:.2g} of it",
            ratio["printed"] <= 1, "at most the bound, at every J and c",
            "the printed bound, with eta_J in C; mean over runs",
        )),
        tested("repaired", Claim(
            "repaired-bound", "the same, with mu nu / 4 in place of 2 L", "", f"at most {ratio['repaired']:.2g} of it",
            ratio["repaired"] <= 1, "at most the bound, at every J and c",
            f"the two are equal if nu = 8 L / mu, here {nu:.4g}", Source.OURS,
        )),
        Claim(
            "rate", "the error falls as 1 / J at fixed c", "-1", f"slope {listed(slope)}", bool((slope < -0.5).all()),
            "slope below -0.5 at every c",
            f"log error on log (nu + J), last half, c = {listed_levels(result)}; of the bound {listed(bound)}",
        ),
        Claim(
            "rounding-grows", "rounding adds an error that grows as nu + J, as the bound does", "",
            f"slope {growth:+.2f}", bool(abs(growth - 1) < 0.35), "1 within 0.35",
            "error at the coarsest c less that at the finest. Rounding z has variance (|z| - c z^2) / c for "
            "|z| < 1 / c, not 1 / (4 c^2), and z falls with eta", Source.OURS,
        ),
        Claim(
            "rounding-settles", "what rounding adds settles at a level proportional to 1 / c", "",
            f"c times it: {span(times_c)}", bool(times_c.max() < 1.5 * times_c.min()),
            "within a factor 1.5", "mean of the last half, over the coarse c", Source.OURS,
        ),
    ]  # fmt: skip


def listed_levels(result: xr.Dataset) -> str:
    return ", ".join(f"2^{np.log2(c):g}" for c in result.levels.values)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of log y on log x in the last half; values that chance made negative are raised to 1e-9."""
    half = len(x) // 2
    return np.polyfit(np.log(x[half:]), np.log(np.maximum(y[half:], 1e-9)), 1)[0].item()


def figure(config: Config, result: xr.Dataset, title: str) -> Figure:
    picture = Figure(figsize=(8.5, 5.2), layout="constrained")
    axes = picture.subplots()
    for colour, c in zip(COLOURS, result.levels.values, strict=False):
        label, of = f"c = 2^{np.log2(c):g}", result.sel(levels=c)
        band(axes, of.gap, "step", f"measured, {label}", colour)
        axes.plot(of.step, of.repaired, "--", color=colour, linewidth=1.3, label=f"bound, {label}")
    finish(
        axes, title, legend={"ncols": 2}, yscale="log", xlabel="J, local steps", ylabel="E[F(w_J)] - F*", xlim=(0, None)
    )
    axes.set_xscale("symlog", linthresh=config.local_steps * config.every)
    return picture
