"""The atlas: train every program of the grid, measure every cell, state what was found."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from experiments.atlas.audits import Auditor
from experiments.atlas.measures import BITES, NOT_RUN, POSSIBLE, cells, dataset, measured
from experiments.atlas.picture import pareto, picture
from experiments.atlas.stacks import BYZANTINE, CLIENTS
from experiments.atlas.training import Config, problem, programs, train
from experiments.claims import Claim, Open, Source, controlled, untestable
from experiments.harness import Outcome, span

KEEPS = 0.1
"""Accuracy that a robust stack may lose."""
ERRORS = 4
"""Standard errors that a frequency may lie from its law."""
SIZES = {"buckets of 2": 2, "buckets of 4": 4}


def run(config: Config) -> Outcome:
    shared, found = problem(config), {}
    auditor = Auditor(config, shared)
    compiled, seconds, runs = 0, 0.0, 0
    for program in programs(config):
        result = train(config, shared, program)
        rows, game = measured(config, shared, program, result), auditor(program)
        found |= {cell: row | (game._asdict() if game else {}) for cell, row in rows.items()}
        compiled, runs = compiled + result.attrs["programs"], runs + result.attrs["runs"]
        seconds += result.attrs["compile_seconds"]
        print(f"{len(found)} cells, {compiled} programs: {', '.join(program[:3])}", flush=True)
    data = dataset(config, found).assign_attrs(programs=compiled, runs=runs, compile_seconds=round(seconds, 1))
    return judge(config, data)


def judge(config: Config, data: xr.Dataset) -> Outcome:
    """The outcome from the data that are kept."""
    return Outcome(picture(data), data, claims(config, data), caveats(config, data))


def claims(config: Config, data: xr.Dataset) -> list[Claim]:
    """Ours: what the grid says as a whole."""
    rows = data.rename(mean="alone").to_dataframe()
    run = rows.loc[(rows.code == POSSIBLE) & rows.honest.notna()]
    return [_complete(rows, run), _kept(run), _skipped(config, run), *_audited(config, run)]


def _complete(rows: pd.DataFrame, run: pd.DataFrame) -> Claim:
    left, refused = int((rows.code == NOT_RUN).sum()), int((~rows.code.isin([POSSIBLE, NOT_RUN])).sum())
    idle = int((run.skipped >= 1).sum())
    claim = Claim(
        "runs-or-is-refused", "every stack of the grid runs, or is refused in one line", f"{len(rows)} stacks",
        f"{len(run)} run, {refused} refused, {left} possible and not run"
        + (f"; of those that run {idle} never take a step" if idle else ""),
        left == idle == 0, "no stack is left over, and each takes a step", source=Source.OURS,
    )  # fmt: skip
    return claim._replace(verdict=None, why=Open.NOT_RUN) if left and not idle else claim


def _kept(run: pd.DataFrame) -> Claim:
    """Of the best rule of each transport and compression, where nobody is lost and no noise is added."""
    quiet = run[(run.noise == "none") & (run.dropout == 0) & (run.rule != "mean") & (run.attack != "")]
    lost = (quiet.alone - quiet.worst).groupby([quiet.transport, quiet.compression]).min()
    claim = Claim(
        "some-rule-keeps", "without noise and dropouts, some rule keeps what the mean has without an attack",
        "yes, in every transport and compression with several rows",
        f"{span(100 * lost)} points lost" if len(lost) else "no cell was tested", bool((lost < KEEPS).all()),
        "less than 10 points in each", source=Source.OURS, control=f"an attack costs the mean {100 * BITES:g} points",
    )  # fmt: skip
    return claim if len(lost) else untestable(claim, "no attack costs the mean 10 points")


def _skipped(config: Config, run: pd.DataFrame) -> Claim:
    """Of the trimmed mean, which has no direction unless more than 2 f rows are there."""
    buckets = run[(run.rule == "trimmed mean") & run.transport.isin(SIZES) & (run.compression != "ConSpar")]
    trials = config.rounds * config.repeats
    off = []
    for transport, dropout, skipped in zip(buckets.transport, buckets.dropout, buckets.skipped, strict=True):
        p = too_few(SIZES[transport], dropout)
        off.append(abs(skipped - p) / max(np.sqrt(p * (1 - p) / trials), 1 / trials))
    claim = Claim(
        "skips-as-predicted", "buckets skip rounds as often as a binomial law says, where a rule needs more than 2 f",
        f"at most {ERRORS} standard errors", f"{max(off):.2f}" if off else "no cell was run",
        bool(max(off, default=np.inf) <= ERRORS), "no cell is farther from its law", source=Source.OURS,
        control=", ".join(f"{too_few(s, 0.3):.0%} of the rounds at dropout 0.3 in {name}" for name, s in SIZES.items()),
    )  # fmt: skip
    return claim if off else claim._replace(verdict=None, why=Open.NOT_RUN)


def _audited(config: Config, run: pd.DataFrame) -> list[Claim]:
    """Of every cell with an eps; cells of one release share a game."""
    games = run[run.once.notna()]
    twins = pd.DataFrame(games[games.caught.notna()]).drop_duplicates(subset=["noise", "once", "twin"])
    shown = span(games.shown / games.once, 2) if len(games) else ""
    stands = Claim(
        "audits-stand", "no audit contradicts an eps that is proved", f"none of {len(games)} cells",
        f"{int(games.contradicted.sum())}; {shown} of the eps that is proved of a round is shown",
        bool((games.contradicted == 0).all()), "the test of the eps of a round does not contradict it",
        source=Source.OURS, note=f"{config.trials:,} runs on each of two inputs",
        control=f"twins without noise: {int(twins.caught.sum())} of {len(twins)} are contradicted",
    )  # fmt: skip
    caught = Claim(
        "twins-are-caught", "audits contradict the same eps of twins that add no noise",
        "; ".join(f"{name}: above {eps:.3g}" for name, eps in zip(twins.noise, twins.once, strict=True)),
        "; ".join(f"{name}: at least {eps:.3g}" for name, eps in zip(twins.noise, twins.twin, strict=True)),
        bool((twins.caught == 1).all()), "the test of the same eps contradicts it", source=Source.OURS,
    )  # fmt: skip
    both = [stands, caught]
    if not len(twins):
        return [claim._replace(verdict=None, why=Open.NOT_RUN) for claim in both]
    return [controlled(stands, caught.verdict or not stands.verdict, stands.control), caught]


def _worst(data: xr.Dataset) -> str:
    """How often each attack is the worst, of the cells in which one costs the mean 10 points."""
    name, count = np.unique(data.attack[data.attack != ""], return_counts=True)
    often = ", ".join(f"{name} in {number}" for name, number in zip(name, count, strict=True))
    return f"the worst attack is {often} cells" if often else ""


def _unprotected(data: xr.Dataset) -> str:
    """Where a rule went on most often although more rows with an attacker came than it tolerates."""
    counted = [(row["uncovered"], cell) for cell, row in cells(data) if np.isfinite(row["uncovered"])]
    if not counted:
        return ""
    share, cell = max(counted)
    if not share:
        return "no round went on with more attacked rows than the rule tolerates"
    name = f"{cell.rule} in {cell.transport} at dropout {cell.dropout:g}"
    return f"rounds that went on with more attacked rows than the rule tolerates: up to {share:.0%} ({name})"


def too_few(size: int, dropout: float) -> float:
    """Probability that at most 2 f buckets can be opened, which more than half of their clients must survive."""
    lives = stats.binom.sf(size // 2, size, 1 - dropout)
    return float(stats.binom.cdf(2 * BYZANTINE, CLIENTS // size, lives))


def caveats(config: Config, data: xr.Dataset) -> list[str]:
    """What a reader of the picture must know."""
    best = ", ".join(
        f"{' / '.join(map(str, cell))} ({row['worst']:.0%}, {row['up']:.2g} kB)" for cell, row in pareto(data)[:5]
    )
    said = [
        f"{config.task}; {CLIENTS} clients of which {BYZANTINE} are Byzantine, IID, {config.rounds} rounds, "
        f"{config.repeats} seeds; another setting than any paper's: the atlas is about what composes",
        f"attacks: {', '.join(config.attacks)}; on clients' values, and behind buckets on the means of those with an "
        "attacker: nobody knows whose upload will be lost; no backdoor, and nothing on field elements or proposals",
        f"noise of deviation {config.deviation:g} C on what each client sends, clipped to C = {config.clip:g}; eps at "
        f"delta {config.delta:g} for all rounds, against the server; rand-K, top-K, JL and ConSpar send "
        f"{config.ratio:.0%}",
        "masks are elided: sums, thresholds, bytes and lost buckets are those of the protocol" if config.elide else "",
        _worst(data),
        _unprotected(data),
        f"{data.attrs['programs']} programs, {data.attrs['runs']} runs",
        f"nothing beats at once in accuracy, bytes and eps: {best}" if best else "",
    ]
    return [each for each in said if each]
