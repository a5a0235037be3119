"""By how much one value is above another, and whether runs with several seeds decide it.

Answers are numbers: 1 is yes, -1 no, 0 not decided. The least over a dimension is the answer for all of it, the largest
that for any of it, and `decided` makes it a verdict.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv.analysis import half_width

CLEAR = 0.01
"""A difference of accuracies is clear above this, one point."""
SMALL = 0.02
"""A difference of accuracies is small up to this, two points."""
MARGIN = 0.005
"""What a reader would call the same accuracy, half a point."""
CHANCE = 0.01
"""How often a true law may fail, at all its places together."""
IN_LAW = f"in Student's {1 - CHANCE:.0%} interval, of all places together"


class Gap(NamedTuple):
    """A difference of two values: its mean over seeds and its noise, with whatever other dimensions they have."""

    mean: xr.DataArray
    noise: xr.DataArray  # half the width of Student's 95% interval; infinite for a single seed

    @property
    def low(self) -> xr.DataArray:
        """Lower end of the interval."""
        return self.mean - self.noise

    @property
    def high(self) -> xr.DataArray:
        """Upper end of the interval."""
        return self.mean + self.noise

    def above(self, by: float = 0.0, margin: float = MARGIN) -> xr.DataArray:
        """Whether it is above 0, and its mean above `by`.

        Yes if the interval is above 0, and no if it is below 0 or `by`, or holds 0 and is narrower than the margin.
        """
        yes = (self.low > 0) & (self.mean > by)
        no = (self.high <= 0) | (self.high < by) | ((self.low <= 0) & (self.noise < margin))
        return answer(yes, no)

    def clear(self) -> xr.DataArray:
        """Whether it is above 0 by more than `CLEAR`."""
        return self.above(CLEAR)

    def small(self, allowed: float = SMALL) -> xr.DataArray:
        """Whether values are as good as equal: no more than `allowed` apart, as sure as that."""
        near = abs(self.mean) <= allowed
        return answer(near & (self.noise <= allowed), ~near & ((self.low > 0) | (self.high < 0)))

    def at_least(self, allowed: float = SMALL) -> xr.DataArray:
        """Whether it is not below 0 by more than `allowed`; how far it is above does not matter."""
        return answer(self.low > -allowed, self.high < -allowed)

    def vanishes(self, allowed: float = 0.0) -> xr.DataArray:
        """Whether the interval holds 0, or the mean is no more than `allowed` from it; not decided for one seed."""
        near = abs(self.mean) <= np.maximum(self.noise, allowed)
        return answer(near & np.isfinite(self.noise), ~near)

    def bites(self, by: float) -> xr.DataArray:
        """Whether a control costs as much as `by`: yes as in `above`, no if its mean does not."""
        return answer(self.above(by) > 0, self.mean < by)

    def sel(self, **places) -> "Gap":
        """A part of it, as `DataArray.sel` selects."""
        return Gap(*(values.sel(**places) for values in self))

    def text(self, scale: float = 100) -> str:
        """Mean and noise of a single gap, in points of accuracy unless `scale` says otherwise."""
        return f"{scale * float(self.mean):+.3g}{plus_minus(scale * float(self.noise))}"


def answer(yes: xr.DataArray, no: xr.DataArray) -> xr.DataArray:
    """1, -1 or 0."""
    return yes.astype(int) - (no & ~yes).astype(int)


def decided(answers: xr.DataArray) -> bool | None:
    """A verdict: true if all answers are yes, false if one is no."""
    least = int(answers.min())
    return None if least == 0 else least > 0


def gap(one: xr.DataArray, other: xr.DataArray) -> Gap:
    """Of values with a dimension `seed`: runs of a seed start alike, so differences are taken seed by seed."""
    return over_seeds(one - other)


def over_seeds(values: xr.DataArray, places: int = 1) -> Gap:
    """The mean over the dimension `seed`, and its noise; at `places` that are looked at together, by Bonferroni.

    Both are NaN where a seed has no value: the others need not be like it.
    """
    return Gap(values.mean("seed", skipna=False), values.reduce(half_width, "seed", confidence=1 - 0.05 / places))


def from_law(values: xr.DataArray, law: xr.DataArray | float) -> Gap:
    """How far means over `seed` are from a law, with intervals of which all hold 0 but in `CHANCE` if it is true.

    A number of standard errors would be no such rule: with three seeds 4 of them miss a true mean in 6% at each place.
    """
    apart = values - law
    places = apart.size // apart.sizes["seed"]
    noise = apart.reduce(half_width, "seed", confidence=1 - CHANCE / places)
    return Gap(apart.mean("seed", skipna=False), noise + 1e-9 * abs(values).max())  # rounding, where seeds are equal


def better_somewhere(apart: xr.DataArray, allowed: float, dim: str) -> xr.DataArray:
    """Whether differences by `dim` and `seed` are nowhere below 0 by more than `allowed`, and somewhere above.

    A tie is no failure. "Somewhere" is of all places together: the best of many equal ones is above 0 by chance. What
    must be so at every place may be asked of each alone.
    """
    alone, together = over_seeds(apart), over_seeds(apart, apart.sizes[dim])
    nowhere = answer(alone.at_least(allowed) > 0, together.at_least(allowed) < 0)
    return xr.concat([nowhere.min(dim), together.above(margin=allowed).max(dim)], "part").min("part")


def plus_minus(noise: float) -> str:
    """The half width of an interval as text; what a single seed says."""
    return " (one seed)" if np.isinf(noise) else f" +- {noise:.2g}"


def last(values: xr.DataArray, dim: str) -> xr.DataArray:
    """The last entry of a dimension at which there is a value; NaN if there is none."""
    known = values.dropna(dim, how="all")
    return (known if known.sizes[dim] else values).isel({dim: -1}, drop=True)


def as_printed(value: float, printed: str) -> bool:
    """Whether a value is a printed number, such as "2.46", to its digits."""
    digits = len(printed.partition(".")[2])
    return bool(abs(value - float(printed)) <= 0.5 * 10.0**-digits * (1 + 1e-9))
