"""DP-FedAvg with noise of the clients in a sum of few bits: against NumPy, its noise, its wraps, its ledger."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from refusals import refused

from fedjax_priv.audit import adversaries, direction_canary, scores, two_worlds
from fedjax_priv.audit.coalitions import left_of_field
from fedjax_priv.base import ClientData
from fedjax_priv.crypto.modulus import centred
from fedjax_priv.layers import plain_field, plain_ring, wrap
from fedjax_priv.layers.rounding import BETA
from fedjax_priv.ledger import ledger
from fedjax_priv.systems import distributed_dp_fedavg
from fedjax_priv.systems.secure_sums.distributed_dp_fedavg import FINEST, grid_step
from fedjax_priv.theory import discrete_gaussian, skellam
from helpers import rounds_of, targets, towards_target

KEY = jax.random.key(18)
N, D, PADDED, CLIP, DELTA = 6, 20, 32, 1.5, 1e-5
DATA = targets(N, D)


def made(local=None, **how):
    """Under the masks of its secure sum."""
    local = towards_target() if local is None else local
    usual = {"num_clients": N, "num_params": D, "clip": CLIP, "mesh": None, "block": 4}
    return distributed_dp_fedavg(local, **usual | how)


def summed(local=None, bits=16, shares=4, **how):
    """The same sum in the clear, without a key agreement."""
    return made(local, bits=bits, secure_sum=plain_ring(bits), shares=shares, **how)


def clipped(data=DATA):
    update = -np.asarray(data.examples, np.float64)
    return update * np.minimum(1, CLIP / np.linalg.norm(update, axis=1, keepdims=True))


@functools.cache
def quiet():
    """`(data, round) -> info` without noise."""
    system = summed(noise_multiplier=0.0, bits=24, observe=lambda view: view.uploads)

    def run(data, number):
        state = system.init(KEY, jnp.zeros(D), data)
        return system.step(KEY, state._replace(round=number), data)[1]

    return jax.jit(run)


def test_without_noise_it_is_the_clipped_mean_but_for_rounding():
    info = quiet()(DATA, 0)
    step = CLIP / FINEST
    np.testing.assert_allclose(info.direction, clipped().sum(0) / N, atol=4 * step)
    assert info.bits["upload"].up.tolist() == [24 * PADDED] * N and info.bits["rotation"].down.tolist() == [64] * N


def test_each_round_has_another_rotation():
    """Of the same updates, which rounding moves by a grid point."""
    first, again = (np.asarray(centred(quiet()(DATA, number).observed, 24)) for number in (0, 1))
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), np.linalg.norm(again, axis=1), atol=10)
    assert (np.abs(first - again).max(1) > FINEST / 10).all()


def test_no_data_make_a_round_fail_or_count_more_than_the_norm():
    wild = DATA.examples.at[0, 3].set(jnp.nan).at[1].multiply(1e15)
    info, usual = (quiet()(DATA._replace(examples=x), 0) for x in (wild, DATA.examples))
    assert int(info.status) == 0 and info.counted.all()
    expected = np.asarray(usual.direction) - clipped()[0] / N
    np.testing.assert_allclose(info.direction, expected, atol=4 * CLIP / FINEST)


WIDE, Z, SHARES = 400, 0.7, 3


@functools.cache
def noisy(law, deviations=4.0):
    """`examples -> infos` of twelve rounds of 10 bits."""
    system = summed(num_params=WIDE, noise_multiplier=Z, noise=law, shares=SHARES, dropout=0.3, bits=10,
                    deviations=deviations, server=optax.sgd(0.0), observe=lambda view: view)  # fmt: skip

    def run(examples):
        return rounds_of(system, KEY, jnp.zeros(WIDE), DATA._replace(examples=examples), 12)[1]

    return jax.jit(run)


@pytest.mark.parametrize("law", ["discrete_gaussian", "skellam"])
def test_the_sum_has_the_noise_of_who_came(law):
    """z is reached with the noise of `shares` clients; with all of them there is more."""
    infos = noisy(law)(jnp.zeros((N, WIDE)))
    came = np.asarray(infos.counted).sum(1)
    assert len(set(came)) > 1 and not np.asarray(infos.status).any()
    scaled = np.asarray(infos.direction) * (0.7 * N) / CLIP / np.sqrt(came / SHARES)[:, None]
    found, error = np.square(scaled).mean() / Z**2, 5 * math.sqrt(2 / scaled.size)
    assert abs(found - 1) < error and abs(found * SHARES / N - 1) > error


def wraps(deviations):
    """Of the coordinates of sums of 10 bits, from the uploads and the true sum of their integers."""
    infos = noisy("discrete_gaussian", deviations)(targets(N, WIDE).examples)
    sent = np.asarray(centred(infos.observed.uploads, 10)) * np.asarray(infos.counted)[:, :, None]
    true, found = sent.sum(1), np.asarray(centred(infos.observed.received.value[:, 0], 10))
    assert ((found - true) % 1024 == 0).all() and ((found == true) == ((true >= -512) & (true < 512))).all()
    return (found != true).mean()


def test_sums_wrap_as_seldom_as_the_deviations_say():
    """At the worst case of updates that are all alike k = 4 leaves 6e-5; k = 1/2 is a grid that is too fine."""
    assert wraps(4.0) < 1e-3 and 0.02 < wraps(0.5) < 0.8


def test_the_grid_is_that_of_the_theory():
    of = discrete_gaussian.Sum(1.0, 100, 256, 12)
    grid = discrete_gaussian.calibrated(of, 2.0, DELTA)
    assert grid_step(12, grid.deviation, 2.0, 100, 256) == pytest.approx(grid.step, rel=1e-9)
    fine = discrete_gaussian.calibrated(of._replace(growth="sqrt"), 2.0, DELTA)
    assert grid_step(12, fine.deviation, 2.0, 100, 256, "sqrt") == pytest.approx(fine.step, rel=1e-9)


def test_sums_that_grow_like_a_square_root_have_a_finer_grid():
    """In the system: the step solves `2^B gamma = 2 k sqrt(n / d + (gamma^2 / 4 + sigma^2) n)`, in clipping norms."""
    z, threshold, bits = 0.1, 3, 12
    step = 1 / made(noise_multiplier=z, bits=bits, threshold=threshold, growth="sqrt").release.noise.max_norm
    room = 2 * 4.0 * math.sqrt(N / PADDED + (step**2 / 4 + z**2 / threshold) * N)
    assert 2**bits * step == pytest.approx(room, rel=1e-9)
    assert step < 0.6 / made(noise_multiplier=z, bits=bits, threshold=threshold).release.noise.max_norm


LOST = np.zeros((3, N), bool)
LOST[0, :2], LOST[2, 1] = True, True
RUN = xr.Dataset(
    {
        "client_id": (("round", "client"), np.broadcast_to(np.arange(N), LOST.shape)),
        "counted": (("round", "client"), ~LOST),
        "up_bytes": (("phase", "round", "client"), ~LOST[None] * 64.0),
    },
    {"phase": ["upload"]}, {"num_params": D},
)  # fmt: skip


def by_hand(honest, scale, levels, law="discrete_gaussian", neighbours="replacement"):
    norm = math.sqrt(math.floor(float(discrete_gaussian.norm_bound(levels, PADDED)) ** 2))
    if law == "skellam":
        each = [skellam.rdp((1 + (neighbours == "replacement")) * norm, PADDED, n * scale**2) for n in honest]
    else:
        each = [discrete_gaussian.rdp(norm, PADDED, scale, n, neighbours=neighbours) for n in honest]
    return [skellam.epsilon(sum(e for e, away in zip(each, row, strict=True) if not away), DELTA) for row in LOST.T]


@pytest.mark.parametrize("law", ["discrete_gaussian", "skellam"])
def test_the_ledger_counts_the_honest_shares_of_opened_sums(law):
    """Those who dropped out or collude are no shares; a figure of all n is smaller, and would be wrong."""
    z, bits, threshold = 2.0, 14, 3
    system = made(noise_multiplier=z, bits=bits, noise=law, threshold=threshold)
    levels = 1 / grid_step(bits, z / math.sqrt(threshold), 4.0, N, PADDED)
    scale = levels * z / math.sqrt(threshold)
    server, client, coalition, alone = ledger(system, RUN, DATA, delta=DELTA, colluding=2)
    np.testing.assert_allclose(server.proved.epsilon, by_hand([4, 6, 5], scale, levels, law))
    np.testing.assert_allclose(client.proved.epsilon, by_hand([3, 5, 4], scale, levels, law))
    np.testing.assert_allclose(coalition.proved.epsilon, by_hand([2, 4, 3], scale, levels, law))
    np.testing.assert_allclose(alone.proved.epsilon, by_hand([1, 1, 1], scale, levels, law))
    assert (np.array(by_hand([6, 6, 6], scale, levels, law)) < 0.95 * server.proved.epsilon)[2:].all()
    zeros = max(by_hand([4, 6, 5], scale, levels, law, "zero-out"))
    assert server.adjacent.startswith("replacement") and f"zero-out: eps {zeros:.4g}" in server.note


def test_a_grid_too_coarse_for_the_proof_has_no_figure():
    coarse = ledger(made(noise_multiplier=0.02, bits=8), RUN, DATA, delta=DELTA)
    assert [entry.proved.epsilon for entry in coarse] == [None] and "half a grid point" in coarse[0].proved.why
    fine = ledger(made(noise_multiplier=0.02, bits=8, noise="skellam"), RUN, DATA, delta=DELTA)
    assert fine[0].proved.epsilon is not None


def test_the_rounding_is_that_of_the_release():
    assert made().release.noise.failure == BETA and made().release.noise.bits == 16
    assert made().release.masks.modulus.bits == 16


def test_a_coalition_takes_its_uploads_out_of_the_sum():
    """All but client 0 collude: what is left is its update, in grid points, along the canary's direction."""
    canary = direction_canary(KEY, N, D, 3 * CLIP)
    make = lambda local, observe: summed(local, noise_multiplier=0.0, bits=24, observe=observe)
    left = left_of_field(N - 1, 24)[0]
    seen = lambda seen: left(seen) @ canary.toward(jnp.zeros(D))
    worlds = scores(make, canary, seen, KEY, params=jnp.zeros(D), trials=4, at_once=4)
    for world, sign in zip(worlds, (1, -1), strict=True):
        np.testing.assert_allclose(np.abs(world), FINEST, rtol=1e-3)
        assert (np.sign(world) == sign * np.sign(worlds[0].ravel()[0])).all()


USERS, FEW = 4, 3


def audited(noise_multiplier):
    """A lower bound on eps from directions of 3,000 rounds on each input, and what the ledger proves, at 1e-3."""
    canary = direction_canary(KEY, USERS, FEW, 3 * CLIP)
    how = {"num_clients": USERS, "num_params": FEW, "noise_multiplier": noise_multiplier, "shares": USERS}
    make = lambda local, observe: summed(local, **how, observe=observe)
    seen = lambda seen: adversaries.direction(seen) @ canary.toward(jnp.zeros(FEW))
    worlds = scores(make, canary, seen, KEY, params=jnp.zeros(FEW), trials=3000, at_once=1000)
    run = RUN.isel(client=slice(USERS), round=slice(1, 2)).assign_attrs(num_params=FEW)
    data = ClientData((jnp.zeros((USERS, 1)),), jnp.ones(USERS, jnp.int32))
    said = ledger(made(**how), run, data, delta=1e-3)
    return two_worlds(*worlds, delta=1e-3).epsilon, said[0].proved.epsilon[0]


def test_the_figure_stands_its_audit_and_a_quarter_of_the_noise_does_not():
    found, proved = audited(2.0)
    assert proved / 6 < found < proved
    assert audited(0.5)[0] > proved


test_bad_arguments = refused(
    ({"noise_multiplier": -1.0}, "noise_multiplier must be a finite number >= 0, got -1.0"),
    ({"clip": 0.0}, "clip must be a finite number > 0, got 0.0"),
    ({"bits": 3}, "bits must be at least 4 for sums of 6 clients, got 3"),
    ({"bits": 40}, "bits must be at most 32, the length of a word, got 40"),
    ({"shares": 7}, "shares must be at most the clients of a round, 6, got 7"),
    ({"shares": 0}, "shares must be an integer >= 1, got 0"),
    ({"deviations": 0.0}, "deviations must be a finite number > 0, got 0.0"),
    ({"failure": 0.0}, r"failure must be a number in \(0, 1\), got 0.0"),
    ({"num_clients": 1}, "num_clients must be an integer >= 2, got 1"),
    ({"mean_weight": 0.0}, r"mean_weight must be a number in \(0, 1\], got 0.0"),
    (
        {"secure_sum": plain_ring(12)},
        r"secure_sum must add modulo 2\*\*bits = 65536, such as layers.plain_ring\(16\), got one that adds modulo 4096",
    ),
    ({"secure_sum": plain_field()}, r"secure_sum must add modulo 2\*\*bits = 65536, .* adds modulo 4294967291"),
    ({"secure_sum": wrap(16)}, r"secure_sum must add modulo 2\*\*bits = 65536, .* adds no integers"),
    (
        {"secure_sum": plain_ring(16), "leave": 0.1},
        r"leave must be 0 with a secure_sum in the clear, such as layers.plain_ring\(16\), got 0.1: nobody is asked",
    ),
    ({"secure_sum": plain_ring(16), "threshold": 2}, "threshold must not be given with secure_sum, got 2"),
    by=lambda how: made(**how),
)
