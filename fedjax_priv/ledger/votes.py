"""Votes on signs: the receiver's noise over all signs of a client, or noise that the client adds before the sign."""

import numpy as np

from fedjax_priv.ledger.entry import Entry, Figure, Question, no_guarantee, none
from fedjax_priv.systems.releases import Vote
from fedjax_priv.theory import gaussian, votes

ADJACENT = "replacement: what a client trained is anything else that is finite; who sends is public"
WHO = "the server, which receives the sum of the signs and may know all other votes"
ON_AIR = "the receiver's noise hides the signs: s = 2 c sqrt(d / N0), attained if all of them turn"
OWN = "noise before the sign, of sensitivity 2 L over its deviation, whatever the channel does"


def entries(release: Vote, question: Question) -> list[Entry]:
    """The smaller of the two figures; they do not add, since each is about a noise that the other ignores."""
    run = question.run
    of_round = {ON_AIR: _on_air(release, int(run.attrs["num_params"])), OWN: _own(release)}
    why = min(of_round, key=lambda name: of_round[name])
    if np.isinf(of_round[why]):
        return [no_guarantee(WHO, ADJACENT, "no noise of a client or of an aligned channel is stated")]
    sent = run.join_probability.transpose("round", "client").values > 0
    taken, which = np.unique(
        np.bincount(run.client_id.values[sent], minlength=question.count.size), return_inverse=True
    )
    eps = gaussian.epsilon(question.delta, of_round[why] * np.sqrt(taken))
    given = {ON_AIR: f"; {release.condition}" if release.condition else "", OWN: ""}
    figure = Figure(np.asarray(eps)[which.ravel()], question.delta, why + given[why])
    other = next(name for name in of_round if name != why)
    larger = gaussian.epsilon(question.delta, of_round[other] * np.sqrt(taken.max()))
    note = "" if np.isinf(of_round[other]) else f"{other.partition(',')[0]}: eps {larger:.4g}{given[other]}"
    return [Entry(WHO, ADJACENT, none("no paper states one"), figure, note, gaussian=why == ON_AIR)]


def _on_air(release: Vote, num_params: int) -> float:
    if release.level is None or not float(release.receiver_noise):
        return np.inf
    return float(votes.vote_sensitivity(num_params, float(release.level), float(release.receiver_noise)))


def _own(release: Vote) -> float:
    if release.clip is None or not release.noise_variance:
        return np.inf
    return 2 * float(release.clip) / float(np.sqrt(release.noise_variance))
