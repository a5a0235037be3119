"""Receiver noise as the privacy mechanism, at levels by round (Liu and Simeone 2021), what noise of users adds, and
what users lose that send one after another."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, PyTree
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, controlled
from experiments.comparison import Gap, decided, gap, plus_minus
from experiments.drawing import band, finish
from experiments.harness import Outcome, span
from experiments.problem import Task, load, model_of, num_params
from fedjax_priv import data, losses, metrics
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.channels import constant
from fedjax_priv.clients import fedsgd
from fedjax_priv.ledger import ledger, worst
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless
from fedjax_priv.theory import wireless as theory

NAMES = ("allocated", "constant", "falling", "own noise", "own noise, same energy")
LOUDER = 4.0
"""Squared level of those that add noise of their own, over that of those that do not."""
CLOSE = 0.02
"""Accuracies that count as the same."""
SNR = (-40.0, -20.0, 0.0)
"""Of users that send one after another, decibels: d N0 times this is what a user may spend in a round."""


class Config(NamedTuple):
    """Softmax regression with a ridge, full batches, plain SGD; everybody sends, gains are 1, no cap of power."""

    task: Task = Task("digits")
    num_users: int = 200
    rounds: int = 50
    epsilon: float = 10.0
    delta: float = 1e-5
    clip: float = 1.0
    receiver_noise: float = 1.0
    ridge: float = 0.05
    learning_rate: float = 1.0
    contraction: float = 0.9  # rho of the allocation, about (1 - learning_rate * ridge)^2
    repeats: int = 5
    seed: int = 0


class Design(NamedTuple):
    """Squared levels by round, `[design, round]`, and the variance of users' noise, `[design]`."""

    squared_levels: np.ndarray
    noise_variance: np.ndarray


def designs(config: Config) -> Design:
    """At one eps, but for the last, which has the energy of the constant level."""
    how = {"clip": config.clip, "receiver_noise": config.receiver_noise}
    budget = theory.level_budget(config.epsilon, config.delta, **how)
    weights = theory.contraction_weights(config.rounds, config.contraction)
    q, flat = theory.allocate(weights, budget).squared_levels, budget / config.rounds
    own = config.receiver_noise * (1 - 1 / LOUDER) / (flat * config.num_users)
    quiet = flat * config.clip**2 / (config.clip**2 + num_params(config.task) * own)
    same = lambda level: np.full(config.rounds, level)
    return Design(
        np.array([q, same(flat), q[::-1], same(LOUDER * flat), same(quiet)]), np.array([0.0, 0.0, 0.0, own, own])
    )


def run(config: Config) -> Outcome:
    """Sweeps of the designs, and what came of them."""
    return judge(config, measured(config))


def algorithm(config: Config, design: Array | float) -> Algorithm:
    """The system at a row of the table of designs; as a float it is no part of the program."""
    table, row = designs(config), jnp.asarray(design, jnp.int32)
    levels = jnp.asarray(np.sqrt(table.squared_levels), jnp.float32)[row]
    variance = jnp.asarray(table.noise_variance, jnp.float32)[row]
    return wireless(
        fedsgd(regularised(config)), clip=config.clip, noise_variance=variance,
        receiver_noise=config.receiver_noise, level=lambda round, gain: levels[round], fading=constant(),
        server=optax.sgd(config.learning_rate), mesh=None,
    )  # fmt: skip


def regularised(config: Config) -> losses.Loss:
    """Cross-entropy and half the ridge times the squared norm of the parameters."""
    of_samples = losses.softmax_cross_entropy(model_of(config.task))

    def loss(params: PyTree, examples: PyTree) -> Array:
        squares = sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(params))
        return of_samples(params, examples) + config.ridge / 2 * squares

    return loss


def measured(config: Config) -> xr.Dataset:
    """By design and seed: accuracy and the objective by round, energy; and by design eps of the ledger."""
    whole, model = load(config.task), model_of(config.task)
    users, loss = data.federate(whole, config.num_users, "iid", seed=config.seed), regularised(config)
    samples = jnp.asarray(whole.x_train), jnp.asarray(whole.y_train)
    evaluate = metrics.together(
        metrics.accuracy(model, whole.x_test, whole.y_test), lambda params: {"objective": loss(params, samples).mean()}
    )
    axes = {"design": list(map(float, range(len(NAMES)))), "seed": range(config.repeats)}
    found = sweep(
        functools.partial(algorithm, config), axes,
        jax.random.key(config.seed), model.init, users, rounds=config.rounds, every=max(1, config.rounds // 10),
        evaluate=evaluate, progress=False,
    )  # fmt: skip
    eps = [_epsilon(config, found.isel(design=row, seed=0), users, row) for row in range(len(NAMES))]
    return xr.Dataset({
        "accuracy": found.accuracy, "objective": found.objective, "energy": found.energy.sum(["round", "client"]),
        "level": found.level.isel(seed=0, client=0, drop=True), "failed": found.failed_rounds,
        "eps": ("design", eps),
    }).assign_coords(design=list(NAMES))  # fmt: skip


def _epsilon(config: Config, one: xr.Dataset, users: ClientData, row: int) -> float:
    return float(worst(ledger(algorithm(config, float(row)), one, users, delta=config.delta)[0].proved) or 0.0)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    caveats = [
        f"{config.task}, ridge {config.ridge:g}; K = {config.num_users} users, IID, all send, full batches, gains 1, "
        f"T = {config.rounds}, L = {config.clip:g}, N0 = {config.receiver_noise:g}, SGD with step "
        f"{config.learning_rate:g}; {config.repeats} seeds",
        f"levels for eps = {config.epsilon:g} at delta = {config.delta:g} against replacement of a user; the "
        f"allocation takes rho = {config.contraction:g}, which nobody measured",
        f"the receiver's noise is relied on: a server with less than N0 = {config.receiver_noise:g} learns more",
        f"{int(result.failed.sum())} rounds of all runs failed",
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """All by the rule they name; lower objectives are better."""
    last = result.isel(evaluation=-1)
    objective = {str(name): last.objective.sel(design=name) for name in NAMES}
    gain, control = gap(objective["constant"], objective["allocated"]), gap(objective["falling"], objective["constant"])
    eps = result.eps.values[:4]
    energy = (result.energy / result.energy.sel(design="constant")).mean("seed")
    own = gap(*(last.accuracy.sel(design=name, drop=True) for name in ("own noise", "constant")))
    louder = bool(energy.sel(design="own noise") > 1)
    quiet = gap(objective["own noise, same energy"], objective["constant"])
    weights = theory.contraction_weights(config.rounds, config.contraction)
    costs = [theory.noise_cost(weights, levels) for levels in designs(config).squared_levels[:2]]
    worse = f"falling levels: {float(control.mean):+.3g}{plus_minus(float(control.noise))}"
    better = Claim(
        "allocated", "levels that rise by the rule train better than a constant level", "better",
        f"objective lower by {float(gain.mean):.3g}{plus_minus(float(gain.noise))}", _above(gain),
        "the interval of the difference over seeds is above 0",
        f"the bound's noise is {costs[0] / costs[1]:.3g} times that of a constant level", why=Open.UNDECIDED,
        differs="classification, users in place of samples", control=worse,
    )  # fmt: skip
    return [
        controlled(better, _above(control), worse),
        Claim(
            "equal-eps", "these levels, and louder ones with noise of users, have one eps", f"{config.epsilon:g}",
            span(eps, 6), bool(np.allclose(eps, config.epsilon, rtol=1e-4)), "within 1e-4, by the ledger of the runs",
            source=Source.OURS,
        ),
        Claim(
            "own-noise", "noise of users buys nothing that a lower level does not", "the same accuracy, more energy",
            f"{own.text()} points at {float(energy.sel(design='own noise')):.3g} times the energy",
            decided(own.small(CLOSE)) if louder else False,
            f"within {100 * CLOSE:g} points, as sure as that, at more energy",
            f"squared level {LOUDER:g} times as high, same eps", source=Source.OURS, why=Open.UNDECIDED,
        ),
        Claim(
            "same-energy", "with that noise and the energy of the constant level training is worse", "worse",
            f"objective higher by {float(quiet.mean):.3g}{plus_minus(float(quiet.noise))}", _above(quiet),
            "the interval of the difference over seeds is above 0",
            f"at {float(energy.isel(design=-1)):.3g} times the energy and eps = {float(result.eps[-1]):.3g}",
            source=Source.OURS, why=Open.UNDECIDED,
        ),
        _budget(config),
        _orthogonal(config),
    ]  # fmt: skip


def _budget(config: Config) -> Claim:
    printed = theory.printed_sensitivity_budget(config.epsilon, config.delta)
    exact = theory.squared_sensitivity_budget(config.epsilon, config.delta)
    return Claim(
        "budget", "sums of squared sensitivities up to 2 R_dp are (eps, delta)-private", f"{printed:.4g}",
        f"up to {exact:.4g} are", bool(printed <= exact), "not above the exact budget",
        "the tail that the paper bounds is the two-sided one",
    )  # fmt: skip


def noise_apart(config: Config, squared_gains: np.ndarray, power: float) -> float:
    """The least noise of users that send one after another, over that of users that send at once, at one eps.

    Gains h^2 `[T, K]`, and the energy of a user in a round. The first have K times as many uses of the channel.
    """
    budget = theory.level_budget(config.epsilon, config.delta, clip=config.clip, receiver_noise=config.receiver_noise)
    weights = theory.contraction_weights(config.rounds, config.contraction)
    caps = power / config.clip**2 * squared_gains
    together = theory.allocate(weights, budget, caps.min(1))
    apart = theory.allocate_orthogonal(weights, np.full(caps.shape[1], budget), caps)
    return theory.noise_cost(weights, apart.squared_levels) / theory.noise_cost(weights, together.squared_levels)


def _orthogonal(config: Config) -> Claim:
    shape, k = (config.rounds, config.num_users), config.num_users
    same = noise_apart(config, np.ones(shape), np.inf)
    faded = np.random.default_rng(config.seed).exponential(size=shape)
    unit = num_params(config.task) * config.receiver_noise
    ratios = [noise_apart(config, faded, unit * 10 ** (snr / 10)) for snr in SNR]
    rises = bool(ratios[0] > 1 and (np.diff([*ratios, k]) >= -1e-9 * k).all())
    return Claim(
        "orthogonal", "users that send one after another: K times the noise, and less where the weakest is short of "
        "power", f"{k}; from 1 to {k}", f"{same:.4g}; " + ", ".join(f"{ratio:.3g}" for ratio in ratios),
        bool(np.isclose(same, k, rtol=1e-9)) and rises,
        "K with gains 1, above 1 and rising with power to K with Rayleigh gains",
        "computed, at one eps and K times the uses; Rayleigh gains at " + ", ".join(f"{snr:g}" for snr in SNR) + " dB",
        source=Source.OURS,
    )  # fmt: skip


def _above(found: Gap) -> bool | None:
    low, high = float(found.mean - found.noise), float(found.mean + found.noise)
    return True if low > 0 else False if high <= 0 else None


def figure(config: Config, result: xr.Dataset) -> Figure:
    """Levels by round, and the objective."""
    picture = Figure(figsize=(9.2, 3.8), layout="constrained")
    left, right = picture.subplots(1, 2)
    rounds = np.arange(1, config.rounds + 1)
    for name, colour in zip(NAMES, COLOURS, strict=False):
        energy = float((result.energy.sel(design=name) / result.energy.sel(design="constant")).mean())
        left.plot(rounds, result.level.sel(design=name) ** 2, color=colour, label=name)
        eps = float(result.eps.sel(design=name))
        label = f"{name}: eps {eps:.3g}, energy {energy:.3g}"
        band(right, result.objective.sel(design=name), "evaluation", label, colour)
    finish(left, "squared level", xlabel="round", yscale="log", size=8)
    about = f"{config.task.dataset}, K = {config.num_users}, eps = {config.epsilon:g} at {config.delta:g}"
    shown = result.objective.isel(design=slice(4)).mean("seed")  # the last one leaves the panel
    limits = (0.9 * float(shown.min()), 1.1 * float(shown.max()))
    finish(right, f"objective; {about}", xlabel="round", ylim=limits, size=8)
    return picture
