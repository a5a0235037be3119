"""FedREP: what consensus sparsification reveals, keeps and costs, and the paper's bounds on convergence.

* `privacy`: Theorem 2 on proposed coordinates (eqs. 16-20, 56), printed and exact.
* `compression`: Propositions 1 and 2 (eq. 102), Theorem 1 (eq. 3); `communication_cost`: bytes of an iteration.
* `lemmas`: `Problem`, `Defence`, Lemmas 1 and 2; `convergence`: Theorems 3 and 4 (eqs. 5, 6), Proposition 3.
"""

from fedjax_priv.theory.fedrep.communication_cost import Communication, communication, sparse_secagg_alpha
from fedjax_priv.theory.fedrep.compression import Contraction, contraction, dissimilarity, expected_union
from fedjax_priv.theory.fedrep.convergence import (
    Bound,
    ConvergenceBound,
    LocalAlgorithm,
    MomentumSGD,
    algorithm_convergence_bound,
    convergence_bound,
    momentum_sgd,
)
from fedjax_priv.theory.fedrep.lemmas import Defence, Problem, aggregate_error_bound, memory_bound
from fedjax_priv.theory.fedrep.privacy import coordinate_epsilon, coordinate_epsilon_bound, coordinate_epsilon_printed

__all__ = [
    "Bound", "Communication", "Contraction", "ConvergenceBound", "Defence", "LocalAlgorithm", "MomentumSGD", "Problem",
    "aggregate_error_bound", "algorithm_convergence_bound", "communication", "contraction", "convergence_bound",
    "coordinate_epsilon", "coordinate_epsilon_bound", "coordinate_epsilon_printed", "dissimilarity", "expected_union",
    "memory_bound", "momentum_sgd", "sparse_secagg_alpha",
]  # fmt: skip
