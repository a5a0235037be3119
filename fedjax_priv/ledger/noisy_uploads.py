"""Gaussian noise that each client adds to its clipped update: figures that hold for an upload that is seen alone.

What else is done to uploads (public coordinates, masks, sums, rules) only works on them, and lowers no noise.
"""

import numpy as np

from fedjax_priv.ledger.entry import Entry, Question, no_guarantee, none, worst
from fedjax_priv.ledger.gaussian_uploads import gaussian_uploads
from fedjax_priv.ledger.local_noise import sent
from fedjax_priv.systems.releases import NoisyUploads

ADJACENT = (
    "replacement: what a client trained is anything else that is finite; samples per client and who comes are public"
)
WHO = "the server, which sees each upload"
WHY = "Gaussian mechanism, exact (Balle and Wang 2018), of sensitivity 2 C in every round in which its upload arrives"


def entries(release: NoisyUploads, question: Question) -> list[Entry]:
    """The entry for whoever sees every upload of a client."""
    variance = np.asarray(release.noise_variance, np.float64)
    if not variance.all():
        return [no_guarantee(WHO, ADJACENT, "updates are clipped and no noise is added")]
    of_places = np.broadcast_to(variance, question.count.shape)[question.run.client_id.values]
    there = sent(question.run)
    moved = there * float(release.clip) / np.sqrt(of_places)
    why = f"{WHY}; {release.condition}" if release.condition else WHY
    figure = lambda distance: gaussian_uploads(question, distance * moved, why)
    zeros = worst(figure(1.0))
    note = f"zero-out: eps {zeros:.4g} where the other input is that it sends noise alone"
    note += "; what masks hide besides is not counted" if release.masked else ""
    claimed = none("no paper adds noise to these uploads")
    always = there.all() and there.shape[1] == question.count.size
    return [Entry(WHO, ADJACENT, claimed, figure(2.0), note, gaussian=bool(always))]
