"""What is claimed of the three forms of power control."""

from typing import Any

import numpy as np
import xarray as xr

from experiments.claims import Claim, Open, Source, untestable
from experiments.comparison import CLEAR, Gap, decided, gap, last

FREE, UPDATES = "no limit", "small noise"
"""Controls: a limit that binds nobody; and one that is about updates, not about noise."""
BITES = 0.1
"""Part of the weakest users' transmissions that a limit must touch, or nothing is tested."""


def claims(config: Any, result: xr.Dataset, expected: xr.DataArray) -> list[Claim]:
    """All by the rule they name."""
    names = [f"sigma^2 = {v:g}" for v in config.noise_variances]
    ends = last(result.accuracy, "iteration")
    found = [
        _same_bits(result, names),
        _bites(config, result, names),
        _figures(result, names),
        _heard(config, result, expected),
        _within(config, result, names),
        _as_good(config, result, ends.sel(case=names)),
        _costs(result, "limit-costs", "a power limit costs accuracy, even if scaled noise goes with it",
               gap(ends.sel(case=FREE, control="gradient"), ends.sel(case=names[-1], control="gradient")), names[-1]),
        _costs(result, "silence-costs", "users who stay silent because of their noise ('signal') are missed",
               gap(ends.sel(case=names[-1], control="bound"), ends.sel(case=names[-1], control="signal")), names[-1]),
        _leaks_less(result, names),
    ]  # fmt: skip
    return [claim._replace(source=Source.OURS, differs="") for claim in found]


def _same_bits(result: xr.Dataset, names: list[str]) -> Claim:
    """A control of the whole card: gains, coins, batches and noise are the same under all three."""
    apart = lambda case: float(abs(result.accuracy - result.accuracy.sel(control="gradient")).sel(case=case).max())
    return Claim(
        "same-bits", "where no limit binds the three are the same", "equal",
        f"accuracies at all evaluations differ by {apart(FREE):g}; heard by {_spread(result, FREE):g}",
        apart(FREE) == 0 and _spread(result, FREE) == 0 and _spread(result, names[-1]) > 0, "no difference at all",
        control=f"with the limit, {names[-1]}: {apart(names[-1]):.3g} and {_spread(result, names[-1]):.3g}",
    )  # fmt: skip


def _spread(result: xr.Dataset, case: str) -> float:
    heard = result.heard.sel(case=case)
    return float((heard.max("control") - heard.min("control")).max())


def _touched(result: xr.Dataset, case: str) -> float:
    """The part of what the weakest users send that the paper's form scales."""
    return float(result.limited.sel(control="gradient", case=case).isel(group=0).mean())


def _bites(config: Any, result: xr.Dataset, names: list[str]) -> Claim:
    free = _touched(result, FREE)
    return Claim(
        "limit-bites", f"the limit touches the weakest users ({config.setting.snr_db[0]:g} dB)", "",
        ", ".join(f"{100 * _touched(result, case):.2g}% of what they send ({case})" for case in names),
        _touched(result, names[-1]) > BITES and free == 0, f"more than {100 * BITES:g}% at the largest sigma^2",
        control=f"without a limit {100 * free:g}%",
    )  # fmt: skip


def _figures(result: xr.Dataset, names: list[str]) -> Claim:
    exists = np.isfinite(result.eps.sel(case=names))
    eps = lambda control: " / ".join(f"{value:.3g}" for value in result.eps.sel(control=control, case=names).values)
    why = result.why.sel(control="gradient", case=names[-1]).item()
    alone = result.without_own_noise
    return Claim(
        "figures", "eps of all rounds is proved for 'bound' and 'signal', and not for 'gradient' (eq. 26)", "",
        f"bound {eps('bound')}, signal {eps('signal')}, gradient none: {why}; without a limit "
        f"{' / '.join(f'{value:.3g}' for value in result.aligned.sel(case=names).values)}",
        bool(exists.sel(control=["bound", "signal"]).all() and not exists.sel(control="gradient").any()
             and np.isfinite(alone).all()),
        "the ledger has a figure at every sigma^2, and none", f"by sigma^2, {', '.join(names)}",
        control=f"had users added no noise, 'gradient' would have one: {float(alone.sel(control='gradient')):.3g}",
    )  # fmt: skip


def _heard(config: Any, result: xr.Dataset, expected: xr.DataArray) -> Claim:
    """What recorded amplitudes say, next to quadrature over the gains."""
    users = xr.DataArray(list(config.setting.groups), dims="group")
    p, found = config.participation, result.heard.mean("seed")
    sends = p * users * config.rounds * result.sizes["seed"]
    of = lambda form: expected.sel(form=form, drop=True)
    error = lambda form: 5 * np.sqrt(of(form) * (1 - p * of(form)) / sends)  # at most: amplitudes are in [0, 1]
    near = [abs(found.sel(control=form) - of(form)) < error(form) for form in ("bound", "signal")]
    between = (found.sel(control="gradient") > of("bound") - error("bound")) & (
        found.sel(control="gradient") < of("zero updates") + error("zero updates")
    )
    case, weak = expected.case.values[len(config.noise_variances) - 1], expected.group.values[0]
    at = lambda values: f"{100 * float(values.sel(case=case, group=weak)):.3g}%"
    by_form = {name: found.sel(control=name).isel(partition=0) for name in found.control.values}
    return Claim(
        "heard", "of the weakest users less is heard under 'signal' than under 'bound'", f"{at(of('signal'))} and "
        f"{at(of('bound'))}, by quadrature", ", ".join(f"{name} {at(values)}" for name, values in by_form.items()),
        bool(all(each.all() for each in near) and between.all()
             and (by_form["signal"] < by_form["bound"]).sel(case=case, group=weak)),
        "all groups and cases are within 5 standard errors of quadrature, and the order is this",
        f"mean amplitude received, silent ones too, over that without a limit; {weak:g} dB, {case}",
    )  # fmt: skip


def _within(config: Any, result: xr.Dataset, names: list[str]) -> Claim:
    """Eq. 26 limits a mean over noise; a tail of chi-square says how far one transmission may be above it."""
    d, sends = result.attrs["num_params"], config.setting.num_users * config.rounds * result.accuracy.size
    beyond, shift = np.log(1e6 * sends), config.clip**2 / min(config.noise_variances)
    most = 1 + 2 * np.sqrt((d + 2 * shift) * beyond) / d + 2 * beyond / d
    peak, free = (float(result.peak.sel(case=case).max()) for case in (names, FREE))
    joules = lambda control: " / ".join(
        f"{value:.2g}"
        for value in result.energy.sel(control=control, case=names[-1]).mean(["seed", "partition"]).values
    )
    return Claim(
        "within-limit", "all three keep within the limit", f"{most:.3g} times it at most",
        f"{peak:.3g} times; energy by group: " + ", ".join(f"{name} {joules(name)}" for name in result.control.values),
        bool(peak <= most < free), "no transmission is farther above it than noise makes it (Laurent, Massart)",
        f"energy of a channel use over N0, {names[-1]}; without a limit {_free_energy(result)}",
        control=f"without a limit {free:.3g} times",
    )  # fmt: skip


def _free_energy(result: xr.Dataset) -> str:
    energy = result.energy.sel(case=FREE, control="gradient").mean(["seed", "partition"]).values
    return " / ".join(f"{value:.2g}" for value in energy)


def _as_good(config: Any, result: xr.Dataset, ends: xr.DataArray) -> Claim:
    """Whether the guarantee costs accuracy; where a limit is about updates the two forms do differ."""
    behind = gap(ends.sel(control="gradient"), ends.sel(control="bound"))
    heard = result.heard.sel(case=UPDATES).isel(group=0).mean("seed")
    apart = heard.sel(control="gradient") - heard.sel(control="bound")
    less = ", ".join(f"{100 * float(apart.sel(partition=of)):.3g} points ({of})" for of in apart.partition.values)
    control = f"where noise is small next to L, less is heard of the weakest users under 'bound': {less}"
    claim = Claim(
        "bound-is-as-good", "to scale by L for the norm of the update ('bound') costs no accuracy", "",
        "; ".join(f"{of}: {', '.join(behind.sel(partition=of, case=case).text() for case in ends.case.values)}"
                  for of in ends.partition.values),
        decided(behind.small(CLEAR)), f"within {100 * CLEAR:g} point, as sure as that",
        f"points that 'gradient' is ahead by, {', '.join(map(str, ends.case.values))}; L^2 is "
        f"{config.clip**2 / result.attrs['num_params'] / config.noise_variances[-1]:.1g} of the noise's energy",
        why=Open.UNDECIDED, control=control,
    )  # fmt: skip
    tested = _touched(result, str(ends.case.values[-1])) > BITES and float(apart.max()) > CLEAR
    return claim if tested else untestable(claim, control)


def _costs(result: xr.Dataset, id: str, text: str, found: Gap, case: str) -> Claim:
    touched = _touched(result, case)
    control = f"the limit touches {100 * touched:.2g}% of what the weakest users send"
    claim = Claim(
        id, text, "costs",
        ", ".join(f"{found.sel(partition=of).text()} points ({of})" for of in result.partition.values),
        decided(found.above()), "the interval of the difference is above 0, for both partitions", case,
        why=Open.UNDECIDED, control=control,
    )  # fmt: skip
    return claim if touched > BITES else untestable(claim, control)


def _leaks_less(result: xr.Dataset, names: list[str]) -> Claim:
    eps, known = result.eps.sel(case=names), result.known_set.sel(case=names)
    bound, signal = eps.sel(control="bound"), eps.sel(control="signal")
    free = result.eps.sel(case=FREE)
    return Claim(
        "signal-leaks-less", "at equal limits less can leak under 'signal' than under 'bound'", "less",
        ", ".join(f"{float(one):.3g} and {float(other):.3g} ({case})"
                  for case, one, other in zip(names, signal, bound, strict=True)),
        bool((signal < bound).all()), "its proved eps is smaller at every sigma^2",
        f"the proof for 'bound' gives the server the set of senders; so would 'signal' have "
        f"{' / '.join(f'{value:.3g}' for value in known.values)}",
        control=f"without a limit {float(free.sel(control='signal')):.4g} and {float(free.sel(control='bound')):.4g}",
    )  # fmt: skip
