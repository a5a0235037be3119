"""Canaries of an entry's looks: as far apart as its figure allows, and no farther."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from audit.test_breaks import LOSS, run_of

from fedjax_priv.audit import Subject, scores, two_worlds
from fedjax_priv.audit import looks as looks_module
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.audit.looks import looks
from fedjax_priv.audit.readings import along, at_variant
from fedjax_priv.audit.worlds import Seen, marked
from fedjax_priv.base import Told
from fedjax_priv.clients import bounded_and_counted
from fedjax_priv.ledger import ledger
from fedjax_priv.server_noise import tree
from fedjax_priv.systems import compose, distributed_dp_fedavg, dp_fedavg
from fedjax_priv.testing import cohort_of
from fedjax_priv.theory import gaussian

KEY, CLIENTS, D, CLIP, DELTA = jax.random.key(8), 12, 4, 0.5, 1e-3
LOCAL, PARAMS, DATA = sending(jnp.zeros((CLIENTS, D))), jnp.zeros(D), no_samples(CLIENTS)


def tried(make, rounds, quiet=None):
    """The subject, entries with a proof, and the looks at each; `quiet`: runs of the subject are of this system."""
    system = make(LOCAL, None)
    subject = Subject(quiet or make, LOCAL, LOSS, PARAMS, DATA, system.release)
    entries = ledger(system, run_of(CLIENTS, rounds), DATA, delta=DELTA)
    entries = [one for one in entries if one.proved.epsilon is not None]
    found = looks(subject, entries, KEY, kind=None, rounds=rounds, colluding=0, outsider=False)
    return subject, entries, found


def central(multiplier, **how):
    return lambda local, observe: dp_fedavg(
        local, num_clients=CLIENTS, clip=CLIP, noise_multiplier=multiplier, mesh=None, observe=observe, **how
    )


def distributed(noise):
    return lambda local, observe: distributed_dp_fedavg(
        local, num_clients=CLIENTS, num_params=D, clip=CLIP, noise_multiplier=noise, weight_cap=100.0, mesh=None,
        observe=observe, elide=True,
    )  # fmt: skip


def expected(noise):
    return lambda local, observe: compose(
        local,
        num_clients=CLIENTS,
        private="local",
        clip=CLIP,
        noise_variance=noise**2,
        weigh="expected",
        mesh=None,
        observe=observe,
    )


WEIGHED = {
    "samples": (lambda noise: central(noise, weight_cap=50.0), 2 * CLIP / CLIENTS),
    "samples of a secure sum": (distributed, 2 * CLIP / CLIENTS),
    "a mean over all": (expected, 2 * CLIP),
}
"""Systems, and how far a client with opposite updates moves the direction: each of norm C, in a sum over n or not."""


@pytest.mark.parametrize("weights", WEIGHED)
def test_given_updates_are_beyond_the_clip_whatever_their_weight(weights):
    make, moved = WEIGHED[weights]
    subject, entries, found = tried(make(1.0), 1, make(1e-4))
    (look, *_), _ = next(each for each in zip(found, entries, strict=True) if each[1].neighbours == "replacement")
    toward = lambda seen: look.canary.toward(seen.before) @ seen.info.direction
    worlds = scores(subject.make, look.canary, toward, KEY, params=PARAMS, trials=4)
    assert np.mean(worlds.first) - np.mean(worlds.second) == pytest.approx(moved, rel=0.02)


def distance(canary, bit):
    """Of what client 0 sends to an adaptive sum in the two inputs, at the first clipping norm, over it."""

    def sent(given):
        own = given if canary.variants is None else given[0]
        training = bounded_and_counted(canary.local(own), bit=bit)
        told = Told(PARAMS, {"clip_norm": jnp.float32(CLIP)})
        return training.apply(KEY, (), told, canary.data(own), cohort_of(CLIENTS))[0][0]

    first, second = map(sent, canary.inputs)
    return float(jnp.linalg.norm(first - second))


def test_bits_of_adaptive_clipping_are_tried_in_the_distance_that_is_proved():
    """A row of norm sqrt(1 + b^2 / 4) at most, bit included, is there or not, or is turned around."""
    z, count_noise = 2.0, 1.1
    bit = (1 / z**2 - 1 / (4 * count_noise**2)) ** -0.5 / count_noise
    longest = (1 + bit**2 / 4) ** 0.5
    _, entries, found = tried(central(z, clip_quantile=0.5, count_noise=count_noise), 2)
    assert {entry.neighbours for entry in entries} == {"add/remove", "zero-out", "replacement"}
    for entry, mine in zip(entries, found, strict=True):
        most = max(distance(look.canary, bit) for look in mine)
        assert most == pytest.approx(longest * (2 if entry.neighbours == "replacement" else 1), rel=0.01)


def test_the_next_clipping_norm_tells_who_was_within_the_first():
    """A bit of one in 12 clients moves its logarithm by a twelfth of the rate of 0.2."""
    adaptive = lambda noise: central(noise, clip_quantile=0.5, count_noise=noise)
    subject, entries, found = tried(adaptive(2.0), 2, adaptive(1e-2))
    mine = next(looks for looks, entry in zip(found, entries, strict=True) if entry.neighbours == "replacement")
    (look,) = (look for look in mine if look.name == "direction, one within the clip")
    worlds = scores(subject.make, look.canary, look.score, KEY, params=PARAMS, trials=8, rounds=2)
    first, second = (np.asarray(side).reshape(8, -1)[:, -1] for side in worlds)
    assert first.mean() - second.mean() == pytest.approx(-0.2 / CLIENTS, rel=0.1)


def test_what_is_wrong_at_one_coordinate_shows_in_the_runs_of_its_canary():
    """Three times the distance at one coordinate of five, as where it is not clipped; 1,000 trials, the default.

    Control: among the runs of all five no rate is above a fifth, and it does not show.
    """
    moved, trials = 2**0.5 * 2 / 4 / 0.6, 1000
    proved, variant = gaussian.epsilon(DELTA, moved), np.arange(trials) // 2 % 5
    score = at_variant([along(lambda seen: seen.updates[0])], lambda before: jnp.eye(5), 2)

    @jax.jit
    def read(rows):
        return jax.vmap(lambda row, own: score(Seen((), (), (), row[None], (), own)))(rows, jnp.asarray(variant))

    def world(rng, sign, at_two):
        mean = np.where(np.arange(5) == 2, at_two, moved) * np.eye(5)[variant] * sign / 2
        return np.asarray(read(jnp.asarray(rng.normal(size=(trials, 5)) + mean, jnp.float32)))

    def shown(*worlds):
        return two_worlds(*worlds, delta=DELTA, confidence=1 - 0.001 / 9, gaussian=True).epsilon

    for seed in range(5):
        rng = np.random.default_rng(seed)
        sound, broken = ([world(rng, sign, at_two) for sign in (1, -1)] for at_two in (moved, 3 * moved))
        own = [marked(side) for side in broken]
        assert [len(side) for side in own] == [trials // 5] * 2
        assert shown(*map(marked, sound)) < proved < shown(*own)
        assert shown(*(side[:, 0] * side[:, 1] for side in broken)) < proved


def test_each_coordinate_of_a_dirac_canary_is_a_look():
    _, _, found = tried(central(1.0), 1)
    dirac = [look for look in found[0] if look.name.startswith("Dirac")]
    assert [look.name for look in dirac] == [f"Dirac, {number} of {D}" for number in range(1, D + 1)]
    assert len({id(look.canary) for look in dirac}) == 1, "they share their runs"
    read, own = np.arange(8.0), np.arange(8) % 2
    assert all(look.finish(np.column_stack([read, own])).ravel().tolist() == [1, 3, 5, 7] for look in dirac)


def of_trees():
    """Name -> what a look says of its canary, and how far its two inputs are apart, of noise that is correlated."""
    _, _, found = tried(central(2.0, noise=tree(2)), 2)
    apart = lambda first, second: float(optax.tree.norm(jax.tree.map(jnp.subtract, first, second)))
    return {look.name: (look.one_direction, look.first_round, apart(*look.canary.inputs)) for look in found[0]}


def test_a_look_says_what_its_canary_is():
    said = {name: each[:2] for name, each in of_trees().items() if not name.startswith("Dirac")}
    assert said == {
        "direction": (True, False),
        "direction, first round": (True, True),
        "direction, over rounds": (True, False),
        "direction, first round, over rounds": (True, True),
        "direction, who was counted": (True, False),
    }


def test_other_words_in_labels_change_nothing_else(monkeypatch):
    labels = itertools.count()
    before = list(of_trees().values())
    monkeypatch.setattr(looks_module._Recipe, "label", property(lambda recipe: f"canary {next(labels)}"))
    after = of_trees()
    assert list(after.values()) == before and next(labels) and "direction" not in after
