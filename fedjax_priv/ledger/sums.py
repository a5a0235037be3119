"""Systems that add no noise: what a secure sum hides is no differential privacy."""

import numpy as np

from fedjax_priv.ledger import distributed_noise
from fedjax_priv.ledger.entry import Entry, Question, none
from fedjax_priv.systems.releases import SparseSum, Sum
from fedjax_priv.theory import sparse_secagg

DATA = "any of a client's data"


def no_noise(adversary: str, note: str = "") -> Entry:
    """No guarantee about data, from anybody."""
    figure = none("no noise is added by the system, and what local training may add is accounted for in cdp_fl only")
    return Entry(adversary, DATA, figure, figure, note)


def in_the_clear(release: None, question: Question) -> list[Entry]:
    """A system that says nothing of what it releases."""
    del release, question
    return [no_noise("the server, which sees every update")]


def unknown(release: object, question: Question) -> list[Entry]:
    """A release that no accountant is for."""
    del question
    why = none(f"no accountant covers a release of type {type(release).__name__}")
    return [Entry("anybody", DATA, why, why)]


def secure_sum(release: Sum, question: Question) -> list[Entry]:
    """Of secure sums; without noise the note says how many honest clients are summed."""
    if release.noise is not None:
        return distributed_noise.entries(release.noise, question)
    honest = _arrived(question) * (1 - question.colluding / question.run.sizes["client"])
    note = f"a sum over {honest:.1f} honest clients a round in the mean, and nothing else"
    return [no_noise("the server, of sums", note)]


def sparse_sum(release: SparseSum, question: Question) -> list[Entry]:
    """Of sparse sums; without noise the note has T, the paper's own measure."""
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


def _arrived(question: Question) -> float:
    """Uploads in a round's sums, on average."""
    return float(question.run.counted.sum("client").mean())
