"""All private systems on one problem, at equal proved eps: what it costs to trust the server less, or to hide a client.

The noise of each system is calibrated by its own ledger, for replacement: by a client's whole data where a client is
hidden, by a sample where a sample is.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from jaxtyping import PyTree
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, controlled
from experiments.comparison import CLEAR, Gap, decided, gap, last
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome
from experiments.problem import Task, load, model_of, num_params, num_samples
from fedjax_priv import data, losses, metrics, server_noise, systems
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, ClientData, Key, Local
from fedjax_priv.clients import local_sgd
from fedjax_priv.ledger import Entry, ledger, noise_for, worst
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.theory.correlated_noise import optimal_banded

PLAIN = "no noise"


class Config(NamedTuple):
    """The picture at one scale."""

    task: Task
    num_clients: int
    rounds: int
    groups: int  # cohorts that take turns; a client's coin has this rate
    clip: float = 1.0
    sample_clip: float = 1.0
    learning_rate: float = 0.5
    batch_size: int = 10
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    delta: float = 1e-3
    repeats: int = 3
    seed: int = 0


class System(NamedTuple):
    """A private system, with one number that is its noise."""

    make: Callable[..., Algorithm]  # noise -> system
    view: str  # from whom the figure protects
    hidden: str  # "client" or "sample"
    colour: str
    static: bool = False  # its noise must be known when it is compiled


def run(config: Config) -> Outcome:
    return judge(config, runs(config))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    return Outcome(draw(config, result), result, claims(config, result), caveats(config))


def systems_of(config: Config) -> dict[str, System]:
    """By name; the first two trust the server, the others do not."""
    n, d, clip, bands = config.num_clients, num_params(config.task), config.clip, config.groups
    local, column = local_of(config), optimal_banded(config.rounds, config.groups)
    common: dict[str, Any] = {"num_clients": n, "mesh": None}
    return {
        "DP-FedAvg, coins": System(
            lambda z: systems.dp_fedavg(local, clip=clip, noise_multiplier=z, sampling_rate=1 / bands, **common),
            "outsider", "client", COLOURS[0],
        ),
        "DP-FedAvg, banded noise": System(
            lambda z: systems.dp_fedavg(
                local, clip=clip, noise_multiplier=z, cohort_size=n // bands, separation=bands,
                noise=server_noise.banded(column), **common,
            ),
            "outsider", "client", COLOURS[5],
        ),
        "discrete Gaussian in the sum": System(
            lambda z: systems.distributed_dp_fedavg(
                local, clip=clip, noise_multiplier=z, num_params=d, shares=n, elide=True, **common
            ),
            "server", "client", COLOURS[1], static=True,
        ),
        "wireless": System(
            lambda v: systems.wireless(local, clip=clip, noise_variance=v**2, receiver_noise=0.0, participation=1.0,
                                       mesh=None),
            "server", "client", COLOURS[4],
        ),
        "noise at steps, in a secure sum": System(
            lambda sigma: systems.cdp_fl(noisy(config, sigma), elide=True, **common), "server", "sample", COLOURS[2]
        ),
        "noise at steps, all collude": System(
            lambda sigma: systems.cdp_fl(noisy(config, sigma), elide=True, **common), "everybody", "sample", COLOURS[3]
        ),
    }  # fmt: skip


def local_of(config: Config) -> Local:
    """An epoch of each client on its own samples."""
    loss = losses.softmax_cross_entropy(model_of(config.task))
    return local_sgd(loss, learning_rate=config.learning_rate, batch_size=config.batch_size, num_epochs=1)


def noisy(config: Config, sigma: float) -> Local:
    """One step on all samples, clipped one by one, with noise."""
    loss = losses.softmax_cross_entropy(model_of(config.task))
    return local_sgd(
        loss, learning_rate=2 * config.learning_rate, batch_size=samples(config), num_steps=1,
        sample_clip=config.sample_clip, gradient_noise=sigma,
    )  # fmt: skip


@functools.cache
def dataset(task: Task) -> data.Dataset:
    """Read once."""
    return load(task)


def samples(config: Config) -> int:
    """Of each client."""
    return num_samples(config.task) // config.num_clients


def clients_of(config: Config) -> ClientData:
    """Equal numbers of samples, so that eps of a sample is the same for all clients."""
    whole = dataset(config.task)
    kept = samples(config) * config.num_clients
    order = np.random.default_rng(config.seed).permutation(len(whole.y_train))[:kept]
    return data.stack_clients((whole.x_train, whole.y_train), np.split(order, config.num_clients))


def entry_of(system: System) -> Callable[[list[Entry]], Entry | None]:
    """The first figure of replacement for whom the system protects from."""

    def chosen(entries: list[Entry]) -> Entry | None:
        fits = lambda entry: entry.view == system.view and entry.neighbours == "replacement"
        return next((entry for entry in entries if fits(entry) and entry.proved.epsilon is not None), None)

    return chosen


def runs(config: Config) -> xr.Dataset:
    """`accuracy` and `noise` by `system` and `epsilon`, `proved` eps of the finished runs, `plain` without noise."""
    own, params, key = clients_of(config), model_of(config.task).init(jax.random.key(0)), jax.random.key(config.seed)
    found = [one_system(config, own, params, key, system) for system in systems_of(config).values()]
    whole = xr.concat(found, "system").assign_coords(system=list(systems_of(config)))
    return whole.assign(plain=without_noise(config, own, params, key))


def one_system(config: Config, own: ClientData, params: PyTree, key: Key, system: System) -> xr.Dataset:
    """Its accuracy at the end by `epsilon` and `seed`."""
    noise = [
        noise_for(system.make, key, params, own, eps, delta=config.delta, rounds=config.rounds, chosen=entry_of(system))
        for eps in config.epsilons
    ]
    axes = {"noise": noise, "seed": range(config.repeats)}
    result = sweep(
        lambda noise: system.make(noise), axes, key, model_of(config.task).init, own, rounds=config.rounds,
        evaluate=scores(config), every=config.rounds, static=["noise"] if system.static else [], progress=False,
    )  # fmt: skip
    finished = [result.isel(noise=place, seed=0) for place in range(len(noise))]
    proved = [proved_of(system, *each, own, config) for each in zip(noise, finished, strict=True)]
    accuracy = last(result.accuracy, "evaluation").rename(noise="epsilon").assign_coords(epsilon=list(config.epsilons))
    by_eps = lambda values: ("epsilon", values)
    return xr.Dataset({"accuracy": accuracy, "noise": by_eps(noise), "proved": by_eps(proved)})


def proved_of(system: System, noise: float, run: xr.Dataset, own: ClientData, config: Config) -> float:
    """Eps of a finished run with so much noise, by its ledger."""
    entry = entry_of(system)(ledger(system.make(noise), run, own, delta=config.delta))
    assert entry is not None
    return float(worst(entry.proved) or 0.0)


def without_noise(config: Config, own: ClientData, params: PyTree, key: Key) -> float:
    """FedAvg's accuracy."""
    result = simulate(
        systems.fedavg(local_of(config), mesh=None), key, params, own, rounds=config.rounds, evaluate=scores(config),
        every=config.rounds, progress=False,
    )  # fmt: skip
    return float(result.accuracy[-1])


def scores(config: Config) -> Callable[..., dict]:
    """On the test set."""
    whole = dataset(config.task)
    return metrics.accuracy(model_of(config.task), whole.x_test, whole.y_test)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    reached = result.proved / result.epsilon
    most, low = float(reached.max()), float(reached.min())
    ends = gap(result.accuracy.isel(epsilon=-1), result.accuracy.isel(epsilon=0))
    at = lambda name: result.accuracy.sel(system=name)
    trusted = gap(at("DP-FedAvg, coins"), at("discrete Gaussian in the sum"))
    return [
        Claim(
            "equal", "all systems have the eps they are drawn at", "1", f"{low:.4f} to {most:.4f} times it",
            bool(low >= 0.999 and most <= 1 + 1e-9), "eps of the finished run, by its ledger, over that asked for",
            note="noise was chosen before the run, from the cohorts that were to come", source=Source.OURS,
        ),
        Claim(
            "bites", "noise costs accuracy in every system", "", "; ".join(
                f"{name} {ends.sel(system=name).text()}" for name in result.system.values
            ),
            decided(ends.above(CLEAR)), f"the largest eps above the smallest by {100 * CLEAR:g} points at least",
            source=Source.OURS, why=Open.UNDECIDED,
        ),
        Claim(
            "trust", "to trust the server pays: DP-FedAvg with coins is above noise of the clients", "",
            points(trusted), decided(trusted.above()), "the difference above 0 at every eps", source=Source.OURS,
            why=Open.UNDECIDED,
        ),
        summed(at("noise at steps, in a secure sum"), at("noise at steps, all collude")),
    ]  # fmt: skip


def summed(sums: xr.DataArray, alone: xr.DataArray) -> Claim:
    """Where noise that hides each upload alone costs something: the control is the accuracy at the largest eps."""
    apart, cost = gap(sums, alone), gap(alone.isel(epsilon=-1, drop=True), alone)
    bites = cost.bites(CLEAR)
    tested = bites.epsilon.values[bites.values > 0].tolist()
    some = True if tested else None if bool((bites == 0).any()) else False
    claim = Claim(
        "summed", "noise that adds up in a secure sum costs less than noise that hides each upload alone", "",
        points(apart), decided(apart.sel(epsilon=tested).above()) if tested else None,
        f"the difference above 0 at every eps where the latter surely costs {100 * CLEAR:g} points",
        f"tested at eps = {', '.join(f'{eps:g}' for eps in tested) or 'none'}", Source.OURS, Open.UNDECIDED,
    )  # fmt: skip
    return controlled(claim, some, f"noise that hides each upload alone costs {points(cost)} points, by eps")


def points(differences: Gap) -> str:
    """By eps."""
    return ", ".join(differences.sel(epsilon=eps).text() for eps in differences.mean.epsilon.values)


def caveats(config: Config) -> list[str]:
    known = systems_of(config)
    of = lambda **like: ", ".join(
        name for name, system in known.items() if all(getattr(system, field) == value for field, value in like.items())
    )
    return [
        f"{config.num_clients} clients of {samples(config)} samples, {config.task}, {config.rounds} rounds; delta = "
        f"{config.delta:g}; nothing was tuned by system",
        f"a client is replaced: {of(hidden='client')}; a sample is replaced: {of(hidden='sample')}",
        f"figures against an outsider: {of(view='outsider')}; the server: {of(view='server')}; the server and all "
        f"other clients: {of(view='everybody')}",
        BANDS,
    ]  # fmt: skip


def draw(config: Config, result: xr.Dataset) -> Figure:
    """Accuracy against eps; where a sample is hidden the line is dashed."""
    picture = Figure(figsize=(6.4, 4), layout="constrained")
    axes = picture.subplots()
    for name, system in systems_of(config).items():
        label = f"{name} ({system.hidden}, {system.view})"
        style = "-" if system.hidden == "client" else "--"
        band(axes, result.accuracy.sel(system=name), "epsilon", label, system.colour, style)
    axes.axhline(float(result.plain), color="grey", linestyle=":", label=PLAIN)
    finish(axes, "(who is hidden, from whom)", xlabel=f"proved eps at delta = {config.delta:g}", ylabel="test accuracy",
           xscale="log", ylim=(0, 1))  # fmt: skip
    return picture
