"""The SparseSecAgg paper's figures and tables, and results of ours."""

from experiments.harness import Experiment
from experiments.sparse_secagg import convergence, fig2, fig3, fig4, fig5, fig6, leakage, repair, table1

FIGURES = {
    "fig2": Experiment(
        "Fig. 2", "how many selected coordinates two users have in common, rand-K and top-K, by round",
        fig2.SCALES, fig2.run,
    ),
    "fig3": Experiment(
        "Fig. 3", "CIFAR-10, IID, to 55%: total upload, accuracy by round and time of SecAgg and SparseSecAgg",
        fig3.SCALES, fig3.run,
    ),
    "fig4": Experiment(
        "Fig. 4", "honest users summed at a coordinate, and coordinates that one honest user sends, against alpha",
        fig4.SCALES, fig4.run,
    ),
    "fig5": Experiment(
        "Fig. 5", "MNIST, IID, to 97%: total upload, time and revealed fraction of SecAgg and SparseSecAgg",
        fig5.SCALES, fig5.run,
    ),
    "fig6": Experiment(
        "Fig. 6",
        "MNIST, non-IID, to 94%: total upload and time of SecAgg and SparseSecAgg, and the accuracy lost to IID data",
        fig6.SCALES, fig6.run,
    ),
    "table1": Experiment(
        "Table I",
        "upload of a user in a round, SecAgg against SparseSecAgg, a model as large as the paper's for CIFAR-10",
        table1.SCALES, table1.run,
    ),
    "convergence": Experiment(
        "", "Theorem 4: measured loss under the bound on a strongly convex problem, and what rounding adds in the end",
        convergence.SCALES, convergence.run,
    ),
    "leakage": Experiment(
        "",
        "What the server of SparseSecAgg reads: honest values alone, in sums of two and of more; next to the paper's T",
        leakage.SCALES, leakage.run,
    ),
    "repair": Experiment(
        "",
        "A repair: the same random coordinates for all users of a round, against SparseSecAgg at equal bytes",
        repair.SCALES, repair.run,
    ),
}  # fmt: skip
