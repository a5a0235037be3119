"""Noise that is correlated over rounds, x_t + s (C^-1 z)_t: matrices C, their sensitivity and their error.

C is lower triangular. A maps the directions of all rounds to the iterates of the server's optimizer, and A = B C.

* `workload`: A, and lower triangular Toeplitz matrices as power series.
* `factors`: square roots, banded inverses, buffered matrices; `optimal`: matrices with the least noise, by L-BFGS.
* `sensitivity`: of Toeplitz matrices and of trees, for k rounds of a client that are b apart.
* `error`: noise of each iterate; `accounting`: eps of a run, noise for an eps.
* `best_statistic`: an adversary's best test of all rounds together.
"""

from fedjax_priv.theory.correlated_noise.accounting import by_coins, epsilon, mu, noise_multiplier_for
from fedjax_priv.theory.correlated_noise.best_statistic import matched_filter, toeplitz_rows, tree_rows
from fedjax_priv.theory.correlated_noise.error import root_mean_square, toeplitz_error, tree_error
from fedjax_priv.theory.correlated_noise.factors import (
    buffered_column,
    column_of_inverse,
    inverse_square_root,
    square_root,
)
from fedjax_priv.theory.correlated_noise.optimal import optimal_banded, optimal_buffered
from fedjax_priv.theory.correlated_noise.sensitivity import Schedule, toeplitz_sensitivity, tree_sensitivity
from fedjax_priv.theory.correlated_noise.workload import Workload, workload_column

__all__ = [
    "Schedule", "Workload", "buffered_column", "by_coins", "column_of_inverse", "epsilon", "inverse_square_root",
    "matched_filter", "mu", "noise_multiplier_for", "optimal_banded", "optimal_buffered", "root_mean_square",
    "square_root", "toeplitz_error", "toeplitz_rows", "toeplitz_sensitivity", "tree_error", "tree_rows",
    "tree_sensitivity", "workload_column",
]  # fmt: skip
