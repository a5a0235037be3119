"""The ledger of a run: the accountant for what a system releases, from one table."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.data.pool import Pool
from fedjax_priv.engine import processes
from fedjax_priv.ledger import (
    blind_uploads,
    central_noise,
    coordinates,
    local_noise,
    lying_server,
    noisy_buffers,
    noisy_uploads,
    over_the_air,
    sketched_uploads,
    sums,
    votes,
)
from fedjax_priv.ledger.entry import Entry, Question, no_guarantee
from fedjax_priv.ledger.made_by import check_made_by, with_what_is_unknown
from fedjax_priv.ledger.run_alone import run_alone
from fedjax_priv.systems import releases

ACCOUNTANTS: Mapping[type, Callable[[Any, Question], list[Entry]]] = {
    NoneType: sums.in_the_clear,
    releases.NoisyUploads: noisy_uploads.entries,
    releases.Sum: sums.secure_sum,
    releases.SparseSum: sums.sparse_sum,
    releases.ThresholdedSum: sums.thresholded_sum,
    releases.ProposedCoordinates: coordinates.entries,
    releases.OverTheAir: over_the_air.entries,
    releases.BlindUploads: blind_uploads.entries,
    releases.Vote: votes.entries,
    releases.SketchedUploads: sketched_uploads.entries,
    releases.LocalNoise: local_noise.entries,
    releases.CentralNoise: central_noise.entries,
    releases.NoisyBuffers: noisy_buffers.entries,
}
"""By the type of `Algorithm.release`. A type that is not here has no guarantee."""


def ledger(
    algorithm: Algorithm,
    run: xr.Dataset,
    data: ClientData | Pool,
    *,
    delta: float,
    colluding: int = 0,
    lipschitz: float | None = None,
) -> list[Entry]:
    """The guarantees of a finished run, one entry per adversary.

    If the server does not follow the protocol (`lying_server` of `federated_round`), only figures are left that rest on
    the noise of a client alone.

    Args:
      algorithm: what was run, with numbers as arguments of its factory. For the ledger of another system with the
        same cohorts, give it `run.drop_vars("mechanism")`.
      run: as `simulate` returns it, or a point of what `sweep` returns.
      data: of the clients, of which only the counts are read.
      delta: of the figures, in (0, 1), not traced; where a paper's theorem has its own, the entry says which.
      colluding: clients that tell the server all they know; at least 0 and below the size of the cohort.
      lipschitz: c of every local step, clipping included (`theory.cdp_fl.lipschitz_constant`), >= 0, where it is
        known.

    Raises:
      ValueError: an argument outside its range, a sweep or a point that was not run, no round, a run that lacks earlier
        rounds than its last or places of its cohorts, several runs in a row, or one of another algorithm or other data.
        Of functions, such as `level`, and of samples this is not known. A run without `mechanism`, as older versions
        made it, is not compared, and the notes say so.
    """
    _validate.part(Algorithm, "systems.dp_fedavg(...)", algorithm=algorithm)
    _validate.part(xr.Dataset, "simulate(...)", run=run)
    if not isinstance(data, Pool):
        _validate.part(ClientData, "data.federate(...)", data=data)
    _validate.integer(at_least=0, colluding=colluding)
    _validate.known(delta=delta)
    _validate.fraction(below_one=True, above_zero=True, delta=delta)
    if lipschitz is not None:
        _validate.non_negative(lipschitz=lipschitz)
    run, count = run_alone(run), np.asarray(processes.on_host(data.count))
    if not run.sizes["round"]:
        raise ValueError("run must have a round, got none")
    number = run["round"].values
    if "round" in run.coords and (number != np.arange(1, number.size + 1)).any():  # a part costs less than the whole
        raise ValueError(f"run must have rounds 1 to {number.size}, got {number.size} from {number[0]} to {number[-1]}")
    if colluding >= run.sizes["client"]:
        raise ValueError(f"colluding must be below the size of the cohort, {run.sizes['client']}, got {colluding}")
    if (last := int(run.client_id.max())) >= count.size:
        raise ValueError(f"data must hold all clients of the run, 0 to {last}, got {count.size} clients")
    check_made_by(algorithm, count, run)
    question = Question(run, count, delta, colluding, lipschitz, algorithm.steps, algorithm.period, algorithm.by_coins)
    return with_what_is_unknown(_entries(algorithm, question), run)


def _entries(algorithm: Algorithm, question: Question) -> list[Entry]:
    if (np.diff(np.sort(question.run.client_id.values, axis=1), axis=1) == 0).any():
        return [
            no_guarantee("anybody", sums.DATA, "a client is in a round twice: its data count twice, its noise once")
        ]
    accountant = ACCOUNTANTS.get(type(algorithm.release), sums.unknown)
    found = accountant(algorithm.release, question)
    if not isinstance(algorithm.release, releases.LocalNoise | NoneType):
        found = [*found, *local_noise.every_step(question)]
    lies = () if algorithm.lying_server is None else algorithm.lying_server.lies
    return lying_server.entries(found, algorithm.release, lies) if lies else found
