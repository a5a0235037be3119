"""FedBuff with noise of the server: one Gaussian mechanism for each update that a client sends.

Who arrives when is public and, if times of jobs depend on no data, tells nothing; nothing is amplified. An update of
staleness tau has weight `s(tau) = (1 + tau)^-p` and norm at most C, so a client pays `sum s(tau)^2 / z^2`, the square
of the distance of one Gaussian mechanism, whatever was released before. Participation is uneven: every client has its
own figure. Every attempt at a round counts.

In a secure sum updates are rounded inside the ball and then multiplied by a public integer f of at most c_g, and the
noise is z C c_g: a client pays `sum (f / c_g)^2 / z^2`, by the factors that the run has drawn.

A client that stops after c updates pays at most `c / z^2`, which is known before a run.
"""

import functools

import numpy as np

from fedjax_priv.ledger.by_client import came, spent_by_client
from fedjax_priv.ledger.central_noise import ADJACENT, EXACT, seen_by_server
from fedjax_priv.ledger.entry import Entry, Figure, Question, no_guarantee, none
from fedjax_priv.systems.releases import NoisyBuffers
from fedjax_priv.theory import gaussian
from fedjax_priv.theory.neighbours import DISTANCE
from fedjax_priv.theory.sampled_gaussian import Neighbours

KINDS: tuple[Neighbours, ...] = ("zero-out", "replacement")


def entries(release: NoisyBuffers, question: Question) -> list[Entry]:
    """Entries for everybody who sees all models and the schedule, and for the server."""
    z = float(release.noise_multiplier)
    if not z:
        return [no_guarantee("anybody", ADJACENT["replacement"], "updates are clipped and no noise is added")]
    spent, most = weights_spent(release, question)

    def figure(neighbours: Neighbours) -> Figure:
        of = functools.partial(_epsilon, question.delta, DISTANCE[neighbours] / z)
        why = f"{EXACT}; weights of all updates of a client; times of jobs depend on no data"
        return Figure(of(spent), question.delta, why, lambda: of(most))

    claim, before = none("no figure of the paper is for this run"), promised(release, question.delta)
    who = "a client, or anybody else who sees all models and who takes part"
    return [
        *(
            Entry(who, ADJACENT[each], claim, figure(each), _promise(release, before.get(each)), "device", True, each)
            for each in KINDS
        ),
        seen_by_server("the exact sum of each buffer" if release.secure else "every update"),
    ]


def promised(release: NoisyBuffers, delta: float) -> dict[Neighbours, float]:
    """Eps that no client exceeds, known before a run: of `max_jobs` fresh updates. Empty without a cap or noise."""
    z, jobs = float(release.noise_multiplier), release.max_jobs
    if jobs is None or not z:
        return {}
    of = lambda distance: float(gaussian.epsilon(delta, distance * np.sqrt(jobs) / z))
    return {each: of(DISTANCE[each]) for each in KINDS}


def _promise(release: NoisyBuffers, before: float | None) -> str:
    return "" if before is None else f"promised before the run: eps {before:.4g}, of {release.max_jobs} fresh updates"


def weights_spent(release: NoisyBuffers, question: Question) -> tuple[np.ndarray, np.ndarray]:
    """The sum of squared weights of each client's updates, `[n]`, and the most of any after each round, `[rounds]`."""
    run = question.run
    if release.weight_levels is None:
        weight = (1.0 + run["staleness"].values.astype(float)) ** -float(release.power)
    else:
        weight = run["factor"].values.astype(float) / release.weight_levels
    square = weight**2 * came(run)
    return spent_by_client(square, run.client_id.values, question.count.size)


def _epsilon(delta: float, distance: float, spent: np.ndarray) -> np.ndarray:
    return np.atleast_1d(gaussian.epsilon(delta, distance * np.sqrt(spent)))
