"""How clients come to take part, from the arguments of a system: the draw, and what proofs need to know of it."""

from typing import NamedTuple

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Draw
from fedjax_priv.clients import cyclic_poisson, everyone, sample, separated
from fedjax_priv.clients.poisson_draws import capacity_of, check_rate
from fedjax_priv.clients.separated_draws import check_separation
from fedjax_priv.server_noise import ServerNoise
from fedjax_priv.server_noise.correlations import Banded
from fedjax_priv.systems._arguments import clients_in_round
from fedjax_priv.systems.releases import Participation


class Sampling(NamedTuple):
    """A draw, and what is public of it."""

    draw: Draw
    participation: Participation
    expected: float  # mean number of clients of a round
    most: int  # rows of a cohort


def sampling_of(
    num_clients: int,
    sampling_rate: float | Array | None,
    cohort_size: int | None,
    capacity: int | None,
    separation: int,
) -> Sampling:
    """The draw of these arguments of `dp_fedavg`.

    Raises:
      ValueError: an argument outside its range, or two that do not go together.
    """
    _validate.integer(num_clients=num_clients, separation=separation)
    if sampling_rate is not None and cohort_size is not None:
        raise ValueError(f"cohort_size must not be given with sampling_rate, got {cohort_size}")
    if sampling_rate is not None:
        return _by_coins(num_clients, sampling_rate, capacity, separation)
    if capacity is not None:
        raise ValueError(f"capacity must not be given without sampling_rate, got {capacity}")
    return _of_fixed_size(num_clients, cohort_size, separation)


def check_bands(noise: ServerNoise, participation: Participation) -> None:
    """Checks that noise has no more bands than there are groups, so that coins amplify its privacy.

    Raises:
      ValueError: clients come by coins, group by group, and noise has more bands than groups.
    """
    bands = len(noise.correlation.coefficients) if isinstance(noise.correlation, Banded) else 0
    if participation.sampling == "cyclic_poisson" and bands > participation.separation:
        raise ValueError(
            f"noise must have at most separation = {participation.separation} bands with sampling_rate, got {bands}"
        )


def _by_coins(num_clients: int, rate: float | Array, capacity: int | None, separation: int) -> Sampling:
    check_rate("sampling_rate", rate)
    _validate.divides({"separation": separation}, num_clients=num_clients)
    group = num_clients // separation
    most = capacity_of(capacity, group, rate)
    kind = "poisson" if separation == 1 else "cyclic_poisson"
    about = Participation(
        sampling=kind, rate=float(rate), separation=separation, capacity=most if most < group else None
    )
    return Sampling(cyclic_poisson(rate, separation, capacity=most), about, float(rate) * group, most)


def _of_fixed_size(num_clients: int, cohort_size: int | None, separation: int) -> Sampling:
    size = clients_in_round(num_clients, cohort_size)
    check_separation(num_clients, size, separation)
    if size == num_clients:
        return Sampling(everyone(), Participation(sampling="everyone"), size, size)
    if separation > 1:
        about = Participation(sampling="separated", rate=size / num_clients, separation=separation)
        return Sampling(separated(size, separation), about, size, size)
    return Sampling(sample(size), Participation(sampling="fixed_size", rate=size / num_clients), size, size)
