"""What all figures share: run the methods, draw the accuracies, state the claims and the caveats."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim, undecided
from experiments.fedrep.curves import caveats, cost, draw
from experiments.fedrep.training import Config, Observe, compare
from experiments.fedrep.tuning import at_edge
from experiments.harness import Experiment, Outcome

Claims = Callable[[Config, xr.Dataset], list[Claim]]
Picture = Callable[[Config, xr.Dataset, str], Figure]


def experiment(
    makes: str,
    title: str,
    scales: Mapping[str, Any],
    claims: Claims,
    *,
    line: str = "curve",
    picture: Picture | None = None,
    observe: Callable[[Config], Observe] | None = None,
    more: Sequence[str] = (),
) -> Experiment:
    """A figure.

    Args:
      makes: which figures of the paper.
      title: what they show.
      scales: methods, attacks and setting by scale.
      claims: what the paper says of the figure.
      line: what has a line each: "curve", the methods; or "alpha" or "momentum", with a row of panels for each method.
      picture: draws another figure; the last argument is its title.
      observe: what is measured of a round in addition to accuracy and bytes.
      more: further caveats.
    """
    judge = functools.partial(report, claims=claims, line=line, picture=picture, more=more)

    def run(config: Config) -> Outcome:
        result = compare(config, observe(config) if observe else None)
        return judge(config, result.squeeze([axis for axis in ("alpha", "momentum") if axis != line], drop=True))

    return Experiment(makes, title, scales, run, judge)


def report(
    config: Config, result: xr.Dataset, *, claims: Claims, line: str, picture: Picture | None, more: Sequence[str]
) -> Outcome:
    """Figure, claims and caveats from data; a rate at the edge of its grid leaves all claims without a verdict."""
    alone = line == "curve"
    said = [*caveats(config, result), *([cost(result)] if alone else []), *more]
    names = {"curve": "line"} if alone else {"curve": "row", line: "line"}
    if picture:
        figure = picture(config, result, said[0])
    else:
        figure = draw(result.accuracy.rename(names), said[0], None if alone else line)
    return Outcome(figure, result, inside(result, claims(config, result)), said)


def inside(result: xr.Dataset, claims: list[Claim]) -> list[Claim]:
    """Claims as they are if every best rate is inside its grid."""
    if not (curves := at_edge(result)):
        return claims
    why = f"the best rate of {', '.join(curves)} is at the edge of its grid"
    return [claim if claim.verdict is None else undecided(claim, why) for claim in claims]
