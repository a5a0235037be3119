"""Systems with switches for what can break in them, so that all breaks of a system are one program.

A switch is a traced number. Code of the system is replaced by code that does as before, or as a break does where its
number is set. Each trial has its break as an input; `switched` runs the trials of all breaks at once.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.audit import ledger_entries
from fedjax_priv.audit.worlds import Worlds
from fedjax_priv.audit.worlds import scores_of_family as real_scores
from fedjax_priv.keys import named

NOW = {}  # "number": of the break, traced; "names": of all; "root": key of the run


def on(name):
    """Whether this break is set; False where the system has no such switch."""
    names = NOW.get("names", ())
    return NOW["number"] == names.index(name) if name in names and "number" in NOW else False


def where(name, broken, sound):
    return jax.tree.map(functools.partial(jnp.where, on(name)), broken, sound)


def noise(sound, frozen, round):
    """Noise `[n, d]` of the clients in order; `frozen`: of the run, the same in every round."""
    kind, d = sound.dtype, sound.shape[1]
    sound, frozen = sound.astype(jnp.float32), frozen.astype(jnp.float32)
    breaks = {
        "none on half of the coordinates": lambda: sound.at[:, d // 2 :].set(0),
        "none on one coordinate": lambda: sound.at[:, 4].set(0),
        "none on the last coordinate": lambda: sound.at[:, -1].set(0),
        "one key for all clients": lambda: jnp.broadcast_to(sound[:1], sound.shape),
        "none of the canary client": lambda: sound.at[0].set(0),
        "the same every round": lambda: frozen,
        "opposite every other round": lambda: jnp.where(round % 2 == 0, frozen, -frozen),
        "one draw for all coordinates": lambda: jnp.broadcast_to(sound[:, :1], sound.shape),
        "every coordinate drawn twice": lambda: sound[:, np.arange(d) // 2],
    }
    if "number" in NOW:
        each = [breaks[name]() if name in breaks else sound for name in NOW["names"]]
        sound = jax.lax.select_n(NOW["number"], *each)
    return jnp.round(sound).astype(kind) if kind == jnp.int32 else sound


def rooted(make):
    """The system, whose runs tell their root key to the switches."""

    def made(local, observe):
        system = make(local, observe)

        def step(key, state, data):
            NOW["root"], NOW["round"] = key, state.round
            return system.step(key, state, data)

        return system._replace(step=step)

    return made


def switched(monkeypatch, cache, names, broken):
    """`scores_of_family` that runs all breaks with the first canaries that are asked for, and keeps the scores."""
    calls = iter(range(100))

    def scores(make, family, score, keys, *, params, trials, rounds, at_once):
        number, variants = next(calls), family[0].variants or 1
        if number not in cache:
            every = real_scores(
                make, _with_breaks(family, names), _of_variant(score, variants), keys, params=params,
                trials=trials * len(names), rounds=rounds, at_once=at_once,
            )  # fmt: skip
            cache[number] = [*every]
            NOW.pop("number")
        own = np.arange(trials * len(names)) // 2 % (len(names) * variants) // variants == names.index(broken)
        return [Worlds(*(jax.tree.map(lambda a: a[own], world) for world in each)) for each in cache[number]]

    monkeypatch.setattr(ledger_entries, "scores_of_family", scores)


def _with_breaks(family, names):
    canary, own = family[0], family[0].variants or 1
    numbers = np.repeat(np.arange(len(names)), own)

    def spread(rows):
        rows = np.asarray(rows)
        rows = rows[None] if canary.variants is None else rows
        return np.tile(rows, (len(names), *(1,) * (rows.ndim - 1)))

    def local(given):
        NOW["number"], NOW["names"] = given[1], names
        return canary.local(given[0])

    how = {"local": local, "data": lambda given: canary.data(given[0]), "variants": len(numbers)}
    inputs = lambda one: tuple((jax.tree.map(spread, given), numbers) for given in one.inputs)
    return [one._replace(inputs=inputs(one), **how) for one in family]


def _of_variant(score, variants):
    return lambda seen: score(seen._replace(variant=seen.variant % variants))


def frozen_key():
    """Of the run, whatever the round."""
    return named(NOW["root"], "frozen")
