"""Every printed number of Tables II and III: a claim for each cell, and for the formulas that the cells follow from."""

import numpy as np
import xarray as xr

from experiments import published
from experiments.claims import Claim, Open, joined, untestable
from experiments.comparison import as_printed, decided, last
from experiments.harness import span
from experiments.wireless import curves, printed
from experiments.wireless.printed import PARTICIPANTS
from experiments.wireless.table_config import AWARE, CHOSEN, Config, Panel

NEAR = 2.0
"""Points of accuracy that batches, initial models and the hidden layer may cost, none of which is published."""
FITTED = "T is not printed; this one was picked by looking at the accuracies of (a), so agreement would be a fit"
DIGITS = "to the printed digits"


def claims(config: Config, name: str, of: xr.Dataset) -> list[Claim]:
    """Of a panel: 12 cells, two formulas, and the order of the columns."""
    leaks = _leakage(config, name)
    return [*participants(config, name, of), *leaks, *accuracies(config, name, of), order(config, name, of)]


def participants(config: Config, name: str, of: xr.Dataset) -> list[Claim]:
    """Mean participants, by the law of the gains and in the runs."""
    means = of.participants.mean("seed").values
    error = 4 * np.sqrt(printed.USERS / 4 / config.panels[name].rounds / of.sizes["seed"])
    ours = config.is_papers
    return [
        Claim(
            f"{name}-participants {column}", f"({name}) mean participants, {column}", said,
            f"{law:.2f}" + (f", {mean:.1f} in the runs" if ours else ""),
            as_printed(law, said) and (not ours or bool(abs(mean - law) < error)),
            f"{DIGITS}; runs within 4 standard errors", f"K E min(1, h / h_th), K p; K = {printed.USERS}", differs="",
        )
        for column, said, law, mean in zip(config.columns, PARTICIPANTS, printed.participants(), means, strict=True)
    ]  # fmt: skip


def _leakage(config: Config, name: str) -> list[Claim]:
    """At the paper's K, whatever was run."""
    panel, noise = config.panels[name], config.noise_variance
    found = [printed.uniform(p, panel.clip, noise) for p in config.uniform]
    cells = [
        claim for i, one in enumerate(found, 1) for claim in _uniform(name, panel, config.columns[i], i, one)
    ]  # fmt: skip
    return [*_aware(name, panel, noise), *cells, *_formulas(name, panel, found)]


def _uniform(name: str, panel: Panel, column: str, i: int, one: dict[str, float]) -> list[Claim]:
    by = "eq. 13" if one["rule"] == one["central"] else "log(2 max p/(1-delta')) + c/sqrt(m - beta K)"
    rows = (
        ("eps_l", panel.printed.local[i], one["local"], one["local_delta"], "Lemma 2 with N0 counted", "lemma"),
        ("eps_c", panel.printed.central[i], one["rule"], one["central_delta"], by, "central"),
    )
    return [
        Claim(
            f"{name}-{what} {column}", f"({name}) {what}, {column}", said, f"{value:.5g}",
            as_printed(value, said), DIGITS,
            f"by {formula}; as the paper states it, {one[other]:.5g}; at delta {delta:.2g}", differs="",
        )
        for what, said, value, delta, formula, other in rows
    ]  # fmt: skip


def _formulas(name: str, panel: Panel, found: list[dict[str, float]]) -> list[Claim]:
    """What the formulas that the text states give for the uniform cells."""
    rows = (("lemma-2", "eps_l", "Lemma 2", "lemma", panel.printed.local, "the tables count N0, it does not"),
            ("eq-13", "eps_c", "eq. 13", "central", panel.printed.central, "each cell names its formula"))  # fmt: skip
    return [
        Claim(
            f"{name}-{id}", f"({name}) the uniform {what} follow from {formula} as stated", " / ".join(cells[1:]),
            " / ".join(f"{one[key]:.5g}" for one in found),
            all(as_printed(one[key], said) for one, said in zip(found, cells[1:], strict=True)),
            f"both {DIGITS}", note, differs="",
        )
        for id, what, formula, key, cells, note in rows
    ]  # fmt: skip


def _aware(name: str, panel: Panel, noise_variance: float) -> list[Claim]:
    """Two printed numbers determine a round; its place in the law of one round."""
    law = printed.law(panel.clip, noise_variance)
    cells = panel.printed.local[0], panel.printed.central[0]
    most, mean = printed.of_a_round(*cells, panel.clip, noise_variance)
    note = (
        f"eps_l and eps_c together are those of a round with max p = {most:.4f} (above {_part(most, law.most)} of "
        f"rounds) and m = {mean:.3f} ({_part(mean, law.mean)}); no test to digits, since gains are drawn; the largest "
        "of many rounds of a moving channel is larger: a frozen channel, or few rounds"
    )
    return [_of_law(name, what, said, values, note) for what, said, values in
            zip(("eps_l", "eps_c"), cells, (law.local, law.central), strict=True)]  # fmt: skip


def _of_law(name: str, what: str, said: str, values: np.ndarray, note: str) -> Claim:
    low, middle, high = np.quantile(values, [(1 - printed.CENTRAL) / 2, 0.5, (1 + printed.CENTRAL) / 2])
    return Claim(
        f"{name}-{what} {AWARE}", f"({name}) {what}, {AWARE}", said,
        f"{middle:.4g} in one round, {low:.4g} to {high:.4g}; printed is above {_part(float(said), values)}",
        bool(low <= float(said) <= high), f"a value of one round: within the middle {printed.CENTRAL:.0%}", note,
        differs="",
    )  # fmt: skip


def _part(value: float, values: np.ndarray) -> str:
    return f"{printed.place(value, values):.0%}"


def accuracies(config: Config, name: str, of: xr.Dataset) -> list[Claim]:
    """At the last iteration."""
    ends = 100 * last(of.accuracy, "iteration")
    said = zip(config.columns, config.panels[name].printed.accuracy, strict=True)
    return [_accuracy(config, name, column, cell, ends.sel(sampling=column).values) for column, cell in said]


def _accuracy(config: Config, name: str, column: str, cell: str, values: np.ndarray) -> Claim:
    """By the rule for printed values; one that a paper prints without its runs counts as that of a single one."""
    panel = config.panels[name]
    claim = published.claim(
        f"{name}-accuracy {column}", f"({name}) test accuracy, {column}", values.tolist(),
        published.Printed(float(cell)), NEAR, unit=" points", better=1,
        differs=_differs(panel) if config.is_papers else None,
    )  # fmt: skip
    note = joined(f"after {panel.rounds:,} iterations, {span(values)}", claim.note)
    claim = claim._replace(expected=f"{cell}%", note=note)
    if not config.is_papers or panel.rounds != (panel.papers_rounds or CHOSEN):
        return published.of_other_data(claim)
    return untestable(claim, FITTED) if panel.papers_rounds is None and name == "a" else claim


def _differs(panel: Panel) -> str | None:
    """What Table III does not print; of Table II, what the card says."""
    ours = f"T = {panel.rounds:,} and the hidden layer are ours, the paper prints neither"
    return ours if panel.papers_rounds is None else None


def order(config: Config, name: str, of: xr.Dataset) -> Claim:
    """The columns against each other, at the end."""
    aware, low, high = (of.accuracy.sel(sampling=sampling) for sampling in config.columns)
    above, below = curves.ahead(high, aware), curves.ahead(aware, low)
    answers = xr.concat([above.above(), below.above()], "pair")
    return Claim(
        f"{name}-between",
        f"({name}) channel-aware is better than uniform p = {config.uniform[0]:g}, worse than {config.uniform[1]:g}",
        "between", f"{below.text()} points above, {above.text()} below", decided(answers),
        "both intervals of the differences are above 0", "at the end, Student's 95% over seeds",
        why=Open.UNDECIDED, differs=_differs(config.panels[name]) if config.is_papers else None,
    )  # fmt: skip
