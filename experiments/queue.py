"""Make cards at scale `paper`, the most valuable first, for a given time: `python -m experiments.queue --minutes 30`.

A card that time does not suffice for is stopped at a checkpoint, as is one during which Ctrl-C or SIGTERM comes. The
same command later continues it, and makes the cards that follow. Cards whose results can be read are left as they are.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from experiments.cards import Card, chosen, folder_of, result
from experiments.reproduce import environment
from experiments.stopping import exit_status, terminable
from fedjax_priv.runs.chunk_loop import SIGTERM_STATUS

SCALE = "paper"
ORDER = (
    "wireless.fig5", "wireless.fig4", "sparse_secagg.table1", "sparse_secagg.fig4", "sparse_secagg.fig5",
    "sparse_secagg.fig2", "sparse_secagg.fig6", "fedrep.fig6", "fedrep.fig1", "fedrep.grid", "sparse_secagg.repair",
    "sparse_secagg.leakage", "sparse_secagg.fig3", "fedrep.fig2", "fedrep.fig12", "fedrep.fig8", "fedrep.fig5",
    "fedrep.fig4", "fedrep.fig3", "fedrep.fig7", "fedrep.table1", "wireless.fig7", "wireless.fig3", "cdp_fl.fig7",
    "cdp_fl.fig8", "cdp_fl.fig5", "cdp_fl.fig6", "cdp_fl.fig3", "cdp_fl.fig4", "sparse_secagg.thresholded",
    "sparse_secagg.convergence",
    "audit.all_systems", "audit.private_training", "wireless.accountants", "cdp_fl.counterexamples", "wireless.fig2",
    "wireless.fig6", "wireless.errata", "wireless.time_variant", "wireless.thresholds",
    "wireless.access", "wireless.power_control", "wireless.participation", "wireless.analog_or_digital",
    "correlated_noise.error",
    "sparse_secagg.statements",
    "distributed_noise.mean_estimation", "asynchronous.virtual_time", "asynchronous.concurrency",
    "input_validation.norm_bound",
    "lying_server.three_lies",
    "private_training.equal_epsilon", "private_training.opacus_eps_3", "private_training.opacus_eps_1",
    "private_training.opacus_eps_7", "private_training.tf_privacy_eps_1", "private_training.tf_privacy_eps_3",
    "private_training.tf_privacy_eps_10", "private_training.scattering_eps_3", "anchors.lr_mnist",
    "anchors.mcmahan_2nn", "anchors.mcmahan_causes", "anchors.niid_bench_mnist", "anchors.mcmahan_cnn",
    "anchors.heat_map", "anchors.bucketing",
    "atlas.atlas", "wireless.privacy_for_free",
)  # fmt: skip
"""Every card with a scale `paper`. First what the papers' main claims rest on, cheap before costly; what two cores make
in minutes comes last."""
_STOPPED = "stopped"
_ENDED = (SIGTERM_STATUS, -signal.SIGTERM, -signal.SIGKILL)
"""Statuses of a card that the queue ended: after a checkpoint of a run, between two runs, and when it was killed."""
_GRACE = 120.0
"""Seconds for a checkpoint, after which a card is killed; it then continues from the checkpoint before."""


class Done(NamedTuple):
    """What became of a card."""

    card: Card
    state: str  # "made", "had results", "stopped", "not reached", or how it failed


def work(cards: Sequence[Card], out: pathlib.Path, runs: pathlib.Path, seconds: float) -> list[Done]:
    """Make cards one after the other until the time is over, and print a line for each.

    Args:
      cards: in the order to make them.
      out: folder for the results, which go to `PAPER/FIGURE-paper` in it.
      runs: folder for unfinished runs and compiled programs.
      seconds: from now on.
    """
    end = time.monotonic() + seconds
    done = []
    for card in cards:
        try:
            done.append(Done(card, _one(card, out, runs, end - time.monotonic())))
        except (KeyboardInterrupt, SystemExit):
            _show(Done(card, _STOPPED))
            raise
        _show(done[-1])
    return done


def _show(done: Done) -> None:
    print(f"{done.state:<12} {done.card.paper} {done.card.name}: {done.card.title}", flush=True)


def _one(card: Card, out: pathlib.Path, runs: pathlib.Path, seconds: float) -> str:
    if _has_results(card, out):
        return "had results"
    if seconds <= 0:
        return "not reached"
    places = [
        word for name, root in (("--out", out), ("--runs", runs))
        for word in (name, os.path.relpath(folder_of(card, SCALE, root)))
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "experiments", card.paper, card.name, "--scale", SCALE, *places],
        env=environment(SCALE, str(runs.absolute() / "programs")),
    )  # fmt: skip
    status, over = _wait(process, seconds)
    if over and status in _ENDED:
        return _STOPPED
    if status < 0:  # as of a process that the kernel kills where memory is short
        return f"failed with signal {-status}"
    return f"failed with exit status {status}" if status else "made"


def _has_results(card: Card, out: pathlib.Path) -> bool:
    """Files that cannot be read are no results: a full disk may have cut them short."""
    try:
        return result(card, SCALE, out) is not None
    except (OSError, ValueError):
        return False


def _wait(process: subprocess.Popen, seconds: float) -> tuple[int, bool]:
    """Exit status, and whether its time was over; an error here, such as Ctrl-C, ends the process, too."""
    try:
        return process.wait(seconds), False
    except subprocess.TimeoutExpired:
        return _ended(process), True
    except BaseException:
        _ended(process)
        raise


def _ended(process: subprocess.Popen) -> int:
    """Exit status, of a process that may still write a checkpoint."""
    process.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    finally:  # also after Ctrl-C again
        process.kill()
        status = process.wait()
    return status


def in_order() -> list[Card]:
    """The cards of `ORDER`."""
    return [card for name in ORDER for card in chosen(*name.split("."))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 if a card failed.

    Raises:
      KeyboardInterrupt, SystemExit: Ctrl-C or SIGTERM arrived; the card under way was stopped.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.queue", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, required=True, help="time for all cards together")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder for the results")
    parser.add_argument("--runs", type=pathlib.Path, default=pathlib.Path("results/runs"), help="for unfinished runs")
    parser.add_argument("cards", nargs="*", metavar="PAPER.FIGURE", help="make these, in this order; default: all")
    args = parser.parse_args(arguments)
    if not args.minutes > 0:
        parser.error(f"minutes must be above 0, got {args.minutes:g}")
    try:
        cards = [card for name in args.cards for card in chosen(*_named(name))] or in_order()
    except ValueError as error:
        parser.error(str(error))
    with terminable():
        done = work(cards, args.out, args.runs, 60 * args.minutes)
    return int(any(one.state.startswith("failed") for one in done))


def _named(name: str) -> tuple[str, str]:
    paper, dot, figure = name.partition(".")
    if not dot:
        raise ValueError(f"cards must be named PAPER.FIGURE, such as {ORDER[0]}; got {name}")
    return paper, figure


if __name__ == "__main__":
    sys.exit(exit_status(main, "interrupted; the same command goes on"))
