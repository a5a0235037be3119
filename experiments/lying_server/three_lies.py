"""What a server reads of a secure sum that lies about survivors, hands out different models, or repeats a round.

Each lie is told with its defence and without.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim, Source
from experiments.drawing import finish
from experiments.harness import COLOURS, Outcome, span
from experiments.lying_server.measured import Config, lists_read, models_read, replays, trained
from fedjax_priv.theory.lying_server import smallest_checked_sum, smallest_sum


def run(config: Config) -> Outcome:
    """All lies, and what came of them."""
    updates = trained(config)
    found = lists_read(config, updates).merge(models_read(config, updates)).merge(replays(config, updates))
    return judge(config, found)


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
    ours, free, bound = Source.OURS, result.sel(bound=False), result.sel(bound=True)
    return [
        Claim(
            "few", "told different survivors, clients open a sum over as few honest clients as the formula says",
            ", ".join(map(str, formula)), ", ".join(map(str, result.unchecked.values)),
            bool((result.unchecked == formula).all() and result.wrong_sums.sum() == 0),
            "at each number of colluders, and each sum read is right", source=ours,
            control=f"told the truth they open sums over {span(result.truth)} honest clients",
        ),
        Claim(
            "check", "if clients compare their lists they open nothing to different ones", "0 clients",
            f"{int(result.opened.max())} clients", bool((result.opened == 0).all()), "at each number of colluders",
            source=ours, control=f"one list for all, of {t} clients, is opened: sums over {span(result.one_list)}",
        ),
        Claim(
            "floor", "and the smallest sum is over all honest clients of one list", ", ".join(map(str, checked)),
            ", ".join(map(str, result.one_list.values)), bool((result.one_list == checked).all()),
            "at each number of colluders", source=ours, control="without the check it is smaller, see above",
        ),
        Claim(
            "stripped", "with dead models for all others the secure sum is the target's update", "0",
            f"relative distance {float(free.lied):.2g}", bool(free.lied < 1e-2),
            "below 0.01, but for the output's bias", source=ours,
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
            f"within {2 * n} grid points",
            f"{float(result.replay_error):.3g} of {float(result.replay_size):.3g} grid points",
            bool(result.replay_error <= 2 * n), f"at most {2 * n}: either attempt rounds each update anew", source=ours,
            control=f"if updates are others in the second attempt, {float(result.replay_moved):.3g} grid points",
        ),
    ]  # fmt: skip


def draw(config: Config, result: xr.Dataset) -> Figure:
    """Sizes of sums by colluders; distances of what is read from the target's update."""
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    n, t, c = config.num_clients, config.threshold, np.arange(max(config.colluding) + 1)
    for name, label, colour, theory in (
        ("truth", "told the truth", COLOURS[2], lambda c: n - c),
        ("one_list", "lists are compared", COLOURS[0], lambda c: smallest_checked_sum(n, t, int(c))),
        ("unchecked", "different lists", COLOURS[3], lambda c: smallest_sum(n, t, int(c))),
    ):
        left.plot(c, [theory(one) for one in c], color=colour, linewidth=1, linestyle="--")
        left.plot(result.colluding, result[name], "o", color=colour, label=label)
    left.set_ylim(0, n + 1)
    finish(left, f"{n} clients, threshold {t} (dashed: formula)", xlabel="clients that collude",
           ylabel="honest clients in the smallest sum")  # fmt: skip
    replayed = float(result.replay_error / result.replay_size), float(result.replay_moved / result.replay_size)
    bars = {
        "one model": float(result.honest.sel(bound=False)), "dead models": float(result.lied.sel(bound=False)),
        "dead models,\nbound masks": float(result.lied.sel(bound=True)), "replay": replayed[0],
        "replay,\nother updates": replayed[1],
    }  # fmt: skip
    colours = [COLOURS[2], COLOURS[3], COLOURS[0], COLOURS[3], COLOURS[2]]
    right.bar([*bars], [*bars.values()], color=colours, width=0.6)
    right.set_yscale("log")
    right.axhline(1, color="grey", linestyle=":", linewidth=1)
    right.tick_params(axis="x", labelsize=7)
    right.set_title("What is read, and the update of the target", fontsize=10)
    right.set_ylabel("relative error")
    return figure
