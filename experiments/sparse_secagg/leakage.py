"""What the server of SparseSecAgg reads: honest values alone, in sums of two and of more; beside the paper's T."""

from typing import NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.claims import Claim, Source
from experiments.harness import COLOURS
from experiments.sparse_secagg.attack import Attacked, Point, attack_secagg, attack_sparse
from experiments.sparse_secagg.training import Setting
from fedjax_priv.leakage import sample_components
from fedjax_priv.theory import sparse_secagg as theory


class Config(NamedTuple):
    """Lines and simulated points vary one parameter around the paper's alpha, theta and A = N/3; attacked are fewer."""

    setting: Setting
    num_clients: int = 100
    sizes: tuple[int, ...] = (10, 25, 50, 100, 200, 500, 1000)
    alphas: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
    dropouts: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.49)
    adversarial: tuple[float, ...] = (0.0, 0.1, 0.2, 1 / 3, 0.45)
    attacked_sizes: tuple[int, ...] = (25, 50)
    attacked_alphas: tuple[float, ...] = (0.03, 0.4, 1.0)
    attacked_dropouts: tuple[float, ...] = (0.0, 0.1, 0.4)
    attacked_adversarial: tuple[float, ...] = (0.0, 0.2, 0.45)
    rounds: int = 5  # attacked, for each point
    coordinates: int = 100_000  # simulated, for each point
    levels: float = 2.0**16
    seed: int = 0


SCALES = {
    "quick": Config(
        Setting("digits", model="mlp16", learning_rate=0.05, block=30), num_clients=30, attacked_sizes=(),
        attacked_alphas=(0.5,), attacked_dropouts=(0.0,), attacked_adversarial=(0.0,), rounds=3, coordinates=10_000,
    ),
    "cpu": Config(Setting(model="mlp16", block=25)),
    "paper": Config(Setting("cifar10", model="cnn"), rounds=10, coordinates=1_000_000),
}  # fmt: skip
ALPHA, DROPOUT, ADVERSARIAL = 0.1, 0.3, 1 / 3
PANELS = {
    "alpha": "alpha", "num_clients": "users N", "dropout": "dropout theta", "adversarial": "colluding share gamma",
}  # fmt: skip


def points_of(config: Config, *, attacked: bool) -> dict[str, list[Point]]:
    """By panel; the paper's own point is attacked in all."""
    n, third = config.num_clients, round(ADVERSARIAL * config.num_clients)
    chosen = {
        "alpha": config.attacked_alphas if attacked else config.alphas,
        "num_clients": config.attacked_sizes if attacked else config.sizes,
        "dropout": config.attacked_dropouts if attacked else config.dropouts,
        "adversarial": config.attacked_adversarial if attacked else config.adversarial,
    }
    make = {
        "alpha": lambda alpha: Point(n, alpha, DROPOUT, third),
        "num_clients": lambda size: Point(size, ALPHA, DROPOUT, round(ADVERSARIAL * size)),
        "dropout": lambda dropout: Point(n, ALPHA, dropout, third),
        "adversarial": lambda share: Point(n, ALPHA, DROPOUT, round(share * n)),
    }
    common = [Point(n, ALPHA, DROPOUT, third)] if attacked else []
    return {panel: common + [make[panel](value) for value in chosen[panel]] for panel in PANELS}


def run(config: Config) -> harness.Outcome:
    where = points_of(config, attacked=False)
    simulated = xr.concat([_simulated(config, panel, where[panel]) for panel in PANELS], "point")
    attacked = _attack(config)
    result = xr.merge([simulated, _attacked(config, attacked)])
    caveats = [
        f"attack: {config.setting.dataset}, {config.setting.model}, {config.rounds} rounds with training and the whole "
        f"protocol for each point, c = {config.levels:.0f}",
        "selections come from thresholds (expand='dense'), so that alpha and theta vary in one program",
    ]
    return harness.Outcome(figure(config, result), result, claims(config, result, attacked), caveats)


def _attack(config: Config) -> dict[Point, Attacked]:
    points = sorted({point for points in points_of(config, attacked=True).values() for point in points})
    found = {}
    for size in sorted({point.num_clients for point in points}):
        some = [point for point in points if point.num_clients == size]
        found |= zip(some, attack_sparse(config.setting, some, config.rounds, config.levels, config.seed), strict=True)
    return found


def _simulated(config: Config, panel: str, points: list[Point]) -> xr.Dataset:
    shares = [
        sample_components(
            config.coordinates, num_clients=p.num_clients, num_adversaries=p.adversaries, alpha=p.alpha,
            dropout=p.dropout, seed=config.seed,
        ).share
        for p in points
    ]  # fmt: skip
    return _by_point("point", panel, points, {
        "simulated": (("point", "size"), [share.value for share in shares]),
        "simulated_error": (("point", "size"), [share.error for share in shares]),
        "theory": (("point", "size"), [_theory(p) for p in points]),
        "mean_size": ("point", [_mean_size(p) for p in points]),
    })  # fmt: skip


def _attacked(config: Config, found: dict[Point, Attacked]) -> xr.Dataset:
    parts = []
    for panel, points in points_of(config, attacked=True).items():
        of = [found[p] for p in points]
        parts.append(_by_point("attack", panel, points, {
            "read": (("attack", "size"), [a.share for a in of]),
            "read_error": (("attack", "few"), [a.error for a in of]),
            "honest": ("attack", [a.honest for a in of]),
        }))  # fmt: skip
    return cast(xr.Dataset, xr.concat(parts, "attack"))


def _by_point(name: str, panel: str, points: list[Point], values: dict) -> xr.Dataset:
    at = [getattr(p, panel) for p in points]
    expected = [_theory(p) for p in points] if name == "attack" else None
    more = {} if expected is None else {"expected": ((name, "size"), expected)}
    return xr.Dataset(values | more, coords={
        f"{name}_panel": (name, [panel] * len(points)), f"{name}_at": (name, np.array(at, float)),
        "size": ("size", [1, 2, 3], {"long_name": "honest clients in the sum that is read"}),
    })  # fmt: skip


def _theory(p: Point) -> np.ndarray:
    return np.asarray(theory.component_fraction(np.array([1, 2, 3]), p.num_clients, p.alpha, p.dropout, p.adversarial))


def _mean_size(p: Point) -> float:
    """Mean number of honest clients in the sum in which a value is read."""
    size = np.arange(1, min(p.num_clients - p.adversaries, 100) + 1)
    return float((size * theory.component_fraction(size, p.num_clients, p.alpha, p.dropout, p.adversarial)).sum())


def claims(config: Config, result: xr.Dataset, attacked: dict[Point, Attacked]) -> list[Claim]:
    n = config.num_clients
    usual = Point(n, ALPHA, DROPOUT, round(ADVERSARIAL * n))
    found, expected = attacked[usual], _theory(usual)
    limit = theory.aggregated_honest_clients_limit(n, ALPHA, DROPOUT, usual.adversarial)
    sums, wrong = sum(a.sums for a in attacked.values()), sum(a.wrong for a in attacked.values())
    chance = sum(a.by_chance for a in attacked.values())
    off = np.abs(result.read[:, :2].values - result.expected[:, :2].values) / result.read_error.values
    drawn = np.abs(result.simulated - result.theory).values / np.maximum(result.simulated_error.values, 1e-9)
    return [
        Claim(
            "sums-over-t", f"users and server learn no more than sums over T honest users, N = {n}",
            f"T = {limit:.2f} (Theorem 2)", f"{found.share[0]:.1%} of values read alone, {found.share[1]:.1%} in pairs",
            bool(found.share[0] == 0 and found.share[1] == 0),
            f"alpha = {ALPHA}, theta = {DROPOUT}, A = N/3; theory {expected[0]:.1%} and {expected[1]:.1%}",
        ),
        *_trends(config),
        Claim(
            "attack-is-right", "what the attack reads is true", "", f"{wrong} of {sums:,} sums are wrong",
            bool(wrong <= chance + 5 * np.sqrt(chance) + 1), f"{chance:.1f} would be tiny by chance",
            source=Source.OURS,
        ),
        Claim(
            "attack-as-theory", "the attack reads what theory says", "",
            f"off by up to {off.max():.1f} standard errors; simulated components by up to {drawn.max():.1f}",
            bool(off.max() < 4 and drawn.max() < 5), "alone and in pairs", source=Source.OURS,
        ),
        _withstands(config, usual),
    ]  # fmt: skip


def _trends(config: Config) -> list[Claim]:
    """Whether more of what the paper counts hides more."""
    n, sizes = config.num_clients, (config.sizes[0], config.sizes[-1])
    third = round(ADVERSARIAL * n)
    alone = np.array([_theory(Point(s, ALPHA, DROPOUT, round(ADVERSARIAL * s)))[0] for s in sizes])
    low, high = (_theory(Point(n, alpha, DROPOUT, third))[0] for alpha in (ALPHA, 1.0))
    none = _theory(Point(n, ALPHA, 0.0, 0))
    return [
        Claim(
            "grows-with-n", "privacy grows with N", "T grows as N",
            f"read alone: {alone[0]:.1%} at N = {sizes[0]}, {alone[1]:.1%} at N = {sizes[1]}",
            bool(alone[1] < 0.5 * alone[0]), "theory; verdict: at least halved",
        ),
        Claim(
            "grows-with-alpha", "privacy grows with alpha", "T nearly linear in alpha",
            f"read alone: {low:.1%} at alpha = {ALPHA}, {high:.1%} at alpha = 1", bool(high < 0.5 * low),
            "theory; verdict: at least halved",
        ),
        Claim(
            "no-dropouts", "without dropouts and colluders the server learns only the sum", "T = N p",
            f"none alone, {none[1]:.1%} in pairs", bool(none[1] < 0.01), f"theory, alpha = {ALPHA}, N = {n}",
        ),
    ]  # fmt: skip


def _withstands(config: Config, usual: Point) -> Claim:
    reading = attack_secagg(config.setting, usual, config.levels, config.seed)
    return Claim(
        "secagg-withstands", "SecAgg on the complete graph withstands the same attack", "learns only the sum",
        f"{len(reading.value)} values or sums of two are tiny, of {reading.sent.sum():,} values",
        bool(len(reading.value) <= reading.false_hits + 5 * np.sqrt(reading.false_hits) + 1),
        f"{reading.false_hits:.1f} would be tiny by chance",
    )  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(15, 7), layout="constrained")
    rows = picture.subplots(2, len(PANELS), sharey="row", sharex="col")
    for i, (panel, label) in enumerate(PANELS.items()):
        lines = result.sel(point=result.point_panel == panel)
        points = result.sel(attack=result.attack_panel == panel)
        _shares(rows[0, i], lines, points)
        _counts(rows[1, i], config, panel, lines, points)
        rows[1, i].set(xlabel=label)
        if panel == "num_clients":
            rows[1, i].set_xscale("log")
    rows[0, 0].set(ylabel="share of what honest survivors send")
    rows[1, 0].set(ylabel="honest users")
    for row in rows:
        handles, labels = row[0].get_legend_handles_labels()
        row[-1].legend(handles, labels, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    picture.suptitle(
        f"What the server of SparseSecAgg and its colluders read; where not varied, N = {config.num_clients}, "
        f"alpha = {ALPHA}, theta = {DROPOUT}, gamma = 1/3"
    )
    return picture


def _shares(axes: Axes, lines: xr.Dataset, points: xr.Dataset) -> None:
    order = np.argsort(lines.point_at.values)
    for k, label in enumerate(("alone", "in a sum of two", "in a sum of three")):
        at = lines.point_at.values[order]
        axes.plot(at, lines.theory.values[order, k], color=COLOURS[k], label=f"read {label}: theory")
        axes.plot(at, lines.simulated.values[order, k], "o", color=COLOURS[k], markersize=4, label="  simulated")
        error = points.read_error.values[:, k] if k < 2 else None
        axes.errorbar(
            points.attack_at, points.read.values[:, k], error, fmt="x", color=COLOURS[k], markersize=8,
            markeredgewidth=2, elinewidth=1, label="  attack on the protocol",
        )  # fmt: skip
    axes.axhline(0, color="black", linestyle="--", linewidth=1, label="SecAgg: nothing but the total")
    axes.set_ylim(-0.03, 1.0)
    _plain(axes)


def _counts(axes: Axes, config: Config, panel: str, lines: xr.Dataset, points: xr.Dataset) -> None:
    where = sorted(points_of(config, attacked=False)[panel], key=lambda p: getattr(p, panel))
    at = [getattr(p, panel) for p in where]
    limit = [theory.aggregated_honest_clients_limit(*p[:3], p.adversarial) for p in where]
    secagg = [theory.secagg_aggregated_honest_clients(p.num_clients, p.dropout, p.adversarial) for p in where]
    axes.plot(at, secagg, "--", color="black", linewidth=1, label="SecAgg: in every sum")
    axes.plot(at, limit, color=COLOURS[3], label="the paper's T: send a coordinate")
    axes.plot(points.attack_at, points.honest, "x", color=COLOURS[3], markersize=9, markeredgewidth=2, label="  run")
    order = np.argsort(lines.point_at.values)
    axes.plot(
        lines.point_at.values[order],
        lines.mean_size.values[order],
        color=COLOURS[4],
        label="mean in the sum that is read",
    )
    axes.axhline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
