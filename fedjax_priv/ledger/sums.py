"""Systems that add no noise: what a secure sum hides is no differential privacy."""

import numpy as np

from fedjax_priv.layers.secure_sum.circle import CONNECTED
from fedjax_priv.ledger import distributed_noise, local_noise
from fedjax_priv.ledger.by_client import who_sent
from fedjax_priv.ledger.entry import Entry, Question, no_guarantee
from fedjax_priv.ledger.sums_of_one_model import sums_of_one_model
from fedjax_priv.systems.releases import Opening, ProposedCoordinates, SparseSum, Sum, ThresholdedSum
from fedjax_priv.theory import sparse_secagg

DATA = "any of a client's data"
READ_ALONE = "single uploads can be read"
HOLDERS = "those who hold shares of its masks"
REPORTS = "who reports a number that is too large for the sum, or not finite"


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
    """Entries of secure sums; without noise, the note says how many honest clients the smallest one hides."""
    if release.noise is not None:
        return distributed_noise.entries(release.noise, question)
    adversary = "the server, of sums" if release.group_size is None else "the server, of sums over buffers"
    return [no_noise(adversary, what_sums_hide(release, question))]


def what_sums_hide(release: Sum | ProposedCoordinates, question: Question) -> str:
    """Of the smallest sum that was opened; colluders may all be in it, and enough of them open any upload."""
    if (opening := _opening(release)) is None:
        return ""
    enough = _enough(release, opening)
    if question.colluding >= opening.colluders:
        return f"{READ_ALONE}: one is open, at least in part, to {enough}"
    cohort, arrived = question.run.sizes["client"], _in_sums(question)
    if not (enough_sent := arrived >= opening.fewest).any():
        return "no sum was opened"
    size, of = (cohort, "rounds") if release.group_size is None else (release.group_size, "buffers")
    fewest = int(distributed_noise.smallest_sum(size, opening.fewest, cohort, arrived[enough_sent]).min())
    if (honest := fewest - question.colluding) < 2:
        return f"{READ_ALONE}: at most one of the {fewest} clients in the smallest sum need be honest"
    proved = "rejected" in question.run
    lost = "lost, rejected" if proved else "lost"
    proposed = isinstance(release, ProposedCoordinates)
    told = " and ".join([REPORTS] + ["what each client proposes"] * proposed + ["whose proof fails"] * proved)
    hidden = f"{honest} or more neither {lost} nor colluding"
    conditions = [opening.condition, release.condition if isinstance(release, Sum) else ""]
    note = f"sums over {of} of {size} clients, {hidden}, and nothing else but {told}"
    note += f" {' and '.join(filter(None, conditions))}" if any(conditions) else ""
    note += _of_one_model(question, _who_is_in_sums(question), enough_sent, changing=of == "buffers")
    return f"{note}; an upload is open to {enough}" if opening.colluders < size else note


def _enough(release: Sum | ProposedCoordinates | SparseSum, opening: Opening) -> str:
    """How many colluders open an upload, in words."""
    few = release.masks is not None and not release.masks.quorum.complete
    holders = "its sender's neighbours" if few else HOLDERS
    return f"{opening.colluders} colluders among {holders}"


def _of_one_model(question: Question, came: np.ndarray, enough: np.ndarray, *, changing: bool) -> str:
    return sums_of_one_model(question.run, came, enough, changing=changing, colluding=question.colluding)


def _in_sums(question: Question) -> np.ndarray:
    """`[rounds]`, uploads that arrived and whose proof of validity, where one is asked for, was accepted."""
    return _who_is_in_sums(question).sum(1)


def _who_is_in_sums(question: Question) -> np.ndarray:
    """`[rounds, num_clients]`, whose upload that is."""
    run = question.run
    sent = who_sent(run, question.count.size)
    if "rejected" in run:
        rounds, places = np.nonzero(run.rejected.values.astype(bool))
        sent[rounds, run.client_id.values[rounds, places]] = 0
    return sent


def _opening(release: Sum | ProposedCoordinates | SparseSum) -> Opening | None:
    if release.masks is None:
        return None if isinstance(release, SparseSum) else release.opening
    quorum = release.masks.quorum
    if quorum.complete:
        return Opening(quorum.threshold, quorum.threshold)
    every_pair = quorum.holders - 1  # whoever agreed on all masks of a client needs none of its shares
    return Opening(quorum.threshold, min(quorum.threshold, every_pair), CONNECTED)


def sparse_sum(release: SparseSum, question: Question) -> list[Entry]:
    """Entries of sparse sums; without noise, the note gives T, the paper's own measure."""
    if release.noise is not None:
        return distributed_noise.entries(release.noise, question)
    return [no_noise("the server, of sums at the coordinates that are sent", _aggregated(release, question))]


def _aggregated(release: SparseSum, question: Question) -> str:
    opening = _opening(release)
    if opening is not None and question.colluding >= opening.colluders:
        return f"{READ_ALONE}: one is open to {_enough(release, opening)}"
    size, arrived = question.run.sizes["client"], _in_sums(question)
    if not (opened := arrived >= (1 if opening is None else opening.fewest)).any():
        return "no sum was opened"
    lost, adversarial = 1 - float(arrived[opened].mean()) / size, question.colluding / size
    if max(lost, adversarial) >= 0.5:
        return f"no T: Theorem 2 is for fewer than {size / 2:g} colluders, and fewer than {size / 2:g} lost in a round"
    limit = sparse_secagg.aggregated_honest_clients_limit(
        sparse_secagg.Setting(size, float(release.alpha), lost, adversarial)
    )
    note = (
        f"T = {limit:.1f} honest clients summed at a coordinate (Theorem 2; no floor: of many clients, about half of "
        "the coordinates have fewer), which location sets let the server take apart, see leakage.separate"
    ) + _of_one_model(question, _who_is_in_sums(question), opened, changing=True)
    return note if opening is None else f"{note}; an upload is open to {_enough(release, opening)}"


def thresholded_sum(release: ThresholdedSum, question: Question) -> list[Entry]:
    """The entry of sums that are opened where enough clients sent a coordinate; the note says what they hide."""
    hidden = release.threshold - question.colluding
    note = f"sums at a coordinate of at least {release.threshold} clients, who sent it is public; "
    if question.colluding >= release.quorum:
        note += f"values can be read alone: {release.quorum} colluders suffice, if they are members of the committee"
        note += " and a value's pairs" if release.in_pairs else ""
    elif release.threshold == 1:
        note += "values that one client sent are read alone"
    elif hidden > 1:
        note += f"at least {hidden} of them do not collude"
    else:
        note += "colluders that claim every coordinate read values alone"
    came = _who_is_in_sums(question)
    note += _of_one_model(question, came, came.sum(1) >= release.threshold, changing=True)
    return [no_noise("the server, of sums at the coordinates that are opened", note)]
