"""What a proved bound on norms buys under secure aggregation: accuracy by the length of what attackers send.

Each Byzantine client sends a vector against the honest mean, of a norm given in units of the bound. Honest clients clip
to the bound. In one secure sum there are no rows, so no robust rule can help.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, controlled
from experiments.comparison import decided, over_seeds, plus_minus
from experiments.drawing import band, finish
from experiments.harness import Outcome, span
from experiments.problem import Task, load, model_of
from fedjax_priv import data, losses, metrics, systems
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, Key, Local
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.theory.input_validation import acceptance, largest_damage

BITES, KEEPS, SURELY = 0.1, 0.03, 1.2
"""Accuracy that an attack must cost, that a defence may lose, and a norm that rounding does not bring back below 1."""


class Config(NamedTuple):
    """The picture at one scale."""

    task: Task = Task("digits")
    num_clients: int = 20
    num_byzantine: int = 4
    rounds: int = 40
    norm_bound: float = 0.5
    norms: tuple[float, ...] = (0.0, 0.5, 1.0, 1.2, 2.0, 5.0, 20.0, 100.0)
    levels: float = 2.0**16
    learning_rate: float = 0.5
    batch_size: int = 20
    repeats: int = 5
    seed: int = 0


def run(config: Config) -> Outcome:
    """Sweeps with proofs and without, and what came of them."""
    return judge(config, xr.concat([runs(config, bound) for bound in (False, True)], "proofs"))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    said = (
        f"{config.task}; {config.num_clients} clients, IID, {config.num_byzantine} of them Byzantine, who send one "
        f"vector against the honest mean; bound {config.norm_bound:g}, to which honest clients clip; {config.rounds} "
        f"rounds, {config.repeats} seeds; proofs are ideal"
    )
    return Outcome(draw(result), result, claims(config, result), [said])


def runs(config: Config, proofs: bool) -> xr.Dataset:
    """By norm and seed: accuracy at the end, and the shares of attackers' and of honest uploads that are rejected."""
    whole, model = load(config.task), model_of(config.task)
    clients = data.federate(whole, config.num_clients, "iid", seed=config.seed)
    loss = losses.softmax_cross_entropy(model)
    local = local_sgd(loss, learning_rate=config.learning_rate, batch_size=config.batch_size, num_epochs=1)
    found = sweep(
        functools.partial(system, config, local, proofs), {"norm": config.norms, "seed": range(config.repeats)},
        jax.random.key(config.seed), model.init, clients, rounds=config.rounds, every=config.rounds,
        evaluate=metrics.accuracy(model, whole.x_test, whole.y_test), progress=False,
    )  # fmt: skip
    left_out = (~found.counted).mean("round")
    attackers = xr.DataArray(np.arange(config.num_clients) < config.num_byzantine, dims="client")
    return xr.Dataset({
        "accuracy": found.accuracy.isel(evaluation=-1, drop=True).fillna(0),
        "attackers_rejected": left_out.where(attackers).mean("client"),
        "honest_rejected": left_out.where(~attackers).mean("client"),
    }).assign_coords(proofs=proofs)  # fmt: skip


def system(config: Config, local: Local, proofs: bool, *, norm: Any) -> Algorithm:
    """One secure sum of everybody, attacked."""
    return systems.compose(
        local, num_clients=config.num_clients, secure="secagg", elide=True, clip=config.norm_bound,
        norm_bound=config.norm_bound if proofs else None, levels=config.levels, num_byzantine=config.num_byzantine,
        attack=against_the_mean(norm * config.norm_bound), mesh=None,
    )  # fmt: skip


def against_the_mean(norm: Array) -> Any:
    """The attack: minus the honest mean, at this norm."""

    def attack(key: Key, updates: Array, honest: Array, byzantine: Array) -> Array:
        mean = jnp.where(honest[:, None], updates, 0).sum(0, keepdims=True)
        return -norm * mean / jnp.maximum(jnp.linalg.norm(mean), 1e-12)

    return attack


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """All ours; the attack without proofs is the control of what proofs keep."""
    without, proved = (result.accuracy.sel(proofs=proofs) for proofs in (False, True))
    beyond, inside = result.norm >= SURELY, result.norm <= 1
    lost, kept = (of.sel(norm=0, drop=True) - of.where(beyond, drop=True) for of in (without, proved))
    cost, left = over_seeds(lost), over_seeds(-kept)
    control = f"without proofs the longest vector costs {cost.sel(norm=float(result.norm[-1])).text()} points"
    keeps = Claim(
        "keeps", "proofs keep the accuracy, however long attackers' vectors are", "the accuracy without attack",
        f"{span(-100 * left.mean)} points lost", decided(left.at_least(KEEPS)),
        f"less than {100 * KEEPS:g} points at each norm above the bound, 95% intervals over seeds",
        source=Source.OURS, why=Open.UNDECIDED,
    )  # fmt: skip
    at_bound = over_seeds(proved.sel(norm=0) - proved.sel(norm=1))
    rejected, wrongly = result.sel(proofs=True).attackers_rejected, result.sel(proofs=True).honest_rejected
    return [
        controlled(keeps, decided(cost.bites(BITES).max()), control),
        Claim(
            "inside", "inside the bound proofs change nothing: attackers move the sum as they did", "the same accuracy",
            f"{100 * float(abs(without - proved).where(inside, drop=True).max()):.2g} points apart at most; vectors at "
            f"the bound cost {100 * float(at_bound.mean):.1f}{plus_minus(100 * float(at_bound.noise))} points",
            bool((without == proved).where(inside, drop=True).all()), "each run the same", source=Source.OURS,
        ),
        Claim(
            "rejected", "all vectors above the bound are rejected, none below, and no honest client's", "1, 0, 0",
            f"{span(rejected.where(beyond, drop=True))}, {float(rejected.sel(norm=0.5).max()):g}, "
            f"{float(wrongly.max()):g}",
            bool((rejected.where(beyond, drop=True) == 1).all() and (rejected.sel(norm=0.5) == 0).all()
                 and (wrongly == 0).all()),
            f"of norms from {SURELY:g} times the bound on, of half the bound, and of clipped updates",
            source=Source.OURS,
        ),
    ]  # fmt: skip


def draw(result: xr.Dataset) -> Figure:
    """Accuracy by norm; and what an attacker can hope for under an exact check and under random projections."""
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for proofs, label, colour in ((False, "no proofs", COLOURS[3]), (True, "proofs of the norm", COLOURS[0])):
        band(left, result.accuracy.sel(proofs=proofs), "norm", label, colour)
    left.axvline(1, color="grey", linestyle=":", linewidth=1)
    left.set_xscale("symlog", linthresh=1)
    left.set_xlim(left=0)
    finish(left, "One secure sum under attack", xlabel="norm of attackers' vectors, in bounds", ylabel="test accuracy")
    factor = np.linspace(0.5, 2, 301)
    right.plot(factor, factor, color=COLOURS[3], linewidth=1.5, label="no proofs")
    right.plot(factor, factor * acceptance(factor), color=COLOURS[1], linewidth=1.5, label="1,000 random projections")
    right.plot(factor, factor * (factor <= 1), color=COLOURS[0], linewidth=1.5, label="exact")
    title = f"Expected shift of the sum: projections allow {largest_damage():.2f}"
    finish(right, title, xlabel="norm of one vector, in bounds", ylabel="times its chance to be accepted")
    return figure
