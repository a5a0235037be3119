"""Systems that add no noise: what a secure sum hides is no differential privacy."""

import numpy as np

from fedjax_priv.ledger import distributed_noise, local_noise
from fedjax_priv.ledger.entry import Entry, Question, no_guarantee
from fedjax_priv.systems.releases import SparseSum, Sum, ThresholdedSum
from fedjax_priv.theory import sparse_secagg

DATA = "any of a client's data"


def no_noise(adversary: str, note: str = "") -> Entry:
    """No guarantee about data, against anybody."""
    why = "no noise is added by the system"
    return no_guarantee(adversary, DATA, why, note)


def in_the_clear(release: None, question: Question) -> list[Entry]:
    """The entry of a system that does not state what it releases: noise in local steps is all that it has."""
    del release
    return local_noise.every_step(question) or [no_noise("the server, which sees every update")]


def unknown(release: object, question: Question) -> list[Entry]:
    """The entry of a release that has no accountant."""
    del question
    return [no_guarantee("anybody", DATA, f"no accountant covers a release of type {type(release).__name__}")]


def secure_sum(release: Sum, question: Question) -> list[Entry]:
    """Entries of secure sums; without noise, the note says how many honest clients are summed."""
    if release.noise is not None:
        return distributed_noise.entries(release.noise, question)
    if release.group_size is not None:
        return [no_noise("the server, of sums over buffers", _of_buffers(release, release.group_size, question))]
    honest = _arrived(question) * (1 - question.colluding / question.run.sizes["client"])
    note = f"a sum over {honest:.1f} honest clients a round on average, and nothing else"
    return [no_noise("the server, of sums", note)]


def _of_buffers(release: Sum, size: int, question: Question) -> str:
    """The smallest sum that was opened; colluders may all be in it, and enough of them open any upload."""
    threshold = 1 if release.masks is None else release.masks.quorum.threshold
    arrived = question.run.counted.values.sum(1)
    fewest = distributed_noise.smallest_sum(size, threshold, question.run.sizes["client"], arrived).min()
    honest = 1 if question.colluding >= threshold else max(int(fewest) - question.colluding, 1)
    return f"sums over buffers of {size} clients, {honest} or more neither lost nor colluding, and nothing else"


def sparse_sum(release: SparseSum, question: Question) -> list[Entry]:
    """Entries of sparse sums; without noise, the note gives T, the paper's own measure."""
    if release.noise is not None:
        return distributed_noise.entries(release.noise, question)
    size = question.run.sizes["client"]
    alpha, lost = float(release.alpha), 1 - _arrived(question) / size
    limit = sparse_secagg.aggregated_honest_clients_limit(
        sparse_secagg.Setting(size, alpha, min(lost, np.nextafter(0.5, 0)), question.colluding / size)
    )
    note = (
        f"T = {limit:.1f} honest clients summed at a coordinate (Theorem 2; no floor: half of the coordinates have "
        "fewer), which location sets let the server take apart, see leakage.separate"
    )
    return [no_noise("the server, of sums at the coordinates that are sent", note)]


def thresholded_sum(release: ThresholdedSum, question: Question) -> list[Entry]:
    """The entry of sums that are opened where enough clients sent a coordinate; the note says what they hide."""
    hidden = release.threshold - question.colluding
    note = f"sums at a coordinate of at least {release.threshold} clients, who sent it is public; "
    if hidden > 1:
        note += f"at least {hidden} of them do not collude"
    else:
        note += "colluders that claim every coordinate read values alone"
    return [no_noise("the server, of sums at the coordinates that are opened", note)]


def _arrived(question: Question) -> float:
    """Uploads in a round's sums, on average."""
    return float(question.run.counted.sum("client").mean())
