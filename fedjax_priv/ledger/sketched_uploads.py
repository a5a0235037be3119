"""Uploads with Gaussian noise that the server sees one by one (RobAJoL).

An upload is a vector of norm C at most plus noise of standard deviation sigma C at each coordinate. A public projection
that depends on nobody's data changes nothing: before the noise it may change the vector, which is clipped after it;
after the noise it is post-processing. T rounds in which a client's upload arrives are one Gaussian mechanism with
sqrt(T) times the sensitivity.
"""

import numpy as np

from fedjax_priv.ledger.entry import Entry, Figure, Question, none
from fedjax_priv.ledger.gaussian_uploads import gaussian_uploads
from fedjax_priv.ledger.local_noise import sent
from fedjax_priv.systems.releases import SketchedUploads
from fedjax_priv.theory.neighbours import DISTANCE

ADJACENT = "all that one client holds is replaced, and its loss and update stay finite"
WHY = "Gaussian mechanism in every round in which its upload arrives; the projection is public"
SILENT = "a client's updates are 0 instead, and its loss and update stay finite; that it takes part is not hidden"


def entries(release: SketchedUploads, question: Question) -> list[Entry]:
    """Entries for the server, which sees every upload; of a client's data, and of its updates against 0."""
    there, sigma = sent(question.run), float(release.noise_multiplier)
    always = there.all() and there.shape[1] == question.count.size
    return [
        Entry(
            "the server, which sees every upload",
            adjacent,
            none("the paper's figures are for another order of its steps"),
            _figure(question, DISTANCE[neighbours] * there, sigma),
            gaussian=bool(always),
            neighbours=neighbours,
        )
        for adjacent, neighbours in ((ADJACENT, "replacement"), (SILENT, "zero-out"))
    ]


def _figure(question: Question, distance: np.ndarray, sigma: float) -> Figure:
    if not sigma > 0:
        return none("no noise is added")
    return gaussian_uploads(question, distance / sigma, WHY)
