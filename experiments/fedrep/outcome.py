"""What all figures share: run the methods, draw the accuracies, state the claims and the caveats."""

from collections.abc import Callable, Sequence

import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim
from experiments.fedrep.curves import caveats, cost, draw
from experiments.fedrep.training import Config, Observe, compare
from experiments.harness import Outcome


def run(
    config: Config,
    claims: Callable[[Config, xr.Dataset], list[Claim]],
    *,
    line: str = "curve",
    picture: Callable[[Config, xr.Dataset, str], Figure] | None = None,
    observe: Callable[[Config], Observe] | None = None,
    more: Sequence[str] = (),
) -> Outcome:
    """Make a figure.

    Args:
      config: methods, attacks and setting.
      claims: what the paper says of the figure.
      line: what has a line each: "curve", the methods; or "alpha" or "momentum", with a row of panels for each method.
      picture: draws another figure; the last argument is its title.
      observe: what is measured of a round in addition to accuracy and bytes.
      more: further caveats.
    """
    result = compare(config, observe(config) if observe else None)
    result = result.squeeze([axis for axis in ("alpha", "momentum") if axis != line], drop=True)
    alone = line == "curve"
    said = [*caveats(config, result), *([cost(result)] if alone else []), *more]
    names = {"curve": "line"} if alone else {"curve": "row", line: "line"}
    if picture:
        figure = picture(config, result, said[0])
    else:
        figure = draw(result.accuracy.rename(names), said[0], None if alone else line)
    return Outcome(figure, result, claims(config, result), said)
