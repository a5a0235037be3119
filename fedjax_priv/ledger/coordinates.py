"""FedREP: which coordinates a client proposes, and the sums of its buffer."""

from typing import Any

from fedjax_priv.ledger import distributed_noise, noisy_uploads
from fedjax_priv.ledger.entry import Entry, Figure, Question, none, worst
from fedjax_priv.ledger.sums import no_noise, what_sums_hide
from fedjax_priv.systems.releases import DistributedNoise, NoisyUploads, ProposedCoordinates
from fedjax_priv.theory import fedrep


def entries(release: ProposedCoordinates, question: Question) -> list[Entry]:
    """Entries: Theorem 2 for one iteration, and what it does not cover."""
    sizes = release.num_params, release.num_coordinates, float(release.alpha)
    proposal = Entry(
        "the server, of one round's proposal",
        "one of the n largest coordinates is another one",
        _figure(fedrep.coordinate_epsilon_printed(*sizes), "Theorem 2 as printed"),
        _figure(fedrep.coordinate_epsilon(*sizes), "Theorem 2, exact"),
        "eps adds up over rounds; it is not about data: one sample may move many coordinates",
        "proposal",
    )
    if release.noise is not None:
        noise = _noise(release.noise, question)
        return [proposal, *(noise if sizes[2] == 1 else map(_given_proposals, noise))]
    if not release.masked:
        return [proposal, no_noise("the server, of updates")]
    return [proposal, no_noise("the server, of sums over buffers", what_sums_hide(release, question))]


def _noise(noise: DistributedNoise | NoisyUploads, question: Question) -> list[Entry]:
    if isinstance(noise, NoisyUploads):
        return noisy_uploads.entries(noise, question)
    return distributed_noise.entries(noise, question)


def _given_proposals(entry: Entry) -> Entry:
    """No guarantee, because the server also sees the proposals."""
    eps = worst(entry.proved)
    if eps is None:
        return entry
    alone = f"eps of the values alone is {eps:.4g} at delta {entry.proved.delta:.2g} ({entry.proved.why})"
    why = f"proposals depend on data unless alpha = 1; {alone}"
    return entry._replace(proved=none(why), note="")


def _figure(epsilon: Any, why: str) -> Figure:
    return Figure(float(epsilon), 0.0, why) if epsilon < float("inf") else none(f"{why}: alpha = 0 hides nothing")
