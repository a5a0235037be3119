"""Trials of an audit at the gains of the run that a figure is about; and what trials with other gains would say."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import channels, losses, models, simulate, systems
from fedjax_priv.audit import Subject, findings, gains_of_run, of_first_client, sending
from fedjax_priv.audit.canaries import no_samples
from fedjax_priv.ledger import ledger, planned, worst

USERS, D, DELTA, ROUNDS = 2, 8, 1e-4, 2
LOCAL, PARAMS, DATA = sending(jnp.zeros((USERS, D))), jnp.zeros(D), no_samples(USERS)
blind = functools.partial(
    systems.blind_wireless, antennas=1, noise_variance=0.01, receiver_noise=4.0, every_antenna=True, mesh=None
)
SYSTEMS = {
    "antennas": functools.partial(blind, antennas=2),
    "wireless": functools.partial(systems.wireless, truncation=0.5, mesh=None),
    "votes": functools.partial(systems.over_the_air_vote, mesh=None),
}


def run(system, seed, rounds=1):
    return simulate(system, jax.random.key(seed), PARAMS, DATA, rounds=rounds, every=rounds, progress=False)


def first_run(name):
    """A run, and the argument that gives others its gains; without antennas it is planned only, which is cheaper."""
    system = SYSTEMS[name](LOCAL)
    plan = functools.partial(planned, system, jax.random.key(0), PARAMS, DATA, ROUNDS)
    first = run(system, 0, ROUNDS) if name == "antennas" else plan()
    return first, gains_of_run(system.release, first)


def gains_drawn(system, n, seed):
    """The gains `[rounds, n, ...]` that the server of a system draws, as parts of complex numbers or as amplitudes."""
    key, count = jax.random.key(seed), jnp.ones(n, jnp.int32)

    def step(state, round):
        who, state = system.draw(key, state, round, count)
        return state, getattr(who.antennas, "gain", who.gain)

    return jax.jit(lambda: jax.lax.scan(step, system.init(key, PARAMS, no_samples(n)).draw, jnp.arange(ROUNDS))[1])()


def gains_recorded(run, drawn):
    """Those of a run, in the form of those that were drawn."""
    if "antenna_gains" not in run:
        return run.gain.values
    stacked = np.moveaxis(np.asarray(drawn), 3, 2)
    return np.moveaxis(run.antenna_gains.values.reshape(stacked.shape), 2, 3)


@pytest.mark.parametrize("name", SYSTEMS)
def test_trials_have_the_gains_of_the_run(name):
    """Fewer clients have the first ones, where colluders, the last clients, are left out."""
    first, gains = first_run(name)
    there, elsewhere = (gains_drawn(SYSTEMS[name](LOCAL, **how), USERS, 1) for how in (gains, {}))
    own = gains_recorded(first, there)
    np.testing.assert_array_equal(there, own)
    assert not np.array_equal(elsewhere, own)
    if name != "votes":
        alone = SYSTEMS[name](sending(jnp.zeros((1, D))), **gains)
        np.testing.assert_array_equal(gains_drawn(alone, 1, 1), own[:, :1])


def test_the_system_counts_on_the_mean_power_of_its_links_and_not_on_that_of_a_run():
    strong = channels.rayleigh_antennas(power=4.0)
    there = gains_of_run(blind(LOCAL, fading=strong).release, run(blind(LOCAL, fading=strong), 0))["fading"]
    assert there.power == 4.0


def test_where_no_figure_is_at_the_gains_of_a_run():
    unread = xr.Dataset()
    for none in (0.0, jnp.float32(0.0)):
        assert gains_of_run(blind(LOCAL, noise_variance=none).release, unread) == {}
    assert gains_of_run(systems.fedavg(LOCAL).release, unread) == {}
    unsure = systems.wireless(LOCAL, fading=channels.estimated(channels.rayleigh(), pilot_energy=10.0), mesh=None)
    with pytest.raises(ValueError, match="release must be of known gains: the gains that clients estimated"):
        gains_of_run(unsure.release, unread)


def test_without_noise_of_clients_correlated_gains_keep_their_norm():
    """Their figure is at the gains of the run, of which no more is recorded, nor counts."""
    make = functools.partial(blind, noise_variance=0.0, antennas=3, fading=channels.rayleigh_antennas(correlation=0.5))
    first = run(make(LOCAL), 0, ROUNDS)
    there = run(make(LOCAL, **gains_of_run(make(LOCAL).release, first)), 1, ROUNDS)
    np.testing.assert_allclose(there.gain, first.gain, rtol=1e-6)
    figures = [ledger(make(LOCAL), one, DATA, delta=DELTA)[0].proved.epsilon for one in (first, there)]
    np.testing.assert_allclose(*figures, rtol=1e-6)


@functools.cache
def own_run(seed):
    """Of the system as it is said to be."""
    said = blind(LOCAL)
    return said, run(said, seed)


def audited(seed, *, there, receiver_noise=4.0):
    """Eps proved and the verdicts, where the receiver has as much noise as is said, or less."""
    said, own = own_run(seed)
    gains = gains_of_run(said.release, own) if there else {}
    make = lambda local, observe: blind(local, observe=observe, receiver_noise=receiver_noise, **gains)
    loss = losses.softmax_cross_entropy(models.softmax_regression((3,), 2))
    entries = ledger(said, own, DATA, delta=DELTA)
    (found,) = findings(
        Subject(make, LOCAL, loss, PARAMS, DATA, said.release), of_first_client(entries) if there else entries,
        jax.random.key(1), trials=800, delta=DELTA, kind="direction",
    )  # fmt: skip
    return found.proved, found.contradicts, found.stands


def test_a_true_figure_stands_and_one_that_too_little_noise_has_does_not():
    """Of weak gains, whose eps is small, and of strong ones."""
    assert audited(13, there=True) == (pytest.approx(1.816, abs=1e-3), [], ["proved"])
    assert audited(0, there=True, receiver_noise=1.0)[:2] == (pytest.approx(7.103, abs=1e-3), ["proved"])


def test_gains_that_are_new_in_each_trial_say_the_opposite():
    """The control of the test above: a true figure is contradicted, and a false one stands."""
    assert audited(13, there=False)[1] == ["proved"]
    assert audited(0, there=False, receiver_noise=1.0)[2] == ["proved"]


def test_figures_of_the_client_that_has_the_canary():
    one, own = own_run(13)
    (entry,) = ledger(one, own, DATA, delta=DELTA)
    each = np.ravel(np.asarray(entry.proved.epsilon))[::-1]
    entry = entry._replace(proved=entry.proved._replace(epsilon=each))
    (own,) = of_first_client([entry])
    assert worst(own.proved) == each[0] < each[1] and own.claimed.epsilon is None
