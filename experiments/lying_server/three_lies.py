"""What a server reads of a secure sum that lies about survivors, hands out different models, or repeats a round.

Each lie is told with its defence and without.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, told_apart
from experiments.comparison import IN_LAW, decided, from_law
from experiments.drawing import finish
from experiments.harness import Outcome, span
from experiments.lying_server.detectors import detected
from experiments.lying_server.measured import lists_read, models_read, trained
from experiments.lying_server.replays import price, refused, replays
from experiments.lying_server.setting import COHORT, ENOUGH, LEAVE, Config
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory.lying_server import expected_successes, smallest_checked_sum, smallest_sum

HALF = 0.5
"""Of a round: nearly none, or nearly all, may succeed in every run, whose deviation is then 0."""


def run(config: Config) -> Outcome:
    """All lies, and what came of them."""
    updates = trained(config)
    parts = lists_read(config, updates), models_read(config, updates), replays(config, updates), refused(config)
    return judge(config, xr.merge([*parts, detected(config), price(config)]))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    said = (
        f"{config.task}; {config.num_clients} clients, IID, of whom {config.threshold} shares open a secret; "
        "signatures are ideal, the digest of a model is simulation-grade"
    )
    return Outcome(draw(config, result), result, claims(config, result), [said])


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """All ours."""
    n, t = config.num_clients, config.threshold
    formula = [smallest_sum(n, t, c) for c in config.colluding]
    checked = [smallest_checked_sum(n, t, c) for c in config.colluding]
    few = result.unchecked < result.truth
    ours, free, bound = Source.OURS, result.sel(bound=False), result.sel(bound=True)
    return [
        Claim(
            "few", "told different survivors, clients open a sum over as few honest clients as the formula says",
            ", ".join(map(str, formula)), ", ".join(map(str, result.unchecked.values)),
            bool((result.unchecked == formula).all() and result.wrong_sums.sum() == 0 and few.all()),
            "at each number of colluders, over fewer than if told the truth, and each sum read is right", source=ours,
            control=f"told the truth they open sums over {span(result.truth)} honest clients",
        ),
        Claim(
            "check", "if clients compare their lists they open nothing to different ones", "0 clients",
            f"{int(result.opened.max())} clients", bool((result.opened == 0).all() and (result.one_list > 0).all()),
            "at each number of colluders, and something to one list",
            source=ours, control=f"one list for all, of {t} clients, is opened: sums over {span(result.one_list)}",
        ),
        Claim(
            "floor", "and the smallest sum is over all honest clients of one list", ", ".join(map(str, checked)),
            ", ".join(map(str, result.one_list.values)), bool((result.one_list == checked).all()),
            "at each number of colluders", source=ours, control="without the check it is smaller, see above",
        ),
        Claim(
            "stripped", "with dead models for all others the secure sum is the target's update", "0",
            f"relative distance {float(free.lied):.2g}", bool(free.lied < 1e-2 < free.honest),
            "below 0.01, but for the output's bias, and above it of an honest server", source=ours,
            control=f"with one model for all it is {float(free.honest):.2g}",
        ),
        Claim(
            "bound", "masks that depend on the model leave noise in that sum, and honest sums as they are",
            "far from 0; the same bits", f"relative distance {float(bound.lied):.2g}",
            bool(bound.lied > 100) and bool(result.same_honest_sum), "above 100, and each honest sum the same",
            source=ours, control=f"without the dependence it is {float(free.lied):.2g}",
        ),
        Claim(
            "replay", "two attempts of a round, one without a client, give its update away though lists are compared",
            f"within {n} grid points",
            f"{float(result.replay_error):.3g} of {float(result.replay_size):.3g} grid points",
            bool(result.replay_error < n < min(result.replay_moved, result.replay_size)),
            f"fewer than {n}, by less than one of each client: either attempt rounds each update anew", source=ours,
            control=f"if updates are others in the second attempt, {float(result.replay_moved):.3g} grid points",
        ),
        *_of_refusals(config, result),
        *_of_detectors(config, result),
    ]  # fmt: skip


def _of_refusals(config: Config, result: xr.Dataset) -> list[Claim]:
    """Of clients that train no model twice."""
    runs = result.successes.rename(run="seed")
    near = from_law(runs, result.expected_successes).vanishes(HALF)
    refusing, free = (runs.sel(refuse=refuse, drop=True) for refuse in (True, False))
    other = from_law(refusing, result.expected_successes.sel(refuse=False, drop=True)).vanishes(HALF)
    many = lambda values: ", ".join(f"{one:.1f}" for one in values)
    price = Claim(
        "price", f"of {config.attempts} rounds as many succeed as a Markov chain says, if clients refuse",
        many(result.expected_successes.sel(refuse=True).values), many(refusing.mean("seed").values), decided(near),
        f"{IN_LAW}, or within {HALF:g} of a round; so if they do not refuse",
        f"cohorts of {COHORT} from populations of {', '.join(map(str, config.populations))}; {LEAVE:.0%} leave, "
        f"{ENOUGH} must be there", source=Source.OURS, why=Open.UNDECIDED,
    )  # fmt: skip
    return [
        Claim(
            "refuse", "clients that train no model twice send nothing the second time", "0 clients",
            f"{int(result.refused_size)} clients", bool(result.refused_size == 0 < result.nudged_size),
            "nobody is in the second sum, and somebody if the model is another one", source=Source.OURS,
            control=f"of another model, as below, it is over {int(result.nudged_size)} clients",
        ),
        Claim(
            "nudge", "a model of which one number is changed by the least step is another one, and gives it away", "0",
            f"relative distance {float(result.nudged_error):.2g}",
            bool(result.nudged_error < 1e-2 < result.refused_error), "below 0.01, and above it with the very model",
            source=Source.OURS, control=f"with the very model it is {float(result.refused_error):.2g}",
        ),
        told_apart(price, bool((other < 0).any()), f"if they do not refuse, {many(free.mean('seed').values)}"),
    ]  # fmt: skip


def _of_detectors(config: Config, result: xr.Dataset) -> list[Claim]:
    """Of an image that the server looks for."""
    at = lambda server, bound: float(result.advantage.sel(server=server, bound=bound))
    honest = [at("honest", bound) for bound in (False, True)]
    return [
        Claim(
            "detector", "a unit that fires on one image says through the secure sum whether the target has it", "1",
            f"advantage {at('to the target', False):.2f}",
            at("to the target", False) >= 0.9 and max(map(abs, honest)) <= 0.1,
            f"at least 0.9, over {config.trials} images, and at most 0.1 of an honest server", source=Source.OURS,
            control=f"of an honest server it is {max(honest, key=abs):.2f}",
        ),
        Claim(
            "detector-bound", "masks that depend on the model hide it", "0", f"{at('to the target', True):.2f}",
            abs(at("to the target", True)) <= 0.1, "at most 0.1", source=Source.OURS,
            control=f"without the dependence it is {at('to the target', False):.2f}",
        ),
        Claim(
            "detector-all", "but they change nothing if all are given the same tampered model, and hardly an image of "
            "others fires its unit", f"{at('to all', False):.2f}", f"{at('to all', True):.2f}",
            at("to all", True) == at("to all", False) > 0.5 > at("to all, another has it", True),
            "as without the dependence, and above 0.5, which it is not if another client has it", source=Source.OURS,
            control=f"if another client has it too, {at('to all, another has it', True):.2f}",
        ),
    ]  # fmt: skip


def draw(config: Config, result: xr.Dataset) -> Figure:
    """Sizes of sums by colluders; what is read of the target, by lie; the price of refusals."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    (lists, models), (images, prices) = figure.subplots(2, 2)
    _draw_lists(config, result, lists)
    _draw_updates(result, models)
    _draw_detectors(result, images)
    _draw_prices(config, result, prices)
    return figure


def _draw_lists(config: Config, result: xr.Dataset, axes: Axes) -> None:
    n, t, c = config.num_clients, config.threshold, np.arange(max(config.colluding) + 1)
    for name, label, colour, theory in (
        ("truth", "told the truth", COLOURS[2], lambda c: n - c),
        ("one_list", "lists are compared", COLOURS[0], lambda c: smallest_checked_sum(n, t, int(c))),
        ("unchecked", "different lists", COLOURS[3], lambda c: smallest_sum(n, t, int(c))),
    ):
        axes.plot(c, [theory(one) for one in c], color=colour, linewidth=1, linestyle="--")
        axes.plot(result.colluding, result[name], "o", color=colour, label=label)
    axes.set_ylim(0, n + 1)
    finish(axes, f"{n} clients, threshold {t} (dashed: formula)", xlabel="clients that collude",
           ylabel="honest clients in the smallest sum")  # fmt: skip


def _draw_updates(result: xr.Dataset, axes: Axes) -> None:
    replayed = float(result.replay_error / result.replay_size), float(result.replay_moved / result.replay_size)
    bars = {
        "one\nmodel": float(result.honest.sel(bound=False)), "dead\nmodels": float(result.lied.sel(bound=False)),
        "dead,\nbound": float(result.lied.sel(bound=True)), "replay": replayed[0], "replay,\nothers": replayed[1],
        "replay,\nrefused": float(result.refused_error), "replay,\nnudged": float(result.nudged_error),
    }  # fmt: skip
    read, hidden, not_told = COLOURS[3], COLOURS[0], COLOURS[2]
    axes.bar([*bars], [*bars.values()], color=[not_told, read, hidden, read, not_told, hidden, read], width=0.6)
    axes.set_yscale("log")
    axes.axhline(1, color="grey", linestyle=":", linewidth=1)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_title("What is read, and the update of the target", fontsize=10)
    axes.set_ylabel("relative error")


def _draw_detectors(result: xr.Dataset, axes: Axes) -> None:
    places = np.arange(result.sizes["server"])
    for bound, label, colour, shift in ((False, "masks", COLOURS[3], -0.2), (True, "bound masks", COLOURS[0], 0.2)):
        bars = axes.bar(places + shift, result.advantage.sel(bound=bound), 0.36, color=colour, label=label)
        axes.bar_label(bars, fmt="%.2f", fontsize=8)
    labels = ["honest\nserver", "detector to\nthe target", "detector\nto all", "detector to all,\nanother has it"]
    axes.set_xticks(places, labels, fontsize=8)
    finish(axes, "Does the target have this image?", ylabel="advantage of the server", ymargin=0.2)


def _draw_prices(config: Config, result: xr.Dataset, axes: Axes) -> None:
    sizes = np.geomspace(2 * COHORT, 2 * max(config.populations), 20).astype(int)
    for refuse, label, colour in (
        (False, "train whatever comes", COLOURS[2]),
        (True, "train no model twice", COLOURS[0]),
    ):
        law = [
            expected_successes(int(n), COHORT, ENOUGH, config.attempts, loss=LEAVE, refuse=refuse) for n in sizes
        ]  # fmt: skip
        axes.plot(sizes, law, "--", color=colour, linewidth=1)
        runs = result.successes.sel(refuse=refuse)
        axes.plot(result.population, runs.mean("run"), "o", color=colour, label=label)
    axes.set_ylim(0, config.attempts)
    axes.set_xscale("log")
    axes.set_xticks(result.population.values, result.population.values)
    axes.minorticks_off()
    finish(axes, f"Cohorts of {COHORT}, {ENOUGH} needed, {LEAVE:.0%} leave (dashed: formula)", xlabel="clients",
           ylabel=f"rounds of {config.attempts} that succeed")  # fmt: skip
