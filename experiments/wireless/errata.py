"""What the paper prints, and what its own formulas, or exact ones, give."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import optimize

from experiments.claims import Claim, Source
from experiments.comparison import as_printed
from experiments.harness import Outcome
from experiments.wireless import fig3, fig6, leakage, printed
from experiments.wireless.leakage import DELTA_LOCAL
from experiments.wireless.printed import USERS
from experiments.wireless.schemes import Noise, sampled_round
from experiments.wireless.table_config import PANELS
from experiments.wireless.training import RECEIVER_NOISE, Setting
from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory


class Config(NamedTuple):
    """Nothing here depends on a scale."""

    num_users: int = USERS
    seed: int = 0


def run(config: Config) -> Outcome:
    claims = [*published(), *removal(config), *optimum(), *figures(), *moments(), *formulas()]
    agrees = np.array([np.nan if claim.verdict is None else float(claim.verdict) for claim in claims])
    columns = {"item": "text", "printed": "expected", "computed": "found", "note": "note"}
    texts = {name: ("row", [getattr(claim, field) for claim in claims]) for name, field in columns.items()}
    result = xr.Dataset({"agrees": ("row", agrees)}, texts)
    caveats = [
        f"Tables II and III are at K = {config.num_users}, delta_l = 1e-5, delta' = 2 exp(-2 m^2/K) + 1e-5, N0 = 1; "
        "uniform columns only, the others depend on the channel's draws (fig4, fig5)",
        'printed "-": the paper says nothing of it',
    ]
    return Outcome(figure(claims), result, claims, caveats)


def published() -> list[Claim]:
    """Which formula gives the leakages of Tables II and III, uniform columns; fig4 and fig5 have a claim per cell."""
    cells = [
        (printed.uniform(p, panel.clip, noise), panel.printed, i)
        for noise, panels in PANELS.values() for panel in panels.values() for i, p in enumerate(printed.UNIFORM, 1)
    ]  # fmt: skip
    rows = (("lemma-2", "eps_l is Lemma 2's", "lemma", "local", Source.PAPER),
            ("eq-13", "eps_c is eq. 13's", "central", "central", Source.PAPER),
            ("with-n0", "eps_l is Lemma 2's with N0 counted", "local", "local", Source.OURS),
            ("weaker", "eps_c is log(2 max p/(1-delta')) + c/sqrt(m - beta K)", "printed", "central", Source.OURS),
            ("one-rule", "eps_c is that where max p (e^x - 1)/(1-delta') > 1, else eq. 13's",
             "rule", "central", Source.OURS))  # fmt: skip
    return [_counted(*row, [(one[row[2]], getattr(said, row[3])[i]) for one, said, i in cells]) for row in rows]


def _counted(id: str, text: str, name: str, kind: str, source: Source, cells: list[tuple[float, str]]) -> Claim:
    met = [as_printed(*cell) for cell in cells]
    return Claim(
        id, f"Tables II and III, uniform: {text}", f"{len(met)} of {len(met)} cells", f"{sum(met)} of {len(met)}",
        all(met), "every cell to the printed digits", "; ".join(f"{value:.5g} ({said})" for value, said in cells),
        source,
    )  # fmt: skip


def removal(config: Config) -> list[Claim]:
    """Theorem 1 and what the server may know."""
    p = 0.9
    small = leakage.delta_prime(np.full(config.num_users, p))
    loud = theory.Round(config.num_users, p, clip=0.1, noise_variance=0.1, receiver_noise=RECEIVER_NOISE)
    case = theory.removal_counterexample(loud, 7850, DELTA_LOCAL, small)
    setting, _, delta = sampled_round(1000, Noise())
    hidden = theory.rigorous_epsilon(setting, delta)
    known = theory.known_set_epsilon(setting, delta)
    everyone = theory.rigorous_unsampled_epsilon(setting, delta)
    return [
        Claim("removal", f"Theorem 1, removal: delta at eps = {case.epsilon:.3f}", f"{case.claimed:.2g}",
              f"{case.exact:.2g}", bool(case.exact <= case.claimed), "not above the claim",
              "K = 200, p = 0.9, L = 0.1, sigma^2 = 0.1, gradients 0, R not revealed"),
        Claim("known-participants", "knowing K_t does not matter", "the same eps",
              f"{hidden:.3f} hidden, {known:.3f} known", bool(known <= hidden), "known is not above hidden",
              f"Fig. 2's noise, K = {setting.num_users}, p*; all users without sampling: {everyone:.3f}"),
    ]  # fmt: skip


def optimum() -> list[Claim]:
    """Lemma 1."""
    k, small = 1000, 1e-4
    star = float(theory.optimal_participation(k, small))
    at = lambda p, c: theory.Round(k, p, 1.0, fig6.noise_variance(c))
    eps = lambda p, c: float(theory.central_epsilon(at(p, c), DELTA_LOCAL, small))
    least = lambda c: _least(lambda p: eps(p, c), star / 2 + 1e-6)
    curvature = lambda p: (eps(p + 0.01, 1e-3) + eps(p - 0.01, 1e-3) - 2 * eps(p, 1e-3)) / 1e-7
    first, past = curvature(star), curvature(2.5 * star)
    return [
        Claim("optimum", "Lemma 1: p* minimises eq. 14", f"p* = {star:.3f}",
              ", ".join(f"{least(c):.3f} (c = {c:g})" for c in (0.01, 5.0, 20.0)), bool(abs(least(20.0) - star) < 1e-3),
              "within 0.001 at c = 20", f"K = {k}, delta' = {small:g}; it minimises the linearised bound only"),
        Claim("curvature", "eq. 41: second derivative at 2 beta K", "negative", "positive" if first > 0 else "negative",
              bool(first < 0), "negative",
              f"{'negative' if past < 0 else 'positive'} past 4 beta K: the sign is reversed"),
    ]  # fmt: skip


def _least(of: Callable[[float], float], low: float) -> float:
    """The p from `low` to 1 at which a function is least."""
    found: Any = optimize.fminbound(of, low, 1, xtol=1e-7)
    return float(found)


def figures() -> list[Claim]:
    """Fig. 2 and 3."""
    many = sampled_round(10**6, Noise())
    total = theory.compose_homogeneous(many.epsilon, many.delta, 1000, 1e-4)
    bounds = fig3.bounds(fig3.Config(Setting(), participation=(0.1, 0.3, 0.5, 0.7, 0.9)))
    ratio = bounds.moment.sel(estimate="unknown") / bounds.moment.sel(estimate="known")
    lower = ratio <= 1 + fig3.EQUAL
    found = "; ".join(
        f"K = {k}: p = {', '.join(f'{p:g}' for p in of.p.values[of.values]) or 'none'}"
        for k, of in lower.groupby("K")
        for of in [of.squeeze()]
    )
    return [
        Claim("fig-2b", "Fig. 2b: eps_T vanishes at a small delta_T, T = 1,000", "",
              f"{total.epsilon:.2g} at delta_T = {total.delta:.2g}", bool(total.delta < 0.01), "delta_T below 0.01",
              "K = 1,000,000; by algebra delta_T, which the paper does not print, is at least T delta', whatever K",
              Source.OURS),
        Claim("unknown-number", "unknown R always beats known (bounds)", "always", found, bool(lower.all()),
              f"eq. 21 is not above eq. 23 by more than {fig3.EQUAL:.1%}, at any K and p",
              "where that is so, of p = 0.1, 0.3, 0.5, 0.7, 0.9"),
    ]  # fmt: skip


def moments() -> list[Claim]:
    """The approximations of Theorem 3, and the bias of the estimates."""
    off = []
    for k in (20, 200):
        exact, rough = (kind(k, 0.1) for kind in (theory.inverse_moments, theory.inverse_moments_taylor))
        off.append([abs(b / a - 1) for a, b in zip(exact, rough, strict=True)])
    text = "; ".join(f"K = {k}: {100 * a:.2g}%, {100 * b:.2g}%" for k, (a, b) in zip((20, 200), off, strict=True))
    p = np.array([0.1] * 10 + [0.9] * 10)
    weights = theory.estimate_weights_unknown(20, p) * 20, theory.estimate_weights_known(20, p) * 20
    k, part = 20, 0.3
    shown, right = (1 - part) ** 2, (1 - part) / k / part
    return [
        Claim("moments", "eqs. 24, 25 are within 10% of E[1/R], E[1/R^2] in Fig. 3", "", f"off by {text}",
              bool(np.max(off) < 0.1), "within 10%", "p = 0.1", Source.OURS),
        Claim("display", "display after eq. 25, p = 0.3, K = 20", f"(1-p)^2 = {shown:.3f}",
              f"(1-p)/(Kp) = {right:.3f}", bool(np.isclose(shown, right)), "the same number",
              "what eqs. 24 and 25 give, twice"),
        Claim("weights", "eqs. 9, 10: every user weighs 1/K", "",
              "; ".join(f"{w[0]:.2f} and {w[-1]:.2f}" for w in weights), bool(np.allclose(weights, 1)),
              "1 for every user", "K w_k at p_k = 0.1 and 0.9, unknown R and known R; 1 for uniform p; weights do not "
              "matter if data are iid, as the paper assumes", Source.OURS),
    ]  # fmt: skip


def formulas() -> list[Claim]:
    """The 1.25 formula at every delta."""
    limits = [_holds_up_to(delta) for delta in (1e-5, 1e-4)]
    return [Claim("classical-formula", "Appendix A: the 1.25 formula, any eps", "any",
                  f"up to {limits[0]:.1f}, {limits[1]:.1f}", bool(np.min(limits) >= _LARGE), f"up to eps = {_LARGE:g}",
                  "largest eps at which it is a bound, delta = 1e-5 and 1e-4; proved up to 1")]  # fmt: skip


_LARGE = 20.0


def _holds_up_to(delta: float) -> float:
    """The eps at which the 1.25 formula stops being a bound; `_LARGE` if it is one up to there."""
    excess = lambda eps: float(gaussian.epsilon(delta, eps / float(gaussian.classical_epsilon(delta, 1.0))) - eps)
    if excess(_LARGE) <= 0:
        return _LARGE
    found: Any = optimize.brentq(excess, 2.0, _LARGE)
    return found


def figure(claims: list[Claim]) -> Figure:
    picture = Figure(figsize=(14, 0.28 * len(claims) + 0.7), layout="constrained")
    axes = picture.subplots()
    axes.axis("off")
    words = {True: ("yes", "#d7efe3"), False: ("no", "#f7dccb"), None: ("-", "white")}
    cells = [[row.text, row.expected or "-", row.found, words[row.verdict][0], row.note] for row in claims]
    headings, widths = ["", "printed", "computed", "agrees", "note"], [0.2, 0.11, 0.25, 0.045, 0.395]
    table = axes.table(cells, colLabels=headings, loc="center", cellLoc="left", colWidths=widths)
    table.auto_set_font_size(False)
    table.set_fontsize(8.5)
    table.scale(1, 1.2)
    for i, row in enumerate(claims, 1):
        table[i, 3].set_facecolor(words[row.verdict][1])
    return picture
