"""Wireless FedSGD: noise that adds up on the air, and sampling the server does not see.

The update of a client is clipped after local training, so its sensitivity is 2L whatever local training does. But
`wireless.rigorous_epsilon` is for coins that show in the upload of their round only. What a client keeps from a round
in which it took part can show later that it did. So only local training that states that it keeps nothing has this
figure; any other has the one for a server that knows who takes part, which holds for it.
"""

import functools

import numpy as np

from fedjax_priv.ledger import estimated_gains
from fedjax_priv.ledger.coins import in_turns, is_filled, own_chances, population
from fedjax_priv.ledger.entry import FORGETTING, Entry, Figure, Question, none
from fedjax_priv.ledger.estimated_gains import ADJACENT, STAYS
from fedjax_priv.ledger.receiver_noise import (
    ABSENT,
    GAIN_MISSING,
    SAT_OUT,
    TOO_LOUD,
    hidden_count,
    is_absent,
    is_gain_missing,
    is_too_loud,
    levels,
    probabilities,
    public_links,
    public_senders,
    received,
    received_noise,
    receiver_alone,
    sat_out,
    variances,
)
from fedjax_priv.systems.releases import OverTheAir
from fedjax_priv.theory import _by_user, wireless
from fedjax_priv.theory.sampled_gaussian import Neighbours

UNLIKE = "coins decide who is in the cohort, and power, its limits or chances differ between clients: no accountant"
UNEQUAL = "users toss coins and their noise variances differ: the accountant of coins is for one"
LEAVES = "one user, of which all else that is known stays as it is, is not there"
DELTA_LOCAL = 1e-5
"""The paper's delta_l, and what its delta' exceeds the least one by."""


def entries(release: OverTheAir, question: Question) -> list[Entry]:
    """Entries for the server (or an outsider in its place), alone and with colluding users."""
    if release.knowledge is not None:
        return estimated_gains.entries(release, question)
    delta, colluding = question.delta, question.colluding
    p = probabilities(question.run)
    claim = _claimed(release, p, delta)
    seen = [("server", "the server, which knows gains, probabilities and how many sent", p, claim)]
    if colluding:
        rest, elsewhere = p[:, : p.shape[1] - colluding], none("the paper's eps is about a server that is alone")
        who = f"the server and the last {colluding} users, whose coins and noise it knows"
        seen.append(("coalition", who, rest, elsewhere))
    found = []
    for view, who, part, said in seen:
        gaussian = _is_public(part) and not _is_scaled(release)
        found.append(Entry(who, ADJACENT, said, _proved(release, question, part), view=view, gaussian=gaussian))
        found += _of_absence(release, question, part, who, view)
    return found


def _of_absence(release: OverTheAir, question: Question, p: np.ndarray, who: str, view: str) -> list[Entry]:
    """Where the receiver's noise is all there is: of a user that stays and sends 0, or that is not there."""
    if not receiver_alone(release) or release.access == "orthogonal":
        return []
    if _is_public(p):
        proved, said = _proved(release, question, p, "zero-out"), none("the paper's eps is about a user that leaves")
        return [Entry(who, STAYS, said, proved, view=view, gaussian=True, neighbours="zero-out")]
    if release.known_count or not _forgets(question):
        return []
    proved, said = _proved(release, question, p, "add/remove"), none("see replacement")
    return [Entry(who, LEAVES, said, proved, view=view, neighbours="add/remove")]


def _is_public(p: np.ndarray) -> bool:
    """Whether nobody tosses a coin: all send, or the channel or a schedule decides who does."""
    return bool(np.isin(p, (0, 1)).all())


def _is_scaled(release: OverTheAir) -> bool:
    """Whether noise of users depends on data (eq. 26)."""
    return release.power is not None and release.control == "gradient" and not receiver_alone(release)


def _is_for_each(release: OverTheAir) -> bool:
    """Whether power, or the least gain with which they send, differs between clients."""
    return any(np.unique(np.asarray(each)).size > 1 for each in (release.power, release.truncation))


def _are_alike(p: np.ndarray) -> bool:
    """Whether those that the coins left out have the chances of places, too: a place of 0 may be one client's alone."""
    return bool(((p == p[:, :1]) & (p > 0)).all())


def _forgets(question: Question) -> bool:
    return question.steps is not None and question.steps.form in FORGETTING


def _claimed(release: OverTheAir, p: np.ndarray, delta: float) -> Figure:
    """Theorem 1 in each round, and its composition (eqs. 18 to 20), at the paper's deltas."""
    if release.access == "orthogonal":
        return none("printed for one round only, see theory.wireless.orthogonal_epsilon")
    try:
        distinct, which = np.unique(p, axis=0, return_inverse=True)
        each = [_theorem(release, row) for row in distinct]
    except ValueError as error:
        return none(f"Theorem 1 does not exist: {error}")
    eps, failure = np.array(each)[which.ravel()].T
    total = wireless.compose_heterogeneous(eps, failure, delta)
    return Figure(float(total.epsilon), float(total.delta), "Theorem 1 and eqs. 18 to 20; false for removal")


def _theorem(release: OverTheAir, p: np.ndarray) -> tuple[float, float]:
    size = len(p)
    prime = 2 * np.exp(-2 * p.sum() ** 2 / size) + DELTA_LOCAL
    claim = wireless.Round(size, p, np.asarray(release.clip), np.asarray(release.noise_variance)), DELTA_LOCAL, prime
    return float(wireless.central_epsilon(*claim)), float(wireless.central_delta(*claim))


def _proved(release: OverTheAir, question: Question, p: np.ndarray, neighbours: Neighbours = "replacement") -> Figure:
    size, c = p.shape[1], levels(release, question.run)
    if not ((p >= 0) & (p <= 1)).all():
        return none("a probability of taking part is outside [0, 1]")
    if not ((c > 0) & (c < np.inf)).all():
        return none("a level is not a finite number above 0")
    if question.by_coins and is_filled(question) and not p.any():
        return none(UNLIKE)
    variance, public = variances(release, question), _is_public(p)
    if not (public or (variance == variance[0, 0]).all()):
        return none(UNEQUAL)
    if receiver_alone(release) and not np.asarray(release.receiver_noise):
        return none("nobody adds noise")
    if _is_scaled(release):
        return none("the power limit scales noise by gradient norms (eq. 26), which no theorem covers")
    clip, receiver_noise = np.array([release.clip, release.receiver_noise], np.float64).tolist()
    about = wireless.Round(size, _shape(p), clip, variance if public else float(variance[0, 0]), receiver_noise)
    if not public and is_filled(question) and (_is_for_each(release) or not _are_alike(p)):
        return none(UNLIKE)
    if release.access == "orthogonal":
        return _orthogonal(release, question, p, about, c)
    if sat_out(question.run):
        return none(SAT_OUT)
    if not receiver_alone(release) and is_absent(question.run, p):
        return none(ABSENT)
    if is_gain_missing(release, question.run):
        return none(GAIN_MISSING)
    if is_too_loud(release, c[:, None] * received_noise(release, received(release, question, about, c))):
        return none(TOO_LOUD)
    if public:
        assert neighbours != "add/remove"  # it is public, too, who is there
        return public_senders(release, question, size, about, c, neighbours)
    return in_turns(
        question,
        lambda one, rounds: _sampled(
            release, one, p[rounds], about._replace(participation=_shape(p[rounds])), c[rounds], neighbours
        ),
    )


def _sampled(
    release: OverTheAir, question: Question, p: np.ndarray, about: wireless.Round, c: np.ndarray, neighbours: Neighbours
) -> Figure:
    """Users toss coins that the server does not see."""
    rounds, delta = len(p), question.delta
    a = received(release, question, about, c)[:, : p.shape[1]]
    if receiver_alone(release) and not release.known_count and _forgets(question):
        return hidden_count(
            question, own_chances(question, p), about, c[:, None] * (a[:, :1] if is_filled(question) else a), neighbours
        )
    if receiver_alone(release) or release.control != "bound":  # all of the noise arrives
        most = np.where(a.max(1) > 0, a.max(1), 1)  # 0: nobody may send
        c, a = c * most, np.ones_like(a)
        about = about._replace(noise_variance=_number(about.noise_variance / most**2))
    about = about._replace(receiver_noise=_number(about.receiver_noise / c**2))
    if (a < 1).any():
        reach = lambda one: np.broadcast_to(a[:, :1], (rounds, one.num_users)) if is_filled(question) else a
        limited = lambda one: wireless.limited_epsilon(one, delta, amplitudes=reach(one), rounds=rounds)
        eps = max(map(float, map(limited, _tossing(question, about))))
        return Figure(eps, delta, "known set of users, amplitudes scaled by L (replacement)")
    of = lambda accountant: functools.reduce(
        np.maximum, (accountant(one, delta, rounds=rounds) for one in _tossing(question, about))
    )
    by_round = functools.partial(of, wireless.epsilon_by_round)
    if not _forgets(question):
        eps = of(wireless.known_set_epsilon)
        why = "set of senders known: what clients remember may show it (replacement)"
        known = functools.partial(wireless.epsilon_by_round, known_set=True)
        return Figure(float(eps), delta, why, lambda: of(known))
    eps = of(wireless.rigorous_epsilon)
    return Figure(float(eps), delta, "number of senders known, fresh coins unseen (replacement)", by_round)


def _tossing(question: Question, about: wireless.Round) -> list[wireless.Round]:
    """Who may toss the coins: those in the cohort, or all by whose coins it was filled.

    The same number comes on average, and of more clients fewer may come. The larger figure holds for both.
    """
    places, (users, _) = question.run.sizes["client"], population(question)
    if users == places:
        return [about]
    p = np.asarray(about.participation) * places / users
    return [about, about._replace(num_users=users - places + about.num_users, participation=p)]


def _orthogonal(release: OverTheAir, question: Question, p: np.ndarray, about: wireless.Round, c: np.ndarray) -> Figure:
    """The server sees every link and which are silent: one Gaussian mechanism per round in which a user takes part."""
    if release.power is not None:
        return none("users limited by power on orthogonal links: no accountant")
    if is_too_loud(release, c):
        return none(TOO_LOUD)
    if _is_public(p):
        return public_links(question, p.shape[1], about, c)
    return in_turns(question, lambda one, rounds: _seen_coins(one, p[rounds], about, c[rounds]))


def _seen_coins(question: Question, p: np.ndarray, about: wireless.Round, c: np.ndarray) -> Figure:
    """Users toss coins that the server sees."""
    delta, least = question.delta, _number(about.receiver_noise / c**2)
    users = [
        about._replace(num_users=1, participation=own.T, receiver_noise=least)
        for own in _by_user.own_rounds(own_chances(question, p)[None])
    ]
    eps = max(float(wireless.known_set_epsilon(one, delta, rounds=len(p))) for one in users)
    so_far = lambda one: wireless.epsilon_by_round(one, delta, rounds=len(p), known_set=True)
    by_round = lambda: np.max(list(map(so_far, users)), axis=0)
    return Figure(eps, delta, "each link seen alone, silence too (replacement)", by_round)


def _number(values: np.ndarray) -> np.ndarray | float:
    """The value of every round, as one number if they are all the same."""
    return float(values[0]) if (values == values[0]).all() else values


def _shape(p: np.ndarray) -> np.ndarray:
    """The smallest of `[]`, `[K]`, `[T, 1]` and `[T, K]` that holds the same values."""
    same_user, same_round = (p == p[:, :1]).all(), (p == p[:1]).all()
    if same_user and same_round:
        return p[0, 0, ...]
    return p[0] if same_round else p[:, :1] if same_user else p
