"""FedBuff and FedAvg in virtual time, as many clients training at once, by how far the speeds of clients spread.

Jobs of a client are half-normal; the means of clients are lognormal, of mean 1, and `spread` is the deviation of their
logarithms. FedBuff makes a model of every 10 arrivals; a round of FedAvg takes as long as the slowest of its clients.
"""

import functools
from typing import NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, joined, told_apart
from experiments.comparison import IN_LAW, answer, decided, from_law, over_seeds
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome, span
from experiments.problem import Task, load, model_of
from fedjax_priv import clients, data, losses, metrics
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Key
from fedjax_priv.clients.job_times import job_times
from fedjax_priv.systems import fedavg, fedbuff

TASK = Task("digits")
TIE = float(np.log(1.05))
"""Of logarithms: ratios that are as good as 1."""
INTERVALS = "Student's 95% interval of logarithms over seeds"


class Config(NamedTuple):
    """The clients, and how many train at once."""

    num_clients: int = 80
    concurrency: int = 32
    buffer_size: int = 10
    spreads: tuple[float, ...] = (0.0, 0.5, 1.0)
    rounds: int = 150  # of FedAvg
    learning_rate: float = 0.5
    target: float = 0.85  # test accuracy
    repeats: int = 10
    seed: int = 0

    @property
    def flushes(self) -> int:
        """Of FedBuff, with as many jobs as FedAvg."""
        return self.rounds * self.concurrency // self.buffer_size


def run(config: Config) -> Outcome:
    """All runs, and what came of them."""
    return judge(config, runs(config))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    claims = [staleness(config, result), rate(config, result), *faster(config, result)]
    said = (
        f"digits, softmax regression, {config.num_clients} clients with equal laws of data, {config.concurrency} at "
        f"once, buffers of {config.buffer_size}, over {config.repeats} seeds; virtual time in mean jobs; {BANDS}"
    )
    return Outcome(draw(config, result), result, claims, [said])


def runs(config: Config, flushes: int | None = None) -> xr.Dataset:
    """Accuracy and virtual time after each round, by spread and seed, and the staleness of FedBuff's arrivals.

    FedBuff has `flushes` rounds, or as many jobs as FedAvg if that is not given.
    """
    keys = jax.random.split(jax.random.key(config.seed), config.repeats)
    speeds = np.stack([mean_times(config, spread) for spread in config.spreads])
    buffered, synchronous = _systems(config)
    each = functools.partial(_run, config, buffered, flushes or config.flushes)
    ours = jax.lax.map(lambda mean: jax.lax.map(functools.partial(each, mean), keys), speeds)
    rounds = jax.lax.map(functools.partial(_run, config, synchronous, config.rounds, None), keys)
    waits = np.stack(
        [[_waits(config, key, who, mean) for key, who in zip(keys, rounds["client"], strict=True)] for mean in speeds]
    )
    ours, rounds = jax.device_get((ours, rounds))
    by = "spread", "seed"
    accuracy = np.broadcast_to(rounds["accuracy"], (len(speeds), *rounds["accuracy"].shape))
    return xr.Dataset(
        {
            "buffered_accuracy": ((*by, "flush"), ours["accuracy"]), "buffered_time": ((*by, "flush"), ours["time"]),
            "staleness": ((*by, "flush"), ours["staleness"].mean(-1)),
            "left_out": (by, ours["too_stale"].mean((-1, -2))),
            "accuracy": ((*by, "round"), accuracy), "time": ((*by, "round"), waits.cumsum(-1)),
        },
        {"spread": list(config.spreads)},
    )  # fmt: skip


def mean_times(config: Config, spread: float) -> np.ndarray:
    """Mean time of a job of each client, `[n]`: quantiles of a lognormal law, in random order, of mean 1."""
    from scipy.special import ndtri

    rng = np.random.default_rng(config.seed)
    times = np.exp(spread * ndtri((np.arange(config.num_clients) + 0.5) / config.num_clients))
    return (rng.permutation(times) / times.mean()).astype(np.float32)


def _systems(config: Config) -> tuple:
    """Functions from mean times to the two systems."""
    local = clients.local_sgd(
        losses.softmax_cross_entropy(model_of(TASK)), learning_rate=config.learning_rate, batch_size=10, num_epochs=1
    )
    buffered = lambda mean: fedbuff(
        local, num_clients=config.num_clients, buffer_size=config.buffer_size, concurrency=config.concurrency,
        mean_time=mean, mesh=None,
    )  # fmt: skip
    return buffered, lambda mean: fedavg(local, cohort_size=config.concurrency, mesh=None)


def _run(config: Config, make, rounds: int, mean: jax.Array | None, key: Key) -> dict[str, jax.Array]:
    """What is measured after each round of a run."""
    whole, model, system = load(TASK), model_of(TASK), make(mean)
    held = data.federate(whole, config.num_clients, "iid", seed=config.seed)
    accuracy = metrics.accuracy(model, whole.x_test, whole.y_test)

    def step(state, _):
        state, info = system.step(key, state, held)
        told = {name: info.measured[name] for name in ("staleness", "too_stale") if name in info.measured}
        time = {"time": info.measured["virtual_time"][0]} if told else {}
        return state, {"accuracy": accuracy(state.params)["accuracy"], "client": info.client, **told, **time}

    return jax.lax.scan(step, system.init(key, model.init(key), held), length=rounds)[1]


def _waits(config: Config, key: Key, client: jax.Array, mean: np.ndarray) -> np.ndarray:
    """How long each round of FedAvg takes: the longest job of its cohort, `[rounds]`."""
    keys = jax.random.split(key, client.shape)
    return np.asarray(jax.vmap(job_times("half_normal", mean).draw)(keys, client).max(1))


def staleness(config: Config, result: xr.Dataset) -> Claim:
    """(M - 1) / K, whoever is how fast; the control is M / K."""
    late = result.staleness.isel(flush=slice(30, None)).mean("flush")
    expected = (config.concurrency - 1) / config.buffer_size
    found, other = from_law(late, expected), from_law(late, config.concurrency / config.buffer_size)
    claim = Claim(
        "staleness", "an arrival is (M - 1) / K rounds behind on average, however speeds spread", f"{expected:.2f}",
        span(late.mean("seed").values), decided(found.vanishes()), f"at every spread {IN_LAW}", "", Source.OURS,
        Open.UNDECIDED,
    )  # fmt: skip
    away = ", ".join(f"{other.sel(spread=spread).text(1)}" for spread in late.spread.values)
    return told_apart(claim, bool((other.vanishes() < 0).any()), f"less M / K it is {away}")


def rate(config: Config, result: xr.Dataset) -> Claim:
    """M / (K E[L]) flushes per unit of time, where all clients have E[L] = 1."""
    time = result.buffered_time.isel(flush=-1) - result.buffered_time.isel(flush=30)
    rates, expected = (result.sizes["flush"] - 31) / time, config.concurrency / config.buffer_size
    equal, widest = (rates.isel(spread=place, drop=True) for place in (0, -1))
    near = abs(equal.mean() / expected - 1) < 0.05
    claim = Claim(
        "flushes", "with equal clients the server has M / (K E[L]) new models per unit of time", f"{expected:.2f}",
        f"{float(equal.mean()):.2f}",
        decided(xr.concat([from_law(equal, expected).vanishes(), answer(near, ~near)], "rule")),
        f"within 5%, and {IN_LAW}", "", Source.OURS, Open.UNDECIDED,
    )  # fmt: skip
    control = f"at spread {config.spreads[-1]:g}, where the fast take part more often, {float(widest.mean()):.2f}"
    return told_apart(claim, decided(from_law(widest, expected).vanishes()) is False, control)


def time_to(config: Config, accuracy: xr.DataArray, time: xr.DataArray, along: str) -> xr.DataArray:
    """Virtual time at which the accuracy first reaches the target; infinite if it never does."""
    return time.where(accuracy >= config.target).min(along).fillna(np.inf)


def jobs_to(config: Config, accuracy: xr.DataArray, along: str, size: int) -> xr.DataArray:
    """Jobs of `size` in each round until the accuracy first reaches the target; infinite if it never does."""
    reached = accuracy >= config.target
    return ((reached.argmax(along) + 1.0) * size).where(reached.any(along), np.inf)


def missed(*taken: xr.DataArray) -> str:
    """A note on runs that never reach the target, empty if all do."""
    never, runs = (int(sum(count(each) for each in taken)) for count in (lambda each: np.isinf(each).sum(), np.size))
    return f"{never} of {runs} runs never reach the target: they count as longer than they last" if never else ""


def log_ratio(one: xr.DataArray, other: xr.DataArray) -> xr.DataArray:
    """Run by run; unknown where one of the two never reached the target."""
    known = np.isfinite(one) & np.isfinite(other)
    return xr.apply_ufunc(np.log, (one / other).where(known))


class Within(NamedTuple):
    """Bounds of a logarithm of ratios, run by run; NaN where there is no bound."""

    least: xr.DataArray
    most: xr.DataArray

    def minus(self, other: "Within") -> "Within":
        """Bounds of the difference."""
        return Within(self.least - other.most, self.most - other.least)

    def above(self) -> xr.DataArray:
        """Whether it is above 0: yes where its least is, and no where its most is not."""
        least, most = (over_seeds(bound).above(margin=TIE) for bound in self)
        return answer(least > 0, most < 0)


def within(one: xr.DataArray, other: xr.DataArray, ends: tuple[xr.DataArray | float, ...]) -> Within:
    """Of what runs take until the target, one over the other; `ends` is what whole runs of the two take.

    A run that does not reach the target takes longer than its end.
    """
    one_at_least, other_at_least = one.clip(max=ends[0]), other.clip(max=ends[1])
    return Within(log_ratio(one_at_least, other), log_ratio(one, other_at_least))


def faster(config: Config, result: xr.Dataset) -> list[Claim]:
    """How much earlier the target is reached, and that this grows with the spread."""
    ours = time_to(config, result.buffered_accuracy, result.buffered_time, "flush")
    theirs = time_to(config, result.accuracy, result.time, "round")
    ahead = log_ratio(theirs, ours)
    ends = result.time.isel(round=-1), result.buffered_time.isel(flush=-1)
    our_jobs = jobs_to(config, result.buffered_accuracy, "flush", config.buffer_size).isel(spread=0)
    their_jobs = jobs_to(config, result.accuracy, "round", config.concurrency).isel(spread=0)
    all_jobs = result.sizes["round"] * config.concurrency, result.sizes["flush"] * config.buffer_size
    work, lead = over_seeds(log_ratio(their_jobs, our_jobs)), within(theirs, ours, ends)
    times = np.exp(ahead.mean("seed").values)
    said = ", ".join(f"{t:.1f} times at {s:g}" for t, s in zip(times, config.spreads, strict=True))
    return [
        Claim(
            "faster", f"FedBuff has {config.target:.0%} accuracy earlier than FedAvg, at every spread of speeds", "",
            said, decided(lead.above()), f"the ratio of times is above 1; {INTERVALS}", missed(ours, theirs),
            Source.OURS, Open.UNDECIDED,
        ),
        Claim(
            "spread", "the wider speeds spread, the more", "", said, decided(steps(lead).above()),
            f"the ratio grows from each spread to the next; {INTERVALS}", missed(ours, theirs), Source.OURS,
            Open.UNDECIDED,
        ),
        Claim(
            "jobs", "stale updates cost no more training, with equal clients", "",
            f"{np.exp(-float(work.mean)):.2f} times the jobs of FedAvg",
            decided(within(their_jobs, our_jobs, all_jobs).above()),
            f"fewer jobs than FedAvg until the target; {INTERVALS}",
            joined(
                f"FedBuff makes {config.concurrency / config.buffer_size:g} models of as many jobs as one of FedAvg's",
                missed(our_jobs, their_jobs),
            ),
            Source.OURS, Open.UNDECIDED,
        ),
    ]  # fmt: skip


def steps(ahead: Within) -> Within:
    """From each spread to the next."""
    part = lambda places: Within(*(bound.isel(spread=places).drop_vars("spread") for bound in ahead))
    return part(slice(1, None)).minus(part(slice(-1)))


def draw(config: Config, result: xr.Dataset) -> Figure:
    """A panel for each spread: accuracy over virtual time."""
    figure = Figure(figsize=(3.9 * len(config.spreads) + 0.4, 3.6), layout="constrained")
    panels = figure.subplots(1, len(config.spreads), squeeze=False, sharey=True)[0]
    for axes, spread in zip(panels, config.spreads, strict=True):
        draw_curves(axes, result.sel(spread=spread), config.target)
        finish(axes, f"spread {spread:g}", xlabel="virtual time, mean jobs", ylabel="test accuracy")
    return figure


def draw_curves(axes: Axes, at: xr.Dataset, target: float) -> None:
    """Accuracy of FedBuff and FedAvg over virtual time, interpolated to the same times for all seeds."""
    curves = {"FedBuff": (at.buffered_accuracy, at.buffered_time), "FedAvg": (at.accuracy, at.time)}
    for (name, (accuracy, time)), colour in zip(curves.items(), COLOURS, strict=False):
        grid = np.linspace(float(time[:, 0].max()), float(time[:, -1].min()), 100)
        values = [np.interp(grid, t, a) for a, t in zip(accuracy.values, time.values, strict=True)]
        lines = xr.DataArray(values, {"virtual time": grid}, ("seed", "virtual time"))
        band(axes, lines, "virtual time", name, colour)
    axes.axhline(target, color="grey", linewidth=0.8, linestyle=":")
