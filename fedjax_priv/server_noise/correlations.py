"""What a process states of the matrix C in `C^-1 z`, one type for each: plain numbers, from which proofs start."""

from typing import NamedTuple


class Banded(NamedTuple):
    """C is lower triangular, Toeplitz and banded."""

    coefficients: tuple[float, ...]  # c_0 to c_{bands - 1}, the first column of C; all further ones are 0


class BandedInverse(NamedTuple):
    """The inverse of C is lower triangular, Toeplitz and banded."""

    coefficients: tuple[float, ...]  # of the first column of C^-1; all further ones are 0


class BufferedToeplitz(NamedTuple):
    """C is lower triangular and Toeplitz with c_0 = 1 and c_k = sum_i w_i theta_i^{k-1} (BLT)."""

    weights: tuple[float, ...]  # w_i
    decays: tuple[float, ...]  # theta_i


class Trees(NamedTuple):
    """C has a row for each complete dyadic interval of rounds within a tree, with ones on its rounds."""

    leaves: int  # rounds of a tree; then a fresh one starts
    variance_reduced: bool  # sums are estimated from all nodes below, not from the fewest nodes


Correlation = Banded | BandedInverse | BufferedToeplitz | Trees
