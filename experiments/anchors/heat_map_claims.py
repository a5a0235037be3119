"""What accuracies by attack, heterogeneity and number of Byzantine clients say of ByzFL's heat map."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import published
from experiments.anchors.heat_map_printed import PRINTED, RULES, margin
from experiments.claims import Claim, Open, Source, controlled, undecided
from experiments.comparison import Gap, decided, gap

MEAN, NONE = "mean", "none"
BITES = 0.1
"""Accuracy that the undefended mean must lose to an attack."""
ENOUGH = 0.75
"""Share of the cells that must be within their margins: 12 of 16."""


class Config(NamedTuple):
    """The map at one scale."""

    dataset: str = "mnist"
    rules: tuple[str, ...] = RULES
    attacks: tuple[str, ...] = ("SignFlipping", "Opt-IPM", "Opt-ALIE")
    gammas: tuple[float, ...] = (0.0, 0.33, 0.66, 1.0)
    num_byzantine: tuple[int, ...] = (1, 2, 3, 4)
    rounds: int = 800
    every: int = 50
    learning_rate: float = 0.1
    repeats: int = 3
    at_once: int = 1
    seed: int = 0


class Worst(NamedTuple):
    """A cell under the attack that leaves least."""

    attack: str
    values: xr.DataArray  # by seed, at the evaluation with the best mean
    last: float  # mean at the last evaluation


def worst(accuracy: xr.DataArray) -> Worst:
    """By attack the best evaluation of the mean over seeds, as the source takes it; then the worst attack."""
    attacked = accuracy.drop_sel(attack=NONE)
    best = attacked.mean("seed").max("evaluation")
    name = str(best.attack.values[int(best.argmin("attack"))])
    curve = attacked.sel(attack=name)
    at = int(curve.mean("seed").argmax("evaluation"))
    return Worst(name, curve.isel(evaluation=at), float(curve.mean("seed").isel(evaluation=-1)))


def robust(accuracy: xr.DataArray) -> list[str]:
    """The rules that the source prints."""
    return [str(rule) for rule in accuracy.rule.values if rule != MEAN]


def mean_loses(accuracy: xr.DataArray, attack: str) -> Gap:
    """Accuracy that an attack costs the mean, each at the best evaluation of its mean curve, of one gamma and f."""
    curves = [accuracy.sel(rule=MEAN, attack=name).reset_coords(drop=True) for name in (NONE, attack)]
    return gap(*(curve.isel(evaluation=int(curve.mean("seed").argmax("evaluation")), drop=True) for curve in curves))


def claims(accuracy: xr.DataArray, elsewhere: bool) -> list[Claim]:
    """Every cell, how many are within their margins, and an order that does not need the printed values."""
    places = [(rule, float(gamma), int(f)) for rule in robust(accuracy) for gamma in accuracy.gamma for f in accuracy.f]
    cells = [cell(accuracy, *place) for place in places]
    if elsewhere:
        cells = [published.of_other_data(claim) if claim.why != Open.UNTESTABLE else claim for claim in cells]
    return [*cells, agreement(accuracy, places, elsewhere), *harder(accuracy)]


def cell(accuracy: xr.DataArray, rule: str, gamma: float, f: int) -> Claim:
    """A printed cell; not testable if the attack that is worst for the rule costs the mean less than 0.1."""
    here = accuracy.sel(gamma=gamma, f=f)
    found, printed = worst(here.sel(rule=rule)), PRINTED[rule][gamma, f]
    claim = published.claim(
        f"{rule} gamma {gamma:g} f {f}", f"{rule}, gamma = {gamma:g}, f = {f}: worst test accuracy",
        found.values.values.tolist(), printed, margin(printed), better=1,
    )  # fmt: skip
    lost = mean_loses(here, found.attack)
    control = f"{found.attack} costs the mean {lost.text(1)}"
    note = f"the last evaluation has {found.last:.2f}" + (f"; {claim.note}" if claim.note else "")
    return controlled(claim._replace(note=note), decided(lost.bites(BITES)), control)


def agreement(accuracy: xr.DataArray, places: list[tuple[str, float, int]], elsewhere: bool) -> Claim:
    """Ours: of the means alone, so that one seed can be counted, but decides nothing."""
    apart = [
        float(worst(accuracy.sel(rule=rule, gamma=gamma, f=f)).values.mean(skipna=False)) - PRINTED[rule][gamma, f].mean
        for rule, gamma, f in places
    ]
    near = [abs(far) <= margin(PRINTED[rule][gamma, f]) for far, (rule, gamma, f) in zip(apart, places, strict=True)]
    share, one, lost = np.mean(near), accuracy.sizes["seed"] == 1, int(np.isnan(apart).sum())
    claim = Claim(
        "map", "three quarters of the cells are within their margins", f"{ENOUGH * len(near):g} of {len(near)}",
        f"{sum(near)} of {len(near)}", None if one or elsewhere else bool(share >= ENOUGH),
        "means at most a margin apart", source=Source.OURS, why=Open.NOT_RUN if elsewhere else Open.UNDECIDED,
    )  # fmt: skip
    if lost:
        return undecided(claim, f"{lost} cells have runs without a finite value")
    return claim._replace(note="one seed is a demonstration") if one else claim


def harder(accuracy: xr.DataArray) -> list[Claim]:
    """With the most Byzantine clients, more of the samples by label leave less; where the mean loses."""
    gammas, f = sorted(map(float, accuracy.gamma)), int(accuracy.f.max())
    here = accuracy.sel(f=f)
    return [_harder(here, rule, gammas[0], gammas[1]) for rule in robust(accuracy) if len(gammas) > 1]


def _harder(accuracy: xr.DataArray, rule: str, apart: float, alike: float) -> Claim:
    found = {gamma: worst(accuracy.sel(rule=rule, gamma=gamma)) for gamma in (apart, alike)}
    lost = gap(found[alike].values.reset_coords(drop=True), found[apart].values.reset_coords(drop=True))
    control = mean_loses(accuracy.sel(gamma=apart), found[apart].attack)
    said, f = f"{found[apart].attack} costs the mean {control.text(1)}", int(accuracy.f)
    printed = PRINTED[rule][alike, f].mean - PRINTED[rule][apart, f].mean
    verdict = int(lost.above())
    claim = Claim(
        f"harder {rule}", f"{rule}, f = {f}: gamma = {apart:g} is harder than {alike:g}", f"{printed:.2f} of accuracy",
        lost.text(1), verdict > 0 if verdict else None, "Student's 95% interval of paired differences is above 0",
        why=Open.UNDECIDED,
    )  # fmt: skip
    return controlled(claim, decided(control.bites(BITES)), said)


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    f, gamma = int(result.f.max()), float(result.gamma.min())
    here = result.accuracy.sel(f=f, gamma=gamma)
    attacks = [str(name) for name in result.attack.values if name != NONE]
    return [
        "ten honest clients; 80% of the training samples, the others unused: hyper-parameters are the map's",
        f"{config.rounds} steps, evaluated every {config.every}; the best evaluation on the test set counts, as in the "
        "source",
        f"the mean at gamma = {gamma:g}, f = {f} loses "
        + ", ".join(f"{float(mean_loses(here, name).mean):.2f} to {name}" for name in attacks),
        "without an attack Byzantine clients work honestly on copies of what the first clients hold",
        "a batch is drawn anew in each step",
    ]


def draw(accuracy: xr.DataArray) -> Figure:
    """A map for each rule and for the mean: ours, and the printed value below; cells that test nothing say so."""
    rules = [*robust(accuracy), MEAN]
    size = 1.2 + max(3.0, accuracy.sizes["f"]) * len(rules), 1.6 + 0.7 * accuracy.sizes["gamma"]
    picture = Figure(figsize=size, layout="constrained")
    for axes, rule in zip(picture.subplots(1, len(rules)), rules, strict=True):
        _map(axes, accuracy, rule)
    return picture


def _map(axes: Axes, accuracy: xr.DataArray, rule: str) -> None:
    gammas, numbers = [float(g) for g in accuracy.gamma], [int(f) for f in accuracy.f]
    found = {(g, f): worst(accuracy.sel(rule=rule, gamma=g, f=f)) for g in gammas for f in numbers}
    values = np.array([[float(found[g, f].values.mean()) for f in numbers] for g in gammas])
    axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        place = gammas[row], numbers[column]
        lost = float(mean_loses(accuracy.sel(gamma=place[0], f=place[1]), found[place].attack).mean)
        words = [f"{value:.2f}"]
        words += [f"printed {PRINTED[rule][place].mean:.2f}"] if rule != MEAN else []
        words += ["not testable here"] if lost < BITES else []
        dark = value < 0.6
        axes.text(column, row, "\n".join(words), ha="center", va="center", size=7, color="w" if dark else "k")
    axes.set_xticks(range(len(numbers)), [str(f) for f in numbers])
    axes.set_yticks(range(len(gammas)), [f"{g:g}" for g in gammas])
    axes.set(xlabel="f", ylabel="gamma")
    axes.set_title("mean, no defence" if rule == MEAN else rule, fontsize=10)
