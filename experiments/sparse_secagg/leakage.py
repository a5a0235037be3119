"""What the server of SparseSecAgg reads: honest values alone, in sums of two and of more; next to the paper's T."""

from typing import NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Source
from experiments.drawing import plain
from experiments.harness import Outcome
from experiments.sparse_secagg.attack import Attacked, Point, attack_secagg, attack_sparse
from experiments.sparse_secagg.training import Setting
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.leakage import sample_components
from fedjax_priv.theory import sparse_secagg as theory

LINES = {
    "alpha": (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0),
    "num_clients": (10, 25, 50, 100, 200, 500, 1000),
    "dropout": (0.0, 0.1, 0.2, 0.3, 0.4, 0.49),
    "adversarial": (0.0, 0.1, 0.2, 1 / 3, 0.45),
}
ATTACKED = {
    "alpha": (0.03, 0.4, 1.0), "num_clients": (25, 50), "dropout": (0.0, 0.1, 0.4), "adversarial": (0.0, 0.2, 0.45),
}  # fmt: skip
LABELS = {
    "alpha": "alpha", "num_clients": "users N", "dropout": "dropout theta", "adversarial": "colluding fraction gamma",
}  # fmt: skip
ALPHA, DROPOUT, ADVERSARIAL = 0.1, 0.3, 1 / 3
"""The paper's."""


class Config(NamedTuple):
    """A panel varies one parameter around the paper's: on a line, which is also simulated, and where it is attacked."""

    setting: Setting
    num_clients: int = 100
    attacked: dict[str, tuple[float, ...]] = ATTACKED
    rounds: int = 5  # attacked, for each point
    coordinates: int = 100_000  # simulated, for each point
    levels: float = 2.0**16
    seed: int = 0

    def point(self, **varied: float) -> Point:
        """The paper's point, except what is varied."""
        given = {
            "alpha": ALPHA,
            "num_clients": self.num_clients,
            "dropout": DROPOUT,
            "adversarial": ADVERSARIAL,
        } | varied
        n = int(given["num_clients"])
        return Point(n, given["alpha"], given["dropout"], round(given["adversarial"] * n))

    def lines(self, panel: str) -> list[Point]:
        """Where a panel is computed and simulated."""
        return [self.point(**{panel: value}) for value in LINES[panel]]

    def attacks(self, panel: str) -> list[Point]:
        """Where it is attacked: at the paper's own point, and at others."""
        return [self.point(), *(self.point(**{panel: value}) for value in self.attacked[panel])]


def run(config: Config) -> Outcome:
    simulated = cast(xr.Dataset, xr.concat([_simulated(config, panel) for panel in LINES], "point"))
    found = _attack(config)
    attacked = cast(xr.Dataset, xr.concat([_attacked(config, panel, found) for panel in LINES], "attack"))
    result = xr.merge([simulated, attacked])
    caveats = [
        f"attack: {config.setting.task}, {config.rounds} rounds with training and the whole protocol for each point, "
        f"c = {config.levels:.0f}",
        "selections come from thresholds (expand='dense'), so that alpha and theta vary in one program",
    ]
    return Outcome(figure(config, result), result, claims(config, result, found), caveats)


def _attack(config: Config) -> dict[Point, Attacked]:
    points = sorted({point for panel in LINES for point in config.attacks(panel)})
    found = {}
    for size in sorted({point.num_clients for point in points}):
        some = [point for point in points if point.num_clients == size]
        found |= zip(some, attack_sparse(config.setting, some, config.rounds, config.levels, config.seed), strict=True)
    return found


def _simulated(config: Config, panel: str) -> xr.Dataset:
    points = config.lines(panel)
    fractions = [
        sample_components(
            config.coordinates, num_clients=p.num_clients, num_adversaries=p.adversaries, alpha=p.alpha,
            dropout=p.dropout, seed=config.seed,
        ).fraction
        for p in points
    ]  # fmt: skip
    return _by_point("point", panel, points, {
        "simulated": (("point", "size"), [fraction.value for fraction in fractions]),
        "simulated_error": (("point", "size"), [fraction.error for fraction in fractions]),
        "theory": (("point", "size"), [_theory(p) for p in points]),
        "mean_size": ("point", [_mean_size(p) for p in points]),
    })  # fmt: skip


def _attacked(config: Config, panel: str, found: dict[Point, Attacked]) -> xr.Dataset:
    points = config.attacks(panel)
    of = [found[p] for p in points]
    return _by_point("attack", panel, points, {
        "read": (("attack", "size"), [a.fraction for a in of]),
        "read_error": (("attack", "few"), [a.error for a in of]),
        "expected": (("attack", "size"), [_theory(p) for p in points]),
        "honest": ("attack", [a.honest for a in of]),
    })  # fmt: skip


def _by_point(name: str, panel: str, points: list[Point], values: dict) -> xr.Dataset:
    return xr.Dataset(values, {
        f"{name}_panel": (name, [panel] * len(points)),
        f"{name}_at": (name, np.array([getattr(p, panel) for p in points], float)),
        "size": ("size", [1, 2, 3], {"long_name": "honest clients in the sum that is read"}),
    })  # fmt: skip


def _theory(p: Point) -> np.ndarray:
    return np.asarray(theory.component_fraction(p.setting, np.array([1, 2, 3])))


def _mean_size(p: Point) -> float:
    """Mean number of honest clients in the sum in which a value is read."""
    size = np.arange(1, min(p.num_clients - p.adversaries, 100) + 1)
    return float((size * theory.component_fraction(p.setting, size)).sum())


def claims(config: Config, result: xr.Dataset, attacked: dict[Point, Attacked]) -> list[Claim]:
    usual, n = config.point(), config.num_clients
    found, expected = attacked[usual].fraction, _theory(usual)
    limit = theory.aggregated_honest_clients_limit(usual.setting)
    sums, wrong, chance = (sum(getattr(a, name) for a in attacked.values()) for name in ("sums", "wrong", "by_chance"))
    off = np.abs(result.read[:, :2].values - result.expected[:, :2].values) / result.read_error.values
    drawn = np.abs(result.simulated - result.theory).values / np.maximum(result.simulated_error.values, 1e-9)
    return [
        Claim(
            "sums-over-t", f"users and server learn no more than sums over T honest users, N = {n}",
            f"T = {limit:.2f} (Theorem 2)", f"{found[0]:.1%} of values read alone, {found[1]:.1%} in pairs",
            bool(found[0] == 0 and found[1] == 0), "no value is read alone or in a pair",
            f"alpha = {ALPHA}, theta = {DROPOUT}, A = N/3; theory {expected[0]:.1%} and {expected[1]:.1%}",
        ),
        *_trends(config),
        Claim(
            "attack-is-right", "what the attack reads is true", "", f"{wrong} of {sums:,} sums are wrong",
            _no_more_than(wrong, chance), "no more than by chance",
            f"{chance:.1f} would be tiny by chance", Source.OURS,
        ),
        Claim(
            "attack-as-theory", "the attack reads what theory says", "",
            f"off by up to {off.max():.1f} standard errors; simulated components by up to {drawn.max():.1f}",
            bool(off.max() < 4 and drawn.max() < 5), "within 4 standard errors, simulated components within 5",
            "alone and in pairs", Source.OURS,
        ),
        _withstands(config, usual),
    ]  # fmt: skip


def _no_more_than(number: int, chance: float) -> bool:
    """Beyond five standard deviations it would not be chance."""
    return bool(number <= chance + 5 * np.sqrt(chance) + 1)


def _trends(config: Config) -> list[Claim]:
    """Whether more of what the paper counts hides more."""
    sizes = LINES["num_clients"][0], LINES["num_clients"][-1]
    few, many = (_theory(config.point(num_clients=size))[0] for size in sizes)
    low, high = (_theory(config.point(alpha=alpha))[0] for alpha in (ALPHA, 1.0))
    pairs = _theory(config.point(dropout=0.0, adversarial=0.0))[1]
    return [
        Claim(
            "grows-with-n", "privacy grows with N: less is read alone", "T grows as N",
            f"read alone: {few:.1%} at N = {sizes[0]}, {many:.1%} at N = {sizes[1]}", bool(many < 0.9 * few),
            "a tenth less or better", "theory",
        ),
        Claim(
            "grows-with-alpha", "privacy grows with alpha: less is read alone", "T nearly linear in alpha",
            f"read alone: {low:.1%} at alpha = {ALPHA}, {high:.1%} at alpha = 1", bool(high < 0.9 * low),
            "a tenth less or better", "theory",
        ),
        Claim(
            "no-dropouts", "without dropouts and colluders the server learns only the sum", "T = N p",
            f"none alone, {pairs:.1%} in pairs", bool(pairs < 0.01), "fewer than 1% in pairs",
            f"theory, alpha = {ALPHA}, N = {config.num_clients}",
        ),
    ]  # fmt: skip


def _withstands(config: Config, usual: Point) -> Claim:
    reading = attack_secagg(config.setting, usual, config.levels, config.seed)
    tiny, chance = len(reading.value), reading.false_hits
    return Claim(
        "secagg-withstands", "SecAgg on the complete graph withstands the same attack", "learns only the sum",
        f"{tiny} values or sums of two are tiny, of {reading.sent.sum():,} values", _no_more_than(tiny, chance),
        "no more than by chance", f"{chance:.1f} would be tiny by chance",
    )  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(15, 7), layout="constrained")
    rows = picture.subplots(2, len(LINES), sharey="row", sharex="col")
    for i, panel in enumerate(LINES):
        lines = result.sel(point=result.point_panel == panel).sortby("point_at")
        points = result.sel(attack=result.attack_panel == panel)
        _fractions(rows[0, i], lines, points)
        _counts(rows[1, i], sorted(config.lines(panel), key=lambda p: getattr(p, panel)), lines, points)
        rows[1, i].set(xlabel=LABELS[panel], xscale="log" if panel == "num_clients" else "linear")
    rows[0, 0].set(ylabel="fraction of what honest survivors send")
    rows[1, 0].set(ylabel="honest users")
    for row in rows:
        handles, labels = row[0].get_legend_handles_labels()
        row[-1].legend(handles, labels, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    picture.suptitle(
        f"What the server of SparseSecAgg and its colluders read; where not varied, N = {config.num_clients}, "
        f"alpha = {ALPHA}, theta = {DROPOUT}, gamma = 1/3"
    )
    return picture


def _fractions(axes: Axes, lines: xr.Dataset, points: xr.Dataset) -> None:
    for k, label in enumerate(("alone", "in a sum of two", "in a sum of three")):
        axes.plot(lines.point_at, lines.theory[:, k], color=COLOURS[k], label=f"read {label}: theory")
        axes.plot(lines.point_at, lines.simulated[:, k], "o", color=COLOURS[k], markersize=4, label="  simulated")
        axes.errorbar(
            points.attack_at, points.read[:, k], points.read_error[:, k] if k < 2 else None, fmt="x", color=COLOURS[k],
            markersize=8, markeredgewidth=2, elinewidth=1, label="  attack on the protocol",
        )  # fmt: skip
    axes.axhline(0, color="black", linestyle="--", linewidth=1, label="SecAgg: nothing but the total")
    axes.set_ylim(-0.03, 1.0)
    plain(axes)


def _counts(axes: Axes, where: list[Point], lines: xr.Dataset, points: xr.Dataset) -> None:
    at = lines.point_at
    limit = [theory.aggregated_honest_clients_limit(p.setting) for p in where]
    secagg = [theory.secagg_aggregated_honest_clients(p.setting) for p in where]
    axes.plot(at, secagg, "--", color="black", linewidth=1, label="SecAgg: in every sum")
    axes.plot(at, limit, color=COLOURS[3], label="the paper's T: send a coordinate")
    axes.plot(points.attack_at, points.honest, "x", color=COLOURS[3], markersize=9, markeredgewidth=2, label="  run")
    axes.plot(at, lines.mean_size, color=COLOURS[4], label="mean in the sum that is read")
    axes.axhline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    plain(axes)
