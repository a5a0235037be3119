"""Figures for those who see who takes part, where client 0 is not in every round."""

import functools
import types
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import losses, models, simulate, systems
from fedjax_priv.audit import Look, Seen, Subject, findings, sending
from fedjax_priv.audit.canaries import no_samples
from fedjax_priv.audit.who_came import where_it_came
from fedjax_priv.clients.cohort_rows import cohort_of
from fedjax_priv.ledger import ledger

CLIENTS, D, DELTA, Z = 6, 12, 1e-3, 2.0
LOCAL, DATA = sending(jnp.zeros((CLIENTS, D))), no_samples(CLIENTS)
SYSTEMS = {
    "fedbuff": functools.partial(
        systems.fedbuff, num_clients=CLIENTS, buffer_size=3, concurrency=4, max_staleness=4, clip=1.0, mesh=None
    ),
    "coins": functools.partial(systems.dp_fedavg, num_clients=CLIENTS, sampling_rate=0.4, mesh=None, block=CLIENTS),
    "cohorts": functools.partial(systems.dp_fedavg, num_clients=CLIENTS, cohort_size=3, mesh=None, block=CLIENTS),
}


@functools.cache
def said_and_run(name):
    """The system as it is said to be, and a run of it."""
    said = SYSTEMS[name](LOCAL, noise_multiplier=Z)
    return said, simulate(said, jax.random.key(0), jnp.zeros(D), DATA, rounds=1, progress=False)


def audited(name, noise_multiplier, *, trials=800, **how):
    """For both kinds of neighbours, what is found of the figure, which is that of `Z`."""
    said, run = said_and_run(name)
    entries = [one for one in ledger(said, run, DATA, delta=DELTA) if one.view == "device"]
    assert [one.neighbours for one in entries] == ["zero-out", "replacement"]
    make = lambda local, observe: SYSTEMS[name](local, noise_multiplier=noise_multiplier, observe=observe, **how)
    loss = losses.softmax_cross_entropy(models.softmax_regression((3,), 2))
    subject = Subject(make, LOCAL, loss, jnp.zeros(D), DATA, said.release)
    return findings(subject, entries, jax.random.key(1), trials=trials, delta=DELTA, kind="direction")


@pytest.mark.parametrize("name", ["fedbuff", "cohorts"])
def test_a_third_of_the_noise_is_seen_though_the_client_seldom_comes(name):
    """The sound system is the control."""
    assert [one.contradicts for one in audited(name, Z)] == [[], []]
    assert [one.contradicts for one in audited(name, Z / 3)] == [["proved"], ["proved"]]


def test_a_client_that_came_to_few_trials_makes_no_figure_stand():
    """That it is not counted differently is known of all trials, but says nothing of noise; more trials do."""
    few = audited("coins", Z, sampling_rate=0.01)
    assert [(one.stands, one.contradicts) for one in few] == [([], [])] * 2
    assert [one.limit < one.proved for one in few] == [True, True]
    needed = max(one.untestable["proved"] for one in few)
    for noise in (Z, Z / 100):
        enough = audited("coins", noise, sampling_rate=0.01, trials=2 * needed)
        assert [one.contradicts for one in enough] == [["proved"] if noise < Z else []] * 2
        assert [one.stands for one in enough] == [[] if noise < Z else ["proved"]] * 2


@pytest.mark.parametrize(("first_round", "came"), [(False, [1, 1, 0]), (True, [1, 0, 0])])
def test_who_came_in_which_round(first_round, came):
    """Client 0 is counted in the first two rounds, and sends 0 after the first one if the canary is of that one."""
    of_all = Look("any name", cast(Any, None), lambda seen: jnp.zeros(2), first_round=first_round)
    look = where_it_came(of_all)
    for number, (counted, expected) in enumerate(zip([True, True, False], came, strict=True)):
        info = cast(Any, types.SimpleNamespace(counted=jnp.array([True, counted])))
        who = cohort_of(jnp.array([3, 0]), jnp.int32(number), np.ones(4, int))
        seen = Seen((), (), info, jnp.zeros((2, D)), who, jnp.int32(0))
        np.testing.assert_array_equal(look.score(seen), [0, 0, expected])


def test_trials_that_remain():
    """The last column says who came; the rows of the others go."""
    look = where_it_came(Look("direction", None, lambda seen: seen, lambda found: 2 * found))  # pyright: ignore
    scores = np.arange(12.0).reshape(6, 2)
    five = np.column_stack([scores, [1, 2, 0, 1, 1, 1]])
    np.testing.assert_array_equal(look.finish(five), 2 * scores[[0, 1, 3, 4, 5]])
    none = np.column_stack([scores, np.zeros(6)])
    assert look.finish(none).shape == (0, 2)
