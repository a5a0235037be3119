"""Before a run: the noise that gives an eps, and the rounds within an eps.

Who takes part, and whose upload the channel loses, does not depend on training. So they are known in advance, and so is
the ledger. A channel of your own that does not state what it loses counts as one that loses nothing. Who sits out
(`clients.once_per_model`) depends on which rounds fail, so figures that count the noise of others are refused.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Antennas, ClientData, Cohort, Key, absent
from fedjax_priv.data.pool import Pool, checked
from fedjax_priv.ledger.by_release import ledger
from fedjax_priv.ledger.by_round import labels
from fedjax_priv.ledger.entry import Entry, worst
from fedjax_priv.runs.checks import check_key
from fedjax_priv.systems.releases import BlindUploads, DistributedNoise, LocalNoise, OverTheAir, Release
from fedjax_priv.theory import _roots

Chosen = Callable[[list[Entry]], Entry | None]
"""The entry of a ledger that a budget is about; None, or ValueError with the reason: there is none."""
_CLOSE = 1e-5  # relative, of the noise
_RISES = 20  # quarters of an octave in which a rise is looked for: sqrt(r) for r = 1,000


class BudgetRefused(ValueError):
    """An eps that no run reaches; `must` says what it must be, for a caller that has another name for it."""

    def __init__(self, must: str) -> None:
        super().__init__(f"epsilon must {must}")
        self.must = must


def planned(algorithm: Algorithm, key: Key, params: PyTree, data: ClientData | Pool, rounds: int) -> xr.Dataset:
    """What a ledger reads of a run, before the run: its cohorts, and whose uploads arrive.

    Args:
      algorithm: what will be run, with a `draw`.
      key: root key of the run.
      params: initial parameters.
      data: of the clients.
      rounds: of the run.

    Raises:
      ValueError: `algorithm` is no `Algorithm` or has no `draw`, its clients may sit out where figures count their
        noise, `key` is no typed key, or `rounds` is no integer >= 1.
    """
    _validate.integer(rounds=rounds)
    _validate.part(Algorithm, "systems.dp_fedavg(...)", algorithm=algorithm)
    check_key(key)
    if not isinstance(data, Pool):
        _validate.part(ClientData, "data.federate(...)", data=data)
    if algorithm.draw is None:
        raise ValueError("algorithm must have a draw, by which its cohorts are known ahead, got None")
    if algorithm.once_per_model and _counts_noise_of_others(algorithm.release):
        raise ValueError(
            "algorithm must not have local training once_per_model(...) where noise of others counts: who sits out and "
            "adds none is not known ahead"
        )
    who, here = jax.device_get(_cohorts(algorithm, key, params, data, rounds))
    each = ("round", "client")
    return xr.Dataset(
        {
            "client_id": (each, who.client), "counted": (each, here), "gain": (each, who.gain),
            "trains": (each, who.selected & (np.asarray(data.count)[who.client] > 0)),
            "status": (("round",), np.zeros(rounds, np.int32)), "join_probability": (each, who.participation),
            "up_bytes": (("phase", *each), 1.0 * here[None]), "staleness": (each, who.staleness), **_told(who),
        },
        {"phase": ["upload"], "round": np.arange(1, rounds + 1)},
        {"num_params": sum(leaf.size for leaf in jax.tree.leaves(params))},
    )  # fmt: skip


def _counts_noise_of_others(release: Release | None) -> bool:
    noise = getattr(release, "noise", release)
    if isinstance(noise, DistributedNoise):
        return noise.group_size > 1
    return isinstance(noise, LocalNoise | OverTheAir | BlindUploads)


def _told(who: Cohort) -> dict[str, tuple]:
    """What only some draws know of a cohort, as their runs record it."""
    each, told = ("round", "client"), dict[str, tuple]()
    if not absent(turned := who.coefficient):
        told |= {"coefficient_real": (each, turned[..., 0]), "coefficient_imaginary": (each, turned[..., 1])}
    if isinstance(who.antennas, Antennas):
        parts = np.moveaxis(np.asarray(who.antennas.gain), 3, 2)
        told["antenna_gains"] = ((*each, "antenna_gains_place"), parts.reshape(*parts.shape[:2], -1))
    if not absent(who.factor):
        told["factor"] = (each, who.factor)
    if not absent(who.level):
        told["level"] = (each, np.where(who.level > 0, who.level, np.nan))  # NaN: nobody may send
    return told


def rounds_within(
    algorithm: Algorithm,
    key: Key,
    params: PyTree,
    data: ClientData | Pool,
    epsilon: float,
    *,
    delta: float,
    most: int,
    chosen: Chosen | None = None,
) -> int:
    """How many rounds can a run have? The most after which a figure of the ledger is still within eps.

    Args:
      algorithm: as in `planned`.
      key: as in `planned`.
      params: as in `planned`.
      data: as in `planned`.
      epsilon: > 0.
      delta: in (0, 1).
      most: rounds of the run if eps allows them all.
      chosen: as in `noise_for`.

    Raises:
      ValueError: as `planned`; nothing is proved; or the first round is beyond eps.
    """
    _validate.positive(epsilon=epsilon)
    _validate.integer(most=most)
    plan = planned(algorithm, key, params, data, most)
    choose = chosen or figure_of_budget
    entries = lambda rounds: ledger(algorithm, plan.isel(round=slice(0, rounds)), data, delta=delta)
    after = lambda rounds: _epsilon(_entry(entries(rounds), choose))
    if after(most) <= epsilon:
        return most
    found = _roots.most(after, float(epsilon), most)
    if not found:
        raise BudgetRefused(f"allow a round, whose eps is {after(1):.4g} at delta {delta:g}, got {epsilon:g}")
    return found


def noise_for(
    make: Callable[[float], Algorithm],
    key: Key,
    params: PyTree,
    data: ClientData | Pool,
    epsilon: float,
    *,
    delta: float,
    rounds: int,
    start: float = 1.0,
    chosen: Chosen | None = None,
) -> float:
    """How much noise is enough for a run? The least with which a figure of the ledger is within eps, to 5 digits.

    With `power_control="signal"` the noise decides which clients can send. The result is then the least noise for the
    clients that send with it. If no noise is, the result is a noise with which somebody sends and below which a little
    less is too little; another `start` may find another such noise. With `cdp_fl` there may be one noise from which on
    eps is larger, because updates get too long for the grid. The result is then the least noise on either side of it,
    if a round has at most 1,000 clients.

    Args:
      make: `noise -> algorithm`. Noise is a deviation or a variance; but for these two cases, more means less eps.
      key: as in `planned`.
      params: as in `planned`.
      data: as in `planned`.
      epsilon: in (0, 1e6].
      delta: in (0, 1).
      rounds: of the run.
      start: noise to begin the search with, which `make` allows.
      chosen: the entry of the ledger that eps is about, such as `against("device")`; the first one that has a figure
        if not given. With coins in `systems.dp_fedavg` that is "outsider, add/remove", and
        `against("outsider, replacement")` takes more noise. At every noise it is the same adversary.

    Raises:
      ValueError: as `planned` and `make`; or nothing is proved, however much the noise is, or eps is not reached by the
        most noise that `make` allows, or who sends does not settle, or nobody does.
    """
    _validate.positive(epsilon=epsilon, start=start)
    if epsilon > _roots.LARGEST_BUDGET:
        raise BudgetRefused(f"be at most {_roots.LARGEST_BUDGET:g}, got {epsilon:g}")
    _validate.takes("noise", make=make)
    allowed, choose = _Allowed(make, start), chosen or figure_of_budget
    plan_at = lambda noise: planned(allowed(noise), key, params, data, rounds)
    plans, noises = [plan_at(start)], [start]
    name = _adversary(lambda noise: ledger(allowed(noise), plans[0], data, delta=delta), start, choose)
    spent_by = lambda plan, noise: _spent(ledger(allowed(noise), plan, data, delta=delta), choose, name)
    for _ in range(_PLANS):
        found = _enough(functools.cache(functools.partial(spent_by, plans[-1])), allowed, epsilon, noises[-1])
        plan = plan_at(found)
        noises.append(found)
        if plan.equals(plans[-1]):
            return found
        if (first := next((place for place, old in enumerate(plans) if plan.equals(old)), None)) is not None:
            return _least_between(noises[first + 1 :], lambda noise: spent_by(plan_at(noise), noise), epsilon)
        plans.append(plan)
    raise BudgetRefused(f"be one for which {_PLANS} searches find who sends, got {epsilon:g}")


_PLANS = 100
"""How often the search is repeated at most, where who sends depends on the noise."""


def _least_between(noises: list[float], spent: Callable[[float], float], epsilon: float) -> float:
    """A noise within eps with which somebody sends, where a search alternates between noises; a little less is beyond.

    Args:
      noises: those of the search.
      spent: noise -> eps of those who send with it; 0 if nobody does.
      epsilon: > 0.

    Raises:
      ValueError: none is found.
    """
    most, keeps = max(noises), lambda noise: 0 < spent(noise) <= epsilon
    found = next(filter(keeps, (most * _LESS**step for step in range(_STEPS))), None)
    if found is None:
        raise BudgetRefused(
            f"be one for which a search finds who sends, got {epsilon:g}: the noises alternate between "
            f"{min(noises):.4g} and {most:.4g}, and another start may be given by the option of the noise"
        )
    low = next(itertools.filterfalse(keeps, (found * _LESS**step for step in itertools.count(1))))
    found = low / _LESS
    while found > low * (1 + _CLOSE):
        middle = (low * found) ** 0.5
        low, found = (low, middle) if keeps(middle) else (middle, found)
    return found


_LESS, _STEPS = 2 ** (-1 / 8), 16
"""Noises that are tried, from the most on: each a little less, and how many."""


def _enough(spent: Callable[[float], float], allowed: "_Allowed", epsilon: float, start: float) -> float:
    """The least noise with which so many are spent at most."""
    found = _roots.least_scale(lambda noise: spent(min(noise, allowed.most)), float(epsilon), _CLOSE, start)
    if np.isfinite(found):
        found = min(found, allowed.most)
        below = _below_a_rise(spent, found) if isinstance(allowed(found).release, LocalNoise) else found
        return _roots.least_scale(spent, float(epsilon), _CLOSE, below) if spent(below) <= epsilon else found
    if allowed.why is None:
        raise BudgetRefused(f"be one that more noise reaches, got {epsilon:g}")
    least = f"{spent(allowed.most):.4g}, of the most noise that is allowed, {allowed.most:.4g}"
    raise BudgetRefused(f"be at least {least} ({allowed.why}), got {epsilon:g}")


def _below_a_rise(spent: Callable[[float], float], found: float) -> float:
    """The most noise from which on a little more means more eps, below the one that was found; else the latter.

    With much noise an update may be too long for the grid of `cdp_fl`. Then the noise of one client counts, where that
    of all r in the sum did: what was found is at most sqrt(r) times too much.
    """
    for step in range(_RISES):
        high, low = (found * 2 ** (-place / 4) for place in (step, step + 1))
        if spent(low) < spent(high):
            while high > low * (1 + _CLOSE):
                middle = (low * high) ** 0.5
                low, high = (middle, high) if spent(middle) <= spent(low) else (low, middle)
            return low
    return found


class _Allowed:
    """Systems by their noise; what is beyond the most that `make` allows is taken for it."""

    def __init__(self, make: Callable[[float], Algorithm], start: float) -> None:
        self.make, self.known, self.most = make, start, np.inf
        self.why: ValueError | None = None

    def __call__(self, noise: float) -> Algorithm:
        try:
            algorithm = self.make(noise)
        except ValueError as error:
            if noise <= self.known:
                raise
            self.most, self.why = self._most_below(noise), error
            return self.make(self.most)
        self.known = max(self.known, noise)
        return algorithm

    def _most_below(self, refused: float) -> float:
        """The most noise that is allowed, to 5 digits."""
        while refused > self.known * (1 + _CLOSE):
            middle = (refused * self.known) ** 0.5
            try:
                self.make(middle)
            except ValueError:
                refused = middle
            else:
                self.known = middle
        return self.known


def against(name: str) -> Chosen:
    """Chooses the first figure of an adversary.

    Args:
      name: as `epsilon_by_round` names it, such as "outsider, replacement", or its view alone, "outsider".

    Returns:
      A function that raises ValueError if the ledger knows no such adversary, or nothing is proved against it.
    """

    def chosen(entries: list[Entry]) -> Entry:
        known = labels(entries)
        mine = [entry for label, entry in zip(known, entries, strict=True) if name in (label, entry.view)]
        if not mine:
            allowed = dict.fromkeys([*(entry.view for entry in entries), *map(repr, known)])
            raise ValueError(f"against must be one of {', '.join(allowed)}, got {name!r}")
        found = figure_of_budget(mine)
        if found is None:
            raise ValueError(f"against must be an adversary with a proved figure, got {name!r}: {mine[0].proved.why}")
        return found

    return chosen


def figure_of_budget(entries: list[Entry]) -> Entry | None:
    """The entry that a budget is about: the first one with a figure for all rounds."""
    return next((entry for entry in entries if entry.proved.epsilon is not None and entry.view != "proposal"), None)


def _entry(entries: list[Entry], chosen: Chosen) -> Entry:
    """The entry that is chosen; ValueError says why there is none."""
    _validate.function(1, 'against("device")', chosen=chosen)
    entry = chosen(entries)
    if entry is None:
        first = next(entry for entry in entries if entry.view != "proposal")
        raise BudgetRefused(f"be for a system with a proved figure: {first.proved.why}")
    return entry


def _epsilon(entry: Entry) -> float:
    return float(worst(entry.proved) or 0.0)


def _entry_or_none(entries: list[Entry], chosen: Chosen) -> Entry | None:
    try:
        return _entry(entries, chosen)
    except ValueError:
        return None


def _adversary(entries: Callable[[float], list[Entry]], start: float, chosen: Chosen) -> str:
    """The label of the adversary that a budget is about, by the entries at a noise.

    With little noise the only figure may be one that more of it does not change. So where an entry before it has none,
    the most noise decides.

    Raises:
      ValueError: nothing is proved, however much the noise is.
    """
    here = entries(start)
    first = _entry_or_none(here, chosen)
    if first is not None:
        (name,) = labels([first])
        before = itertools.takewhile(lambda one: one[0] != name, zip(labels(here), here, strict=True))
        if all(entry.proved.epsilon is not None for _, entry in before):
            return name
    most = entries(_roots.FAR)
    last = _entry(most, chosen) if first is None else _entry_or_none(most, chosen) or first
    return labels([last])[0]


def _spent(entries: list[Entry], chosen: Chosen, name: str) -> float:
    """Eps of an adversary; infinite where nothing is proved against it."""
    entry = _entry_or_none(entries, chosen)
    return np.inf if entry is None or labels([entry]) != [name] else _epsilon(entry)


def _cohorts(algorithm: Algorithm, key: Key, params: PyTree, data: ClientData | Pool, rounds: int):
    """All cohorts, their leaves `[rounds, size]`, and whose uploads arrive, `[rounds, size]`."""
    draw, arrivals = algorithm.draw, algorithm.arrivals
    assert draw is not None

    def all_rounds(key: Key, params: PyTree, examples: PyTree, count: jax.Array):
        rows = jax.tree.map(lambda a: jnp.broadcast_to(a, (count.size, *a.shape[1:])), examples)
        first = algorithm.init(key, params, ClientData(rows, count)).draw

        def one(state: PyTree, round: jax.Array):
            who, state = draw(key, state, round, count)
            return state, (who, who.selected if arrivals is None else arrivals(key, round, who))

        return jax.lax.scan(one, first, jnp.arange(rounds))[1]

    if isinstance(data, Pool):  # who takes part does not depend on samples
        pool = checked(data)
        return jax.jit(all_rounds)(key, params, pool.fetch(np.zeros(1, np.int32)), pool.count)
    return jax.jit(all_rounds)(key, params, data.examples, data.count)
