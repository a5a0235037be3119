"""The FedREP paper's figures and its Table 1, and the robustness grid."""

from collections.abc import Mapping
from typing import Any

from experiments.fedrep import against_share, grid, other_systems, table1, variants
from experiments.fedrep.methods import ALIE, ATTACKS, PAPERS, Method
from experiments.fedrep.outcome import experiment
from experiments.fedrep.training import Config, Setting
from experiments.harness import Experiment
from experiments.problem import Task

QUICK = Setting(
    Task("digits", "mlp16", samples=1000), num_clients=8, epochs=6, evaluations=4, rates=(1.0,), widenings=1, repeats=2,
    at_once=8,
)  # fmt: skip
CPU = Setting(
    Task("mnist", "mlp16", samples=16_000, pool=2), epochs=15, evaluations=10, rates=(0.2, 0.5, 1.0), repeats=3,
    at_once=8,
)  # fmt: skip
SHORT = Setting(epochs=4, evaluations=4, rates=(0.5,), at_once=1)
"""The paper's data, model and clients for few epochs, at the rate that the paper gives for FedREP in Fig. 7."""
PAPER = Setting()
FEW = 1
"""Byzantine clients at scale quick, of 8."""


def scales(
    methods: Mapping[str, Method], quick: dict[str, Any], cpu: dict[str, Any] | None = None,
    short: dict[str, Any] | None = None, *, rates: tuple[float, ...] = CPU.rates, **common: Any,
) -> dict[str, Config]:  # fmt: skip
    """Configurations by scale: what they share, and changes at `quick`, `cpu` and `short`, which few figures have.

    `rates` are those at `cpu`.
    """
    paper = Config(PAPER, dict(methods), **common)
    few = {name: method._replace(num_byzantine=min(method.num_byzantine, FEW)) for name, method in methods.items()}
    return {
        "quick": paper._replace(**{"setting": QUICK, "methods": few} | quick),
        "cpu": paper._replace(**{"setting": CPU._replace(rates=rates)} | (cpu or {})),
        **({"short": paper._replace(**{"setting": SHORT} | short)} if short else {}),
        "paper": paper,
    }


ALPHAS, MOMENTA = (0.0, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0), (0.0, 0.5, 0.9)
LOCAL_STEPS = {name: Method(name, local_steps=5) for name in ("FedREP", "RCGD-EF")}
COORDINATES = {name: Method(ratio=0.065, coordinates=name) for name in ("noAtk", "minAtk", "randAtk", "sameAtk")}
SYSTEMS = {name: Method(name, aggregate="TMean") for name in table1.NAMES}
RULES = {f"FedREP, {rule}": Method(aggregate=rule) for rule in ("geoMed", "CClip")}


def rules(*names: str) -> dict[str, Method]:
    return {rule: Method(aggregate=rule) for rule in names}


def few(methods: Mapping[str, Method], *names: str) -> dict[str, Any]:
    """Some of the methods, with few Byzantine clients."""
    return {"methods": {name: methods[name]._replace(num_byzantine=FEW) for name in names}}


def with_share(ratios: tuple[float, ...], **how: Any) -> dict[str, Method]:
    ours = {f"FedREP {ratio:g}": Method(ratio=ratio, **how) for ratio in ratios}
    return ours | {"SHARE": Method("SHARE", ratio=1.0, **how)}


def by_size(sizes: tuple[int, ...], ratios: tuple[float, ...], rates: tuple[float, ...]) -> dict[str, Method]:
    """`rates` are SparseSecAgg's."""
    return other_systems.sparse(ratios, rates) | {
        f"FedREP {ratio:g}, s = {size}": Method(ratio=ratio, buffer_size=size, num_byzantine=0)
        for size in sizes for ratio in ratios
    }  # fmt: skip


def by_rate(gammas: tuple[float, ...], rates: tuple[float, ...]) -> dict[str, Method]:
    """`rates` are SparseSecAgg's."""
    return {"FedREP 0.05": Method(num_byzantine=0, rates=(0.5,))} | other_systems.sparse(gammas, rates)


FIGURES = {
    "fig1": experiment(
        "Fig. 1", "FedREP with centered clipping under attacks, for fractions alpha of coordinates proposed at random",
        scales(
            rules("CClip"), {"alphas": (0.0, 0.5, 1.0)},
            short={"alphas": (0.0, 0.95), "attacks": ("ALIE (1.5)",)}, rates=(0.1, 0.2, 0.5, 1.0), alphas=ALPHAS,
        ),
        variants.alpha, line="alpha",
    ),
    "fig2": experiment(
        "Fig. 2", "FedREP and RCGD-EF at the same fraction of coordinates, five local steps, under attacks",
        scales(LOCAL_STEPS, {}, rates=(0.5, 1.0, 2.0, 5.0)),
        other_systems.against_rcgd_ef,
    ),
    "fig3": experiment(
        "Fig. 3", "as Fig. 1, with the geometric median and the trimmed mean",
        scales(
            rules("geoMed", "TMean"), few(rules("geoMed"), "geoMed") | {"alphas": (0.0, 0.5, 1.0)},
            {"alphas": (0.0, 0.5, 0.8, 0.95, 1.0)}, rates=(0.1, 0.2, 0.5), alphas=ALPHAS,
        ),
        variants.alpha_and_unsteady, line="alpha",
    ),
    "fig4": experiment(
        "Fig. 4", "FedREP when Byzantine clients attack the coordinates they propose, as well as the values they send",
        scales(COORDINATES, few(COORDINATES, "noAtk", "minAtk"), rates=(0.2, 0.5)),
        variants.coordinates,
    ),
    "fig5": experiment(
        "Fig. 5", "momentum of local training under ALIE",
        scales(
            rules("geoMed", "TMean", "CClip"), few(rules("CClip"), "CClip") | {"momenta": MOMENTA},
            {"momenta": MOMENTA}, attacks=ALIE, momenta=(*MOMENTA, 0.99),
        ),
        variants.momentum, line="momentum",
    ),
    "fig6": experiment(
        "Fig. 6", "FedREP and SparseSecAgg without attacks, for buffers of 4, 8 and 16 clients",
        scales(
            by_size((4, 8, 16), (0.05, 0.1), (*PAPER.rates, 10.0, 20.0)),
            {"methods": by_size((4,), (0.05,), QUICK.rates)},
            {"methods": by_size((4, 8, 16), (0.05, 0.1), (0.5, 1.0, 2.0))},
            {"methods": by_size((4,), (0.05,), (1.0, 2.0, 5.0))}, rates=(0.5, 1.0, 2.0), attacks=("none",),
        ),
        other_systems.by_size, picture=other_systems.sizes,
            more=(
                "bytes are those of every message; keys, shares and bitmaps weigh more the smaller d is",
                "at equal bytes the costlier run is read where it has spent as many, maybe before its rate falls",
            ),
    ),
    "fig7": experiment(
        "Fig. 7", "FedREP at rate 0.5 and SparseSecAgg at several fractions of coordinates and rates, without attacks",
        scales(
            by_rate((0.05, 0.1, 0.2), (*PAPER.rates, 10.0, 20.0)), {"methods": by_rate((0.05,), (0.5, 1.0))},
            {"methods": by_rate((0.05, 0.1, 0.2), (0.2, 0.5, 1.0, 2.0, 5.0))}, attacks=("none",),
        ),
        other_systems.by_rate, picture=other_systems.rates,
    ),
    "fig8": experiment(
        "Fig. 8 to 11", "FedREP at several ratios and SHARE, plain SGD, without attack and with 3 Byzantine clients",
        scales(
            with_share((0.02, 0.06, 0.13), buffer_size=4, num_byzantine=3),
            {"methods": with_share((0.13,), num_byzantine=FEW)},
            rates=(0.5, 1.0), attacks=("none", *PAPERS), momenta=(0.0,),
        ),
        against_share.at_gammas,
    ),
    "fig12": experiment(
        "Fig. 12",
        "FedREP and SHARE with momentum, 7 Byzantine clients, ALIE; and how dissimilar the buffers' means are",
        scales(
            with_share((0.03, 0.06, 0.13)), {"methods": with_share((0.13,), num_byzantine=FEW)}, attacks=ALIE
        ),
        against_share.dissimilar, observe=against_share.dissimilarity_of,
            more=(
                "dissimilarity: mean squared distance of two buffers without a Byzantine client; relative: over their "
                "mean's squared length",
            ),
    ),
    "table1": Experiment(
        "Table 1", "which systems are robust, efficient and private, from runs of each",
        scales(SYSTEMS | RULES, few(SYSTEMS, "RCGD-EF", "FedREP"), rates=(0.5,), attacks=tuple(ATTACKS)),
        table1.run, table1.report,
    ),
    "grid": Experiment(
        "",
        "Aggregators, attacks, heterogeneity and seeds as one program, and accuracy under the worst attack",
        grid.SCALES, grid.run, grid.judge,
    ),
}  # fmt: skip
