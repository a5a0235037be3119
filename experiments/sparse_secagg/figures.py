"""The figures and tables of the SparseSecAgg paper, and three results of ours."""

from experiments.harness import Experiment
from experiments.problem import Task
from experiments.sparse_secagg import (
    comparison,
    convergence,
    fig2,
    fig4,
    leakage,
    repair,
    statements,
    table1,
    thresholded,
)
from experiments.sparse_secagg.comparison import Paper
from experiments.sparse_secagg.training import Config, Setting

SMALL = Setting(Task("digits", "mlp32"), learning_rate=0.05)
DENSE, CIFAR = Task("mnist", "mlp64"), Task("cifar10", "cnn")
QUICK = Config(SMALL, target=0.85, num_clients=(12,), rounds=(25,), repeats=1, timed_rounds=2)
"""Of Fig. 3 and 5, and with shards of Fig. 6."""

FIGURES = {
    "fig2": Experiment(
        "Fig. 2", "how many selected coordinates two users have in common, rand-K and top-K, by round",
        {
            "quick": fig2.Config(SMALL._replace(batch_size=10, dropout=0.0), 10, shards=(20,), rounds=10),
            "cpu": fig2.Config(Setting(DENSE, dropout=0.0), rounds=20),
            "paper": fig2.Config(),
        }, fig2.run, fig2.judge,
    ),
    "fig3": Experiment(
        "Fig. 3", "CIFAR-10, IID, to 55%: total upload, accuracy by round and time of SecAgg and SparseSecAgg",
        {
            "quick": QUICK,
            "cpu": Config(Setting(Task("cifar10", "mlp64", samples=10_000)), 0.35, (10, 20), (20, 40), repeats=1),
            "paper": Config(Setting(CIFAR), target=0.55),
        }, *comparison.of(paper=Paper(upload=7.8, clock=1.13), more=comparison.rounds),
    ),
    "fig4": Experiment(
        "Fig. 4", "honest users summed at a coordinate, and coordinates that one honest user sends, against alpha",
        {
            "quick": fig4.Config((25, 50), (0.05, 0.1, 0.3, 0.5), (0.0, 0.3), num_params=1000, rounds=4),
            "cpu": fig4.Config(num_params=5000, rounds=10),
            "paper": fig4.Config(),
        }, fig4.run, fig4.judge, fig4.differs,
    ),
    "fig5": Experiment(
        "Fig. 5", "MNIST, IID, to 97%: total upload, time and revealed fraction of SecAgg and SparseSecAgg",
        {
            "quick": QUICK,
            "cpu": Config(Setting(DENSE), 0.92, (25, 50, 100), (12, 24, 48), repeats=1),
            "paper": Config(Setting(block=1), 0.97, (25, 100), (8, 30), repeats=1, timed_rounds=1),
        }, *comparison.of(paper=Paper(upload=17.9, clock=1.8), more=comparison.revealed),
    ),
    "fig6": Experiment(
        "Fig. 6",
        "MNIST, non-IID, to 94%: total upload and time of SecAgg and SparseSecAgg, and the accuracy lost to IID data",
        {
            "quick": QUICK._replace(setting=SMALL._replace(partition="shards", num_shards=36), target=0.8),
            "cpu": Config(Setting(DENSE, partition="shards"), 0.9, (25, 50), (16, 32), repeats=1),
            "paper": Config(Setting(partition="shards"), target=0.94),
        }, *comparison.of(paper=Paper(upload=12, clock=1.2), more=comparison.below_iid),
    ),
    "table1": Experiment(
        "Table I",
        "upload of a user in a round, SecAgg against SparseSecAgg, a model as large as the paper's for CIFAR-10",
        {"quick": table1.Config((8,), rounds=3), "cpu": table1.Config(rounds=10), "paper": table1.Config()},
        table1.run,
    ),
    "statements": Experiment(
        "", "What the paper states without a figure: why rand-K needs pairs, Theorem 3, Corollary 2",
        dict.fromkeys(("quick", "cpu", "paper"), statements.Config()), statements.run,
    ),
    "convergence": Experiment(
        "", "Theorem 4: measured loss under the bound on a strongly convex problem, and what rounding adds in the end",
        {
            "quick": convergence.Config(20, levels=(2.0**4, 2.0**6, 2.0**20), rounds=1000, repeats=2),
            "cpu": convergence.Config(),
            "paper": convergence.Config(num_clients=100, rounds=4000, every=40, repeats=30),
        }, convergence.run, convergence.judge,
    ),
    "leakage": Experiment(
        "",
        "What the server of SparseSecAgg reads: honest values alone, in sums of two and of more; next to the paper's T",
        {
            "quick": leakage.Config(
                Setting(Task("digits", "mlp16"), learning_rate=0.05, block=30), num_clients=30,
                attacked={"alpha": (0.5,), "num_clients": (), "dropout": (0.0,), "adversarial": (0.0,)}, rounds=3,
                coordinates=10_000,
            ),
            "cpu": leakage.Config(Setting(Task("mnist", "mlp16"), block=25)),
            "paper": leakage.Config(Setting(CIFAR), rounds=10, coordinates=1_000_000),
        }, leakage.run,
    ),
    "repair": Experiment(
        "",
        "A repair: the same random coordinates for all users of a round, against SparseSecAgg at equal bytes",
        {
            "quick": repair.Config(SMALL._replace(levels=2.0**16), 0.85, num_clients=12, rounds=30, repeats=1),
            "cpu": repair.Config(Setting(DENSE, levels=2.0**16), 0.9, num_clients=50, rounds=30, repeats=1),
            "paper": repair.Config(Setting(levels=2.0**16), 0.97),
        }, repair.run, repair.judge,
    ),
    "thresholded": Experiment(
        "",
        "Thresholded opening: every user keeps its own coordinates, and a committee opens those that enough users sent",
        {
            "quick": thresholded.Config(
                SMALL._replace(alpha=0.4, levels=2.0**16), num_clients=20, committee=6, quorum=2, rounds=20,
                repeats=1,
            ),
            "cpu": thresholded.Config(Setting(DENSE, levels=2.0**16), rounds=30, repeats=1),
            "paper": thresholded.Config(Setting(levels=2.0**16)),
        }, thresholded.run, thresholded.judge,
    ),
}  # fmt: skip
