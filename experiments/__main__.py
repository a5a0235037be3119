"""Make a figure or table: `python -m experiments PAPER FIGURE --scale SCALE`, or `--judge` what was made.

`fedjax-priv reproduce` runs this once for each figure, in separate processes.
"""

import argparse
import pathlib
import sys

from experiments import cards, harness
from experiments.stopping import exit_status


def main() -> None:
    """Run the experiment that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Make a figure or table of a paper.")
    parser.add_argument("paper", choices=list(cards.PAPERS))
    parser.add_argument("figure")
    parser.add_argument("--scale", choices=cards.SCALES, default="quick")
    parser.add_argument("--judge", action="store_true", help="only state the claims again, from the data of a run")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results; default: results/PAPER/FIGURE-SCALE")
    parser.add_argument("--runs", type=pathlib.Path, help="folder to write runs to; given again, they continue there")
    parser.add_argument("--vectors", action="store_true", help="write the picture as PDF and SVG too")
    args = parser.parse_args()
    try:
        (card,) = cards.chosen(args.paper, args.figure, args.scale)
    except ValueError as error:
        parser.error(str(error))
    out = args.out or cards.folder_of(card, args.scale, pathlib.Path("results"))
    experiment = cards.experiment_of(card)
    if not args.judge:
        harness.make(experiment, card.paper, card.name, args.scale, out, args.runs, args.vectors)
    elif experiment.judge is None:
        parser.error(f"judge needs a figure whose claims follow from its data alone; got {card.name}")
    else:
        harness.judge(experiment, card.paper, card.name, args.scale, out, args.vectors)


if __name__ == "__main__":
    sys.exit(exit_status(main, "interrupted; runs in a folder that --runs gave go on with the same command"))
