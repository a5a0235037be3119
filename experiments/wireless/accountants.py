"""The paper's bounds next to exact accounting, and an audit of both by simulation."""

import numpy as np
import xarray as xr

from experiments.claims import Claim, Source
from experiments.harness import Outcome, span
from experiments.wireless import audit
from experiments.wireless.accounting import EPSILONS, Config, audited, by_participation, by_rounds, by_users
from experiments.wireless.panels import figure
from experiments.wireless.training import RECEIVER_NOISE


def run(config: Config) -> Outcome:
    parts = (by_participation(config), by_users(config), by_rounds(config), audited(config))
    return judge(config, xr.merge(parts))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    caveats = [
        f"by p: K = {config.num_users}, sigma^2 = {config.noise_variance:g}, N0 = {RECEIVER_NOISE:g}, delta' = "
        "2 exp(-2 m^2/K) + 1e-5, every curve at eq. 13's delta_c; by K: the noise of Fig. 2, p = p*(K)",
        "exact figures are of one round, all users aligned, one sigma^2 and p; R is revealed, K_t only in (c); "
        "composed they are upper bounds",
        f"where p <= sqrt(log(2)/(2K)) = {np.sqrt(np.log(2) / 2 / config.num_users):.3f} the paper has no bound; near "
        "p = 1 nothing bounds removal once R is revealed",
        f"audit: the channel is simulated, all users aligned; {_size(config.pair)} rounds of each input for the worst "
        f"pair, {_size(config.removed)} for removal, a fifth of them to choose thresholds; Clopper-Pearson, "
        f"{audit.CONFIDENCE:.0%} for all points of a panel together",
    ]
    return Outcome(figure(config, result), result, [*_bounds(config, result), *_audits(result)], caveats)


def _size(spec: audit.Trials) -> str:
    return f"{spec.rounds * spec.seeds:,}"


def _bounds(config: Config, result: xr.Dataset) -> list[Claim]:
    eps = result.eps.dropna("p")
    paper = eps.sel(curve="paper")
    true = {name: paper >= eps.sel(curve=name) for name in ("replacement", "removal")}
    ratio = (paper / eps.sel(curve="replacement").where(eps.sel(curve="replacement") > 0)).values
    broken = eps.p.values[~true["removal"].sel(clip=config.clips[-1]).values]
    known, hidden = (eps.sel(curve=name) for name in ("known", "replacement"))
    worse = result.scaled.sel(line="known") > result.scaled.sel(line="all")
    total = result.isel(T=-1)
    return [
        Claim(
            "replacement", "Theorem 1, stated for removal, holds for replacement, uniform p", "",
            f"eq. 13 is {np.nanmin(ratio):.3g} to {np.nanmax(ratio):.3g} times the exact eps",
            bool(true["replacement"].all()), "not below the exact figure at its delta, at any p and L shown",
            source=Source.OURS,
        ),
        Claim(
            "removal", "Theorem 1 holds for removal, once R is known, as the paper lets it be", "holds",
            f"L = {config.clips[-1]:g}: below the exact figure "
            + (f"from p = {broken.min():g} on" if broken.size else "nowhere"),
            bool(true["removal"].all()), "not below the exact figure at its delta",
            "there is no finite exact figure near p = 1",
        ),
        Claim(
            "known-participants", "knowing K_t costs nothing (post-processing)", "nothing",
            f"eps is up to {float((known / hidden.where(hidden > 0)).max()):.3g} times as large",
            bool((known <= hidden * 1.001).all()), "the same at all p",
            f"at p* and Fig. 2's noise it is then above that of all users at {int(worse.sum())} of {worse.size} K",
        ),
        Claim(
            "composition", f"composition (eqs. 18-20) bounds what T = {total['T'].item():,} rounds leak", "bounds",
            f"eps_T = {float(total.total):.3g}, exact at most {float(total.total_exact):.3g} at delta_T = "
            f"{float(total.total_delta):.3g}",
            bool((result.total >= result.total_exact).all()), "at every T",
            f"replacement, uniform p = {config.uniform:g}, L = {config.clips[-1]:g}",
        ),
    ]  # fmt: skip


def _audits(result: xr.Dataset) -> list[Claim]:
    at = result.isel(removed_clip=-1)
    beats = result.removed_low > result.removed_claimed
    return [
        Claim(
            "removal-audit", "Theorem 1 holds for removal: audit of its delta_c", f"{at.removed_claimed.item():.2g}",
            "at least " + ", ".join(
                f"{low:.3g} (L = {clip:g})" for clip, low in
                zip(result.removed_clip.values, np.maximum(result.removed_low.values, 0), strict=True)
            ),
            bool(~beats.any()), "none above the claim",
            "measured lower bounds on delta at eq. 13's eps, gradients 0, R not revealed; computed exactly "
            f"{', '.join(f'{value:.3g}' for value in result.removed_exact.values)}",
        ),
        Claim(
            "exact-removal-audit", "the exact figure for removal withstands that audit", "",
            ", ".join(f"{value:.3g}" for value in result.removed_rigorous.values),
            bool((result.removed_low <= result.removed_rigorous).all()
                 and (result.removed_exact <= result.removed_rigorous).all()),
            "above every measured lower bound, and above the exact delta without R",
            "delta at the same eps, R revealed", Source.OURS,
        ),
        Claim(
            "exact-replacement-audit", "the exact figure for replacement withstands the worst pair, and is attained",
            "", f"measured less exact {float((result.pair - result.pair_exact).min()):+.2g} to "
            f"{float((result.pair - result.pair_exact).max()):+.2g}",
            bool(((result.pair_low <= result.pair_exact) & (result.pair_exact <= result.pair_high)).all()),
            "inside the interval at every eps", f"delta at eps = {span(EPSILONS)}", Source.OURS,
        ),
    ]  # fmt: skip
