"""Gaussian noise that each client adds to its clipped update: figures that hold for an upload that is seen alone.

What else is done to uploads (public coordinates, masks, sums, rules) only works on them, and lowers no noise.
"""

import numpy as np

from fedjax_priv.ledger.entry import Entry, Figure, Question, no_guarantee, none, worst
from fedjax_priv.ledger.local_noise import rounds_taken
from fedjax_priv.systems.releases import NoisyUploads
from fedjax_priv.theory import gaussian

ADJACENT = "replacement: what a client trained is anything else that is finite; who takes part is public"
WHO = "the server, which sees each upload"
WHY = "Gaussian mechanism, exact (Balle and Wang 2018), of sensitivity 2 C in every round the client is in"


def entries(release: NoisyUploads, question: Question) -> list[Entry]:
    """The entry for whoever sees every upload of a client."""
    if not release.noise_variance:
        return [no_guarantee(WHO, ADJACENT, "updates are clipped and no noise is added")]
    each = rounds_taken(question.run, question.count.size)
    taken, which = np.unique(each, return_inverse=True)

    def figure(distance: float) -> Figure:
        sensitivity = distance * float(release.clip) / np.sqrt(float(release.noise_variance)) * np.sqrt(taken)
        return Figure(np.asarray(gaussian.epsilon(question.delta, sensitivity))[which], question.delta, WHY)

    zeros = worst(figure(1.0))
    note = f"zero-out: eps {zeros:.4g} where the other input is that it sends noise alone"
    note += "; it sees sums only, and so less" if release.masked else ""
    claimed, always = none("no paper adds noise to these uploads"), (each == question.run.sizes["round"]).all()
    return [Entry(WHO, ADJACENT, claimed, figure(2.0), note, gaussian=bool(always))]
