"""Results that others have published, made here."""

from experiments.anchors import (
    bucketing,
    bucketing_claims,
    heat_map,
    heat_map_claims,
    lr_mnist,
    mcmahan,
    mcmahan_causes,
    niid_bench,
)
from experiments.anchors.mcmahan_causes import BASE, CHANGES, Change
from experiments.anchors.mcmahan_claims import Config, Tried, grid
from experiments.anchors.mcmahan_printed import ALL, CNN, TWO_NN, Cell
from experiments.anchors.starts import STARTS
from experiments.harness import Experiment

_LR, _NIID = lr_mnist.Config(), niid_bench.Config()
_MIMIC, _MAP = bucketing_claims.Config(), heat_map_claims.Config()
_ONE, _TENTH = Cell(0.0, 10, "iid"), Cell(0.1, 10, "iid")
_CHOSEN = (
    Tried(_TENTH, 60, grid(0.215)),
    Tried(_ONE, 200, grid(0.1), 2),
    Tried(Cell(0.1, ALL, "iid"), 600, grid(0.464), 10),
    Tried(Cell(0.1, 10, "shards"), 220, grid(0.215), 4),
    Tried(Cell(0.0, 10, "shards"), 1500, grid(0.0464), 20),
)
"""What the table's ratios that readers quote are made of."""
_2NN = Config(tuple(
    Tried(cell, 2 * rounds, grid(0.1 if cell.batch else 0.464, 2, 2), starts=tuple(STARTS)[: 1 + 4 * (cell == _TENTH)])
    for cell, rounds in TWO_NN.items()
), repeats=5)  # fmt: skip
_CNN = Config(
    tuple(Tried(cell, 2 * rounds, grid(0.1, 2, 2)) for cell, rounds in CNN.items()), "CNN", epochs=5, target=0.99
)

FIGURES = {
    "mcmahan_2nn": Experiment(
        "McMahan et al., Table 1, 2NN", "rounds of FedAvg to 97% on MNIST",
        {
            "quick": _2NN._replace(
                cells=(Tried(_TENTH, 12, grid(0.215), starts=("LeCun", "small")), Tried(_ONE, 24, grid(0.1))),
                dataset="digits", num_clients=20, target=0.85, repeats=2,
            ),
            "cpu": _2NN._replace(cells=_CHOSEN, repeats=3),
            "short": _2NN._replace(cells=(Tried(_ONE, 250, grid(0.1), 5),), repeats=3),
            "paper": _2NN,
        },
        mcmahan.run, mcmahan.judge, mcmahan.differs,
    ),
    "mcmahan_causes": Experiment(
        "", "what moves the rounds to 97%, one thing at a time, and what would make them the printed ones",
        {
            "quick": mcmahan_causes.Config(
                (Change(BASE, rounds=12), Change("pixels from -0.5 to 0.5", pixels=mcmahan_causes.HALF, rounds=12)),
                "digits", 20, 0.8, 2,
            ),
            "cpu": mcmahan_causes.Config(CHANGES),
            "paper": mcmahan_causes.Config(
                tuple(at._replace(rates=grid(at.rates[1], 2, 2), rounds=2 * at.rounds) for at in CHANGES), repeats=5
            ),
        },
        mcmahan_causes.run, mcmahan_causes.judge,
    ),
    "mcmahan_cnn": Experiment(
        "McMahan et al., Table 1, CNN", "rounds of FedAvg to 99% on MNIST",
        {
            "quick": _CNN._replace(
                cells=(Tried(_TENTH, 8, grid(0.215, 0, 0)),), dataset="digits", num_clients=20, epochs=1, target=0.5,
                repeats=1,
            ),
            "cpu": _CNN._replace(cells=(Tried(_TENTH, 30, grid(0.1), further=(0.464,)),)),
            "paper": _CNN,
        },
        mcmahan.run, mcmahan.judge, mcmahan.differs,
    ),
    "lr_mnist": Experiment(
        "FLUTE's table of wall times", "softmax regression on MNIST over 1,000 devices, FedProx's split",
        {
            "quick": _LR._replace(dataset="digits", devices=50, cohort=5, rounds=20, every=10, repeats=2),
            "cpu": _LR,
            "paper": _LR._replace(repeats=10),
        },
        lr_mnist.run, lr_mnist.judge,
    ),
    "niid_bench_mnist": Experiment(
        "NIID-Bench, Table 3, MNIST",
        "four methods on five splits, at cpu one on two, as Flower's baseline prints them",
        {
            "quick": _NIID._replace(
                dataset="digits", splits=("IID", "#C = 2"), rounds=3, epochs=1, batch_size=16, learning_rate=0.1,
                methods=("FedAvg", "FedNova", "SCAFFOLD"), repeats=1,
            ),
            "cpu": _NIID._replace(methods=("FedAvg",), splits=("IID", "#C = 2")),
            "paper": _NIID,
        },
        niid_bench.run, niid_bench.judge,
    ),
    "bucketing": Experiment(
        "Karimireddy et al., mimic, non-IID", "four rules with and without buckets of two under the mimic attack",
        {
            "quick": _MIMIC._replace(
                dataset="digits", rules=("Avg", "CM"), num_honest=10, num_byzantine=3, rounds=24, every=4,
                batch_size=8, learning_rate=0.2, repeats=2, controls=2,
            ),
            "cpu": _MIMIC._replace(controls=1),
            "paper": _MIMIC,
        },
        bucketing.run, bucketing.judge,
    ),
    "heat_map": Experiment(
        "ByzFL's heat map of MNIST", "worst test accuracy by heterogeneity and number of Byzantine clients",
        {
            "quick": _MAP._replace(
                dataset="digits", rules=("TM",), attacks=("Opt-IPM",), gammas=(0.0, 0.33), num_byzantine=(2,),
                rounds=30, every=10, learning_rate=0.5, repeats=1,
            ),
            "cpu": _MAP._replace(gammas=(0.0, 0.33), repeats=1),
            "short": _MAP._replace(rules=("GM",), gammas=(0.0, 0.33), repeats=1),
            "paper": _MAP,
        },
        heat_map.run, heat_map.judge,
    ),
}  # fmt: skip
