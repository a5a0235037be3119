"""Analog, one-bit and digital uploads at the same uses of the channel and the same energy."""

import functools
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import xarray as xr
from scipy.optimize import brentq

from experiments.claims import Claim, Open, Source, told_apart
from experiments.comparison import decided, gap, last
from experiments.harness import Outcome
from experiments.problem import Task, load, model_of, num_params
from experiments.resuming import next_run
from experiments.wireless import analog_or_digital_picture as picture
from experiments.wireless.quantized_mean import Measured, digital_parts, measured
from fedjax_priv import data, losses, metrics
from fedjax_priv.analysis import OnAir, air_resources
from fedjax_priv.base import Algorithm
from fedjax_priv.channels import constant
from fedjax_priv.clients import bernoulli, local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import digital_fedavg, over_the_air_vote, wireless
from fedjax_priv.theory import digital_links as theory

ANALOG, VOTE, DIGITAL, PATIENT = "analog", "one-bit vote", "digital", "digital, 91 d uses"
LEVEL = 91.384
"""Uses over d at which digital uploads of 20 users are level with analog ones."""


class Config(NamedTuple):
    """r users, all of them in every round; gains are 1, and N0 = 1."""

    task: Task = Task("mnist")
    users: int = 20
    energy: float = 10.0  # E / (d N0), of a user for a round
    clip: float = 1.0
    batch_size: int = 32
    learning_rate: float = 0.005  # of Adam at the server
    step: float = 0.003  # of the step along the majority's signs
    rounds: int = 300
    evaluations: int = 15
    repeats: int = 3
    draws: int = 400  # of the measured distortions
    hertz: float = 1e6  # W
    path_loss_db: float = 100.0
    seed: int = 0


def algorithm(config: Config, scheme: str) -> Algorithm:
    """A scheme that takes at most d uses of the channel, or 91 d, and the energy E of a user in a round."""
    loss = losses.softmax_cross_entropy(model_of(config.task))
    local = local_sgd(loss, learning_rate=1.0, batch_size=config.batch_size, num_steps=1)
    d, adam = num_params(config.task), optax.adam(config.learning_rate)
    if scheme == ANALOG:
        level = math.sqrt(config.energy * d) / config.clip
        return wireless(
            local, clip=config.clip, noise_variance=0.0, level=level, fading=constant(), server=adam
        )  # fmt: skip
    if scheme == VOTE:
        level = math.sqrt(config.energy)
        return over_the_air_vote(local, level=level, truncation=0.0, fading=constant(), server=optax.sgd(config.step))
    return digital_fedavg(
        local, num_params=d, cohort=bernoulli(1.0, fading=constant()), server=adam, **digital(config, scheme)
    )


def digital(config: Config, scheme: str) -> dict[str, Any]:
    """How many coordinates and levels the bits of a user allow, and the SNR of a use."""
    times = 1.0 if scheme == DIGITAL else LEVEL
    return digital_parts(num_params(config.task), config.users, config.energy, times)


def run(config: Config) -> Outcome:
    schemes = (ANALOG, VOTE, DIGITAL, PATIENT)
    found = xr.concat([_train(config, scheme) for scheme in schemes], xr.Variable("line", list(schemes)))
    d, white = num_params(config.task), measured(config.users, config.energy, draws=config.draws, seed=config.seed)
    attrs = {"num_params": d, "white_users": config.users, "white_energy": config.energy}
    return judge(config, found.assign(white.to_variables()).assign_attrs(attrs))


def _train(config: Config, scheme: str) -> xr.Dataset:
    """`accuracy` `[seed, iteration]`, and of a round, means: `uses`, `seconds`, `energy` and `joules` of a user."""
    dataset, model = load(config.task), model_of(config.task)
    whole = sweep(
        functools.partial(algorithm, config, scheme), {"seed": range(config.repeats)},
        jax.random.key(config.seed), model.init, data.federate(dataset, config.users, seed=config.seed),
        rounds=config.rounds, every=max(1, config.rounds // config.evaluations), keep=next_run(), progress=False,
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    turns = scheme in (DIGITAL, PATIENT)
    air = OnAir(config.hertz, "orthogonal" if turns else "multiple")
    spent = air_resources(whole, air, path_loss_db=config.path_loss_db)
    seconds, of_user = spent.air_seconds.mean().item(), lambda values: values.mean().item()
    return xr.Dataset({
        "accuracy": whole.accuracy.rename(evaluation="iteration"), "failed": whole.failed_rounds.sum(),
        "uses": 2 * config.hertz * seconds, "seconds": seconds, "energy": of_user(whole.energy),
        "joules": of_user(spent.joules),
    })  # fmt: skip


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    d = int(result.attrs["num_params"])
    few = digital(config, DIGITAL)
    caveats = [
        f"{config.task}; {config.users} users, all in every round, the data divided equally at random, batches of "
        f"{config.batch_size}, those of analog uploads clipped to {config.clip:g}; gains are 1; {config.repeats} seeds",
        f"a round has d = {d:,} uses of the channel and the energy {config.energy:g} d N0 of a user; '{PATIENT}' has "
        "91.384 d uses at most for the same energy",
        f"digital uploads send {few.get('k', d):,} of {d:,} coordinates in three levels, or all of them in "
        f"{2 * int(digital(config, PATIENT)['levels']) + 1}; Shannon's rate, which no code of so few bits has",
        f"Adam at {config.learning_rate:g}, and steps of {config.step:g} along the majority: rates not searched; "
        "downlink, pilots and the energy of receivers are not counted",
        f"joules at {config.path_loss_db:g} dB of path loss and -174 dBm/Hz; seconds in {config.hertz / 1e6:g} MHz",
        f"{int(result.failed.sum())} rounds of all runs failed",
    ]
    return Outcome(picture.figure(config, result, LEVEL), result, claims(config, result), caveats)


def crossing(users: int, energy: float, size: float = 1.0) -> float:
    """Uses over d at which the bound of digital uploads is level with analog ones, E = `energy` d N0."""
    analog = theory.analog_distortion(size, users, energy * size, 1.0)
    excess = lambda times: float(theory.digital_distortion(size, times * size, users, energy * size, 1.0) - analog)
    return float(np.asarray(brentq(excess, 0.1, 1e4)))


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    return [*_closed_forms(config, Measured.of(result)), *_trained(config, result)]


def _closed_forms(config: Config, white: Measured) -> list[Claim]:
    level, alone = crossing(20, 10.0), crossing(1, 10.0)
    analog, bound = (float(f(1.0, 20, 10.0, 1.0)) for f in (theory.analog_distortion, _at_d))
    distortions = Claim(
        "distortions", "simulated means of white updates are as far off as the closed forms say",
        "analog: equal; digital: above its bound", white.text(), white.holds(),
        "analog within 3 standard errors; digital above its bound by more than that",
        "three levels on few coordinates are far from the bound of the best codes", Source.OURS,
    )  # fmt: skip
    return [
        Claim(
            "level", "digital uploads of 20 users are level with analog ones at 91.384 d uses", f"{LEVEL} d",
            f"{level:.3f} d", abs(level - LEVEL) < 5e-4, "equal to the digits",
            "energy 10 d N0 of a user, unit gains, white Gaussian updates; closed forms", Source.OURS,
            control=f"of a single user at {alone:.2f} d: it is the adding up that costs digital uploads",
        ),
        Claim(
            "at-equal-uses", "with d uses, the mean of digital uploads is at least 153 times as far off", "153.4",
            f"{bound:.5f} / {analog:.5f} = {bound / analog:.1f}", bool(abs(bound / analog - 153.416) < 1e-2),
            "equal to the digits", "", Source.OURS,
        ),
        told_apart(distortions, white.rejects_fewer(), white.control()),
    ]  # fmt: skip


def _at_d(size: float, users: int, energy: float, noise: float) -> float:
    return float(theory.digital_distortion(size, size, users, energy, noise))


def _trained(config: Config, result: xr.Dataset) -> list[Claim]:
    at = lambda line: last(result.accuracy.sel(line=line), "iteration")
    ahead, vote, patient = gap(at(ANALOG), at(DIGITAL)), gap(at(VOTE), at(DIGITAL)), gap(at(PATIENT), at(ANALOG))
    d, budget = int(result.attrs["num_params"]), config.energy * int(result.attrs["num_params"])
    few = result.sel(line=[ANALOG, VOTE, DIGITAL])
    equal = bool((few.uses <= d * 1.001).all() and (result.energy <= budget * 1.001).all())
    spent = ", ".join(f"{line}: {few.uses.sel(line=line).item() / d:.2f} d" for line in few.line.values)
    ends = ", ".join(f"{line} {100 * at(line).mean().item():.1f}%" for line in result.line.values)
    over = float(result.uses.sel(line=PATIENT) / d)
    return [
        Claim(
            "equal", "the first three take no more than d uses and the energy E in a round", "at most d, E", spent,
            equal, "measured uses and energies", "", Source.OURS, control=f"'{PATIENT}' takes {over:.1f} d",
        ),
        Claim(
            "analog-ahead", "at equal uses and energy analog uploads learn more than digital ones", "above",
            f"{ahead.text()}; {ends}", decided(ahead.above()), "the interval of the difference is above 0", "",
            Source.OURS, why=Open.UNDECIDED,
        ),
        Claim(
            "vote-ahead", "so does the one-bit vote", "above", vote.text(), decided(vote.above()),
            "the interval of the difference is above 0", "", Source.OURS, why=Open.UNDECIDED,
        ),
        Claim(
            "patience", "with 91 times as many uses for the same energy, digital uploads learn as much as analog ones",
            "not 2 points below", patient.text(), decided(patient.at_least()),
            "the interval of the difference is above -2 points", "", Source.OURS, why=Open.UNDECIDED,
        ),
    ]  # fmt: skip
