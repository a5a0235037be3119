"""The attack of `fedjax_priv.leakage` on rounds of the whole protocol, with training, checked against true values."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from experiments.problem import load, model_of
from experiments.sparse_secagg.training import Setting, clients_of, local_of
from fedjax_priv.base import Algorithm, Local, RoundInfo, RoundState, View
from fedjax_priv.leakage import Protocol, Reading, colluders_of_round, secagg_protocol, separate, sparse_protocol
from fedjax_priv.systems import secagg, sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory


class Point(NamedTuple):
    """Where the protocol is attacked. The last users collude; users are drawn alike, so any would do."""

    num_clients: int
    alpha: float
    dropout: float
    adversaries: int

    @property
    def adversarial(self) -> float:
        """gamma."""
        return self.adversaries / self.num_clients

    @property
    def setting(self) -> theory.Setting:
        """For the formulas."""
        return theory.Setting(self.num_clients, self.alpha, self.dropout, self.adversarial)


class Attacked(NamedTuple):
    """What the attack found in some rounds, of the values that honest survivors sent."""

    fraction: np.ndarray  # [3], read alone, in sums of two, in sums of three
    error: np.ndarray  # [2], standard errors of the first two given the parameters, survivors drawn once a round
    honest: float  # X(l), mean over coordinates and rounds
    sums: int  # read off
    wrong: int  # of these
    by_chance: float  # expected number of wrong ones


GUESS = 0.25
"""The attacker assumes that no client moves a parameter by more than this in a round."""


def keep(view: View) -> View:
    return view


def attack_sparse(setting: Setting, points: list[Point], rounds: int, levels: float, seed: int) -> list[Attacked]:
    """Attack points of one N, in one program in which alpha and theta vary."""
    (num_clients,) = {point.num_clients for point in points}

    def system(local: Local, alpha: float, dropout: float, elide: bool) -> Algorithm:
        return sparse_secagg(
            local, num_clients=num_clients, alpha=alpha, dropout=dropout, levels=levels, expand="dense", elide=elide,
            observe=keep, block=setting.block, mesh=None,
        )  # fmt: skip

    step = _stepper(setting, num_clients, system, seed)

    @functools.cache
    def played(alpha: float, dropout: float) -> tuple[list[RoundInfo], list[np.ndarray]]:
        point = Point(num_clients, alpha, dropout, 0)
        states, infos = zip(*_play(step, point, rounds), strict=True)
        return list(infos), [np.asarray(step(state, point, elide=True)[1].observed.uploads) for state in states]

    found = []
    for point in points:
        protocol = sparse_protocol(alpha=point.alpha, group_size=num_clients, expand="dense")
        infos, clear = played(point.alpha, point.dropout)
        readings = [_read(info, point, protocol, seed, _bound(point, levels)) for info in infos]
        found.append(_summary(readings, clear, point))
    return found


def attack_secagg(setting: Setting, point: Point, levels: float, seed: int) -> Reading:
    """Attack one round of SecAgg on the complete graph, up to sums of two; too many of three are tiny by chance."""

    def system(local: Local, alpha: float, dropout: float, elide: bool) -> Algorithm:
        del alpha
        return secagg(
            local, num_clients=point.num_clients, dropout=dropout, levels=levels, elide=elide, observe=keep,
            block=setting.block, mesh=None,
        )  # fmt: skip

    ((_, info),) = _play(_stepper(setting, point.num_clients, system, seed), point, 1)
    protocol = secagg_protocol(group_size=point.num_clients)
    return _read(
        info, point, protocol, seed, math.ceil(GUESS * levels / point.num_clients / (1 - point.dropout)), max_size=2
    )


def _stepper(setting: Setting, num_clients: int, system: Callable[..., Algorithm], seed: int) -> Callable:
    """`step(state, point, elide)`; a state of None starts a run."""
    dataset, model = load(setting.task), model_of(setting.task)
    local, clients = local_of(setting, model), clients_of(setting, dataset, num_clients, seed)
    key = jax.random.key(seed)

    @functools.partial(jax.jit, static_argnums=3)
    def run(state: RoundState, alpha: float, dropout: float, elide: bool) -> tuple[RoundState, RoundInfo]:
        return system(local, alpha, dropout, elide).step(key, state, clients)

    def step(state: RoundState | None, point: Point, elide: bool) -> tuple[RoundState, RoundInfo]:
        if state is None:
            state = system(local, point.alpha, point.dropout, elide).init(key, model.init(key), clients)
        return run(state, point.alpha, point.dropout, elide)

    return step


def _play(step: Callable, point: Point, rounds: int) -> list[tuple[RoundState | None, RoundInfo]]:
    """Rounds that the server recovered, each with the state before it."""
    state, played = None, []
    while len(played) < rounds:
        after, info = step(state, point, elide=False)
        if not int(info.status):
            played.append((state, info))
        state = after
    return played


def _bound(point: Point, levels: float) -> int:
    sent = theory.selection_probability(point.num_clients, point.alpha) * (1 - point.dropout)
    return math.ceil(GUESS * levels / (point.num_clients * sent))


def _read(info: RoundInfo, point: Point, protocol: Protocol, seed: int, bound: int, max_size: int = 3) -> Reading:
    view = cast(View, info.observed)
    member = jnp.arange(point.num_clients) >= point.num_clients - point.adversaries
    colluders = colluders_of_round(protocol, jax.random.key(seed), view.public["mask"], member)
    return separate(view, protocol, bound=bound, colluders=colluders, max_size=max_size)


def _summary(readings: list[Reading], clear: list[np.ndarray], point: Point) -> Attacked:
    read = np.array([reading.read.sum(0) for reading in readings])
    sent = np.array([reading.sent.sum() for reading in readings])
    return Attacked(
        fraction=read.sum(0) / sent.sum(),
        error=_error(point, len(readings), sent.sum()),
        honest=float(np.mean([reading.sent.mean() for reading in readings])),
        sums=sum(len(reading.value) for reading in readings),
        wrong=sum(_wrong(reading, values) for reading, values in zip(readings, clear, strict=True)),
        by_chance=sum(reading.false_hits for reading in readings),
    )


def _wrong(reading: Reading, uploads: np.ndarray) -> int:
    """The number of sums that differ from the values their clients sent."""
    terms = uploads[reading.clients, reading.coordinate[:, None]].astype(np.int64)
    total = np.where(reading.clients >= 0, terms, 0).sum(1) - reading.value
    return int((total % (2**32 - 5) != 0).sum())


def _error(point: Point, rounds: int, sent: int) -> np.ndarray:
    """Standard errors of the fractions: of h, the number of honest survivors in a few rounds, and of coordinates."""
    n, alpha, dropout, adversaries = point
    honest, a = n - adversaries, alpha / (n - 1)
    h = np.random.default_rng(0).binomial(honest, 1 - dropout, 10_000)
    unselected = (1 - a) ** (n - 1)
    alone = ((1 - a) ** (h - 1) - unselected) / (1 - unselected)
    pairs = (h - 1) * a * (1 - a) ** (2 * np.maximum(h - 2, 0)) / (1 - unselected)
    return np.sqrt(
        np.array([alone.var(), pairs.var()]) / rounds + 1 / sent
    )  # a fraction has a variance of at most 2/sent
