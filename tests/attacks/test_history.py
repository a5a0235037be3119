"""Attacks that know the last direction: what they are told in rounds, and ROP in rounds against a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv import layers
from fedjax_priv.aggregators import centered_clipping, mean
from fedjax_priv.attacks import (
    FromHistory,
    foe,
    infinite,
    on_group_means,
    on_sparse,
    on_updates,
    one_of,
    relocated_perturbation,
    sign_flip,
)
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.status import Status
from fedjax_priv.systems import compose, robust_fedavg
from helpers import cohort_of, mesh_of, refuses, same_bits, targets, towards_target

N, D, F = 6, 5, 2
KEY = jax.random.key(3)
DATA = targets(N, D)
ECHO = FromHistory(lambda key, updates, honest, byzantine, last: last[None])
"""Byzantine clients send what they know, so that it can be read off the uploads."""


def rounds(system, number, data=DATA, d=D):
    step = jax.jit(system.step)
    state = jax.jit(lambda: system.init(KEY, jnp.zeros(d), data))()
    for _ in range(number):
        before = state
        state, info = step(KEY, before, data)
        yield before, state, info


def system_of(attack, rule=None, **how):
    rule = mean()._replace(most_byzantine=None) if rule is None else rule
    how = {"server": optax.sgd(0.1, momentum=0.9), "observe": lambda view: view} | how
    return robust_fedavg(towards_target(), num_clients=N, aggregate=rule, num_byzantine=F, attack=attack, **how)


def uploads_of(info):
    return np.asarray(info.observed.uploads)


def test_attackers_are_told_the_direction_of_the_last_round_that_succeeded():
    """With momentum at the server the model moves otherwise; a round in which nothing arrives leaves what is known."""
    last, failed = np.zeros(D, np.float32), 0
    for before, _, info in rounds(system_of(ECHO, dropout=0.8), 14):
        assert same_bits(before.last, last)
        arrived = np.asarray(info.observed.alive)[:F]
        assert same_bits(uploads_of(info)[:F][arrived], np.broadcast_to(last, (F, D))[arrived])
        failed += int(info.status != 0)
        last = np.asarray(info.direction if info.status == 0 else last)
    assert 0 < failed < 14 and last.any()


def test_a_round_without_such_an_attack_remembers_nothing():
    ((_, state, _),) = rounds(system_of(foe()), 1)
    assert state.last == ()


def test_blocks_and_devices_change_no_bit():
    first = [info.direction for *_, info in rounds(system_of(relocated_perturbation(), block=N, mesh=None), 3)]
    other = [info.direction for *_, info in rounds(system_of(relocated_perturbation(), block=3, mesh=mesh_of(2)), 3)]
    assert same_bits(first, other)


def test_an_attack_that_makes_a_round_fail_is_told_what_went_before():
    spoils = FromHistory(lambda key, updates, honest, byzantine, last: jnp.where(last.any(), jnp.nan, 1.0 + last[None]))
    send = layers.stack(attack=on_updates(spoils), average=layers.average(), send=layers.plain())
    system = federated_round(
        cohort=everyone(num_byzantine=F), local=towards_target(), layers=send, channel=erasure(0.0), aggregate=mean(),
        mesh=None,
    )  # fmt: skip
    (*_, first), (_, second, info) = rounds(system, 2)
    assert first.status == 0 and info.status == Status.NOT_FINITE
    assert same_bits(second.last, first.direction)


def rop_loop(number, radius, length, angle, location, reference):
    """One step of centered clipping a round under the authors' attack, float64; directions by round."""
    x, w, last, directions = np.asarray(DATA.examples, np.float64), np.zeros(D), np.zeros(D), []
    for t in range(number):
        rows = w - x
        mu = rows[F:].mean(0)
        along = reference * (last if t else mu) + (1 - reference) * mu
        along /= np.linalg.norm(along)
        across = np.ones(D) - along.sum() * along
        turned = np.sin(np.radians(angle)) * across / np.linalg.norm(across) + np.cos(np.radians(angle)) * along
        rows[:F] = location * last + (1 - location) * mu + length * turned
        away = rows - last
        last = last + (away * np.minimum(1, radius / np.linalg.norm(away, axis=1))[:, None]).mean(0)
        w = w - 0.2 * last
        directions.append(last)
    return directions


@pytest.mark.parametrize("how", [(0.3, 0.25, 90.0, 1.0, 0.9), (0.5, 2.0, 270.0, 0.6, 1.0), (9.0, 1.0, 180.0, 0.0, 0.3)])
def test_rounds_of_centered_clipping_under_rop(how):
    radius, length, angle, location, reference = how
    attack = relocated_perturbation(length, angle=angle, location=location, reference=reference)
    system = system_of(attack, centered_clipping(radius, steps=1), server=optax.sgd(0.2))
    found = [info.direction for *_, info in rounds(system, 5)]
    np.testing.assert_allclose(found, rop_loop(5, *how), rtol=2e-5, atol=1e-5)


def test_where_it_is_relocated_it_is_not_clipped():
    """The honest rows are far away, and count as `radius`; the attackers' whole step counts."""
    radius, length = 0.5, 0.4
    for before, _, info in rounds(system_of(relocated_perturbation(length), centered_clipping(radius, steps=1)), 3):
        away = uploads_of(info) - np.asarray(before.last)
        kept = np.minimum(1, radius / np.linalg.norm(away, axis=1))
        assert (kept[:F] == 1).all() and (kept[F:] < 0.7).all()


def test_among_others_by_number():
    """Attacks with and without a memory, in one program."""
    attack = one_of(2, [sign_flip(), foe(3.0), ECHO])
    assert isinstance(attack, FromHistory)
    assert not isinstance(one_of(0, [sign_flip(), foe()]), FromHistory)
    for before, _, info in rounds(system_of(attack), 3):
        assert same_bits(uploads_of(info)[:F], np.broadcast_to(before.last, (F, D)))
    for _, _, info in rounds(system_of(one_of(1, [ECHO, foe(3.0)])), 2):
        rows = uploads_of(info)
        np.testing.assert_allclose(rows[:F], np.broadcast_to(-3 * rows[F:].mean(0), (F, D)), rtol=1e-5)
    swept = jax.jit(jax.vmap(lambda i: of_number(i)))(jnp.arange(3))
    np.testing.assert_array_equal(swept[:, 0], [-1, -2, 7])


def of_number(i):
    updates, honest = jnp.array([[1.0], [2.0]]), jnp.array([False, True])
    attack = one_of(i, [sign_flip(), foe(1.0), ECHO])
    return attack.apply(KEY, updates, honest, ~honest, jnp.array([7.0]))[0]


def test_means_of_groups_become_what_is_known():
    """Each group has an attacker, so all rows, and their mean, are the last direction plus 1."""
    attack = FromHistory(lambda key, means, honest, byzantine, last: 1 + last[None])
    send = layers.stack(attack=on_group_means(attack, 2), average=layers.average(), send=layers.plain(2))
    system = federated_round(
        cohort=everyone(2, num_byzantine=N - 1), local=towards_target(), layers=send, channel=erasure(0.0),
        aggregate=mean(), mesh=None,
    )  # fmt: skip
    for t, (*_, info) in enumerate(rounds(system, 3)):
        np.testing.assert_allclose(info.direction, np.full(D, t + 1), rtol=1e-5)


def test_next_to_a_weight_that_is_told_honestly():
    """Uploads have one more column, which the attack neither sees nor sends."""
    system = compose(
        towards_target(), num_clients=N, num_byzantine=F, attack=ECHO, weigh="survivors", observe=lambda view: view,
        aggregate=mean()._replace(most_byzantine=None),
    )  # fmt: skip
    for t, (before, _, info) in enumerate(rounds(system, 3)):
        assert before.last.any() == (t > 0)
        sent = uploads_of(info)
        assert sent.shape == (N, D + 1) and same_bits(sent[:F, :-1], np.broadcast_to(before.last, (F, D)))
        assert (sent[:, -1] > 0).all()


def test_below_a_sparsifier_the_largest_of_what_is_known_are_sent():
    layer = layers.stack(few=layers.top_k(D, 2), attack=on_sparse(ECHO, D), send=layers.plain_sparse(D))
    who = cohort_of(N)._replace(byzantine=jnp.arange(N) < F)
    last = jnp.array([0.0, 3.0, -1.0, -4.0, 2.0])
    private, public, _ = layer.advertise(KEY, layer.init(KEY, N), who, last=last)
    sent = layer.encode(KEY, private, public, jnp.ones((N, D)), who)[0]
    np.testing.assert_array_equal(sent.position[:F], [[3, 1]] * F)
    np.testing.assert_array_equal(sent.value, [[-4, 3]] * F + [[1, 1]] * (N - F))


def on_short_rows():
    send = layers.stack(sketch=layers.jl(D, 3), attack=on_updates(ECHO), send=layers.plain())
    private, public, _ = send.advertise(KEY, send.init(KEY, N), cohort_of(N), last=jnp.zeros(D))
    return send.encode(KEY, private, public, jnp.ones((N, D)), cohort_of(N))


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: relocated_perturbation(-1.0), "length must be a finite number >= 0, got -1.0"),
    (lambda: relocated_perturbation(location=1.5), r"location must be a number in \[0, 1\], got 1.5"),
    (lambda: relocated_perturbation(reference=-0.1), r"reference must be a number in \[0, 1\], got -0.1"),
    (
        lambda: on_updates(FromHistory(infinite())),
        r"attack.apply must be a function of 5 arguments, such as that of attacks.relocated_perturbation\(\), got .*",
    ),
    (lambda: on_updates(relocated_perturbation), r"attack must be a function of 4 arguments, .*"),
    (lambda: one_of(0, [FromHistory(foe())]), r"attacks\[0\].apply must be a function of 5 arguments, .*"),
    (
        on_short_rows,
        r"attack must be one of a round alone where updates are shortened, such as attacks.alie\(\): they have 3 "
        "numbers, the direction of the last round 5",
    ),
)
