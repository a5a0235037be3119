"""Fig. 2: FedREP and RCGD-EF at the same share of coordinates, five local steps, under attacks."""

from experiments import harness
from experiments.fedrep.budget import ahead, cost
from experiments.fedrep.curves import Gap, caveats, claim, draw
from experiments.fedrep.methods import ALIE, Method
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config
from experiments.fedrep.training import run as run_methods


def methods(num_byzantine: int = 7) -> dict[str, Method]:
    return {name: Method(name, local_steps=5, num_byzantine=num_byzantine) for name in ("FedREP", "RCGD-EF")}


SCALES = {
    "quick": Config(QUICK, methods(FEW)),
    "cpu": Config(CPU._replace(rates=(0.5, 1.0, 2.0, 5.0)), methods()),
    "paper": Config(PAPER, methods()),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze(("alpha", "momentum"), drop=True)
    said = [*caveats(config, result), cost(result)]
    found = claims(*(ahead(result, "FedREP", "RCGD-EF", way) for way in ("iteration", "both")))
    return harness.Outcome(draw(result.accuracy.rename(curve="line"), said[0]), result, found, said)


def claims(by_iteration: Gap, at_equal_bytes: Gap) -> list[harness.Claim]:
    """Of FedREP's accuracy less RCGD-EF's; the last one is not the paper's."""
    alike = Gap(*(values.sel(attack=["bit-flip", "FoE"]) for values in by_iteration))
    better = Gap(*(values.sel(attack=list(ALIE)) for values in by_iteration))
    return [
        claim(
            "FedREP is comparable to RCGD-EF under bit-flip and FoE", "comparable", alike, alike.small,
            "at most 2 apart, and noise",
        ),
        claim("FedREP is better under ALIE", "better", better, better.clear, "more than 1 above, and noise"),
        claim(
            "at equal bytes up and down FedREP is better", "-", at_equal_bytes, at_equal_bytes.clear,
            "more than 1 above, and noise; RCGD-EF's model comes down whole",
        ),
    ]  # fmt: skip
