"""Checks of arguments that several systems take."""

from jaxtyping import Array

from fedjax_priv import _validate


def secure_cohort(num_clients: int, cohort_size: int | None) -> int:
    """Clients in a round of a secure sum, at least two: everyone, or the cohort."""
    _validate.integer(at_least=2, num_clients=num_clients)
    if cohort_size is None:
        return num_clients
    _validate.integer(at_least=2, cohort_size=cohort_size)
    if cohort_size > num_clients:
        raise ValueError(f"cohort_size must be at most num_clients = {num_clients}, got {cohort_size}")
    return cohort_size


def loss_rate(dropout: float | Array) -> float | Array:
    """A probability in [0, 1); a traced one outside is NaN."""
    _validate.fraction(below_one=True, dropout=dropout)
    return _validate.or_nan(dropout, at_least=0, below=1)
