"""Figures of correlated noise, against theory called by hand and mixtures on a grid, and where there is none."""

import itertools

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.ledger import correlated_noise as ledger
from fedjax_priv.server_noise import banded, banded_inverse, buffered, tree
from fedjax_priv.systems.releases import CentralNoise, Participation
from fedjax_priv.theory import correlated_noise as cn
from fedjax_priv.theory import gaussian

N, DELTA = 1024, 1e-5
APART = Participation("separated", 10 / 2560, 128)


def release(noise, who=APART, z=6.0):
    return CentralNoise(z, 1.0, who, 2560, secure=False, correlation=noise.correlation)


def eps(noise, who=APART, neighbours="zero-out", rounds=N, hidden=False, z=6.0):
    found = ledger.figure(release(noise, who, z), rounds, DELTA, neighbours, hidden=hidden)
    return found.epsilon if found.epsilon is not None else found.why


SENSITIVITIES = {
    "BSR 32": (banded(cn.square_root(32)), 4.16363),
    "square root": (banded(cn.square_root(N)), 7.57609),
    "BISR 8": (banded_inverse(cn.inverse_square_root(8)), 3.87346),
    "tree": (tree(N), 176**0.5),
    "trees of an epoch": (tree(128), 8 * 8**0.5 / 8**0.5),
    "BandMF": (banded(cn.optimal_banded(N, 128)), 8**0.5),
}


@pytest.mark.parametrize("name", SENSITIVITIES)
def test_a_separated_run_is_one_gaussian_mechanism(name):
    noise, sensitivity = SENSITIVITIES[name]
    for neighbours, times in (("zero-out", 1), ("replacement", 2)):
        expected = gaussian.epsilon(DELTA, times * sensitivity / 6.0)
        assert eps(noise, neighbours=neighbours) == pytest.approx(expected, rel=1e-5)
    once = gaussian.epsilon(DELTA, ledger.sensitivity(noise.correlation, cn.Schedule(N, N)) / 6.0)
    assert eps(noise) > 1.5 * once  # control: the sensitivity of one participation, where there are eight


def test_buffers_and_failed_rounds():
    """Attempts count: a run of one more round has its figure, whether or not the round failed."""
    noise = buffered([0.3, 0.2], [0.95, 0.5])
    column = cn.buffered_column([0.3, 0.2], [0.95, 0.5], N)
    moved = [cn.toeplitz_sensitivity(column, cn.Schedule(n, 128)) for n in (N, N + 1)]
    found = [eps(noise, rounds=n) for n in (N, N + 1)]
    np.testing.assert_allclose(found, gaussian.epsilon(DELTA, np.array(moved) / 6.0))
    assert found[1] > found[0]


def test_everyone_takes_part_in_every_round():
    """The prefix sums of C's column: identity at n rounds has sqrt(n)."""
    everyone = Participation("everyone")
    assert eps(banded([1.0]), everyone, "add/remove", rounds=9) == pytest.approx(gaussian.epsilon(DELTA, 3 / 6))
    summed = np.linalg.norm(np.cumsum(cn.square_root(9)))
    assert eps(banded(cn.square_root(9)), everyone, rounds=9) == pytest.approx(gaussian.epsilon(DELTA, summed / 6))


CYCLIC = Participation("cyclic_poisson", 0.1, 10)


def test_coins_amplify_for_those_who_do_not_see_them():
    noise = banded(cn.optimal_banded(1000, 10))
    cyclic = lambda **how: eps(noise, CYCLIC, rounds=1000, z=1.0, **how)
    assert cyclic(neighbours="add/remove", hidden=True) == pytest.approx(7.0466, abs=2e-3)
    assert cyclic(hidden=True) == cyclic(neighbours="add/remove", hidden=True)
    assert cyclic() == cyclic(neighbours="add/remove") == pytest.approx(91.817, abs=6e-4)
    assert cyclic(neighbours="replacement") == pytest.approx(gaussian.epsilon(DELTA, 20.0))
    capped = CYCLIC._replace(capacity=60)
    assert eps(noise, capped, "add/remove", rounds=1000, z=1.0, hidden=True) == pytest.approx(7.0466, abs=2e-3)
    wider = banded(cn.square_root(11))  # more bands than groups: no amplification is proved
    assert eps(wider, CYCLIC, rounds=1000, hidden=True) == eps(wider, CYCLIC, rounds=1000)


def attained(eps, column, z, rate, other):
    """delta at eps, in the worse order, of the seeds of four rounds, of which a client has the coins of 0 and 2.

    Its update is 1 in one input and `other` in the second. Densities are over the plane of its two columns.
    """
    matrix = np.array([[column[t - s] if 0 <= t - s < len(column) else 0 for s in range(4)] for t in range(4)]) / z
    moved = np.linalg.qr(matrix[:, [0, 2]]).R
    line = np.linspace(-10, 10, 801)
    points = np.stack(np.meshgrid(line, line), axis=-1)

    def law(update):
        shifts = ((np.array(coins), moved @ coins * update) for coins in itertools.product((0, 1), repeat=2))
        chance = lambda coins: np.prod(np.where(coins, rate, 1 - rate))
        return sum(chance(coins) * np.exp(-((points - by) ** 2).sum(-1) / 2) / (2 * np.pi) for coins, by in shifts)

    one, two = law(1), law(other)
    over = lambda first, second: np.maximum(first - np.exp(eps) * second, 0).sum() * (line[1] - line[0]) ** 2
    return max(over(one, two), over(two, one))


@pytest.mark.parametrize(("neighbours", "other"), [("add/remove", 0), ("zero-out", 0), ("replacement", -1)])
@pytest.mark.parametrize(("column", "rate"), [((1.0, -0.4), 0.3), ((1.0, 0.7), 0.6)])
def test_coins_of_two_turns_attain_their_figure(column, rate, neighbours, other):
    found = eps(banded(column), Participation("cyclic_poisson", rate, 2), neighbours, rounds=4, z=1.2, hidden=True)
    assert attained(found, column, 1.2, rate, other) == pytest.approx(DELTA, rel=2e-3)


def test_no_theorem_no_number():
    noise = banded(cn.square_root(4))
    for sampling in ("poisson", "fixed_size", "everyone"):
        why = eps(noise, Participation(sampling, 0.1, 4))
        assert why == f"{sampling} sampling does not keep two rounds of a client 4 apart"
    assert "no noise" in eps(noise, z=0.0)
    assert "zero-out" in eps(noise, neighbours="add/remove")
    assert "zero-out" in eps(noise, CYCLIC._replace(capacity=20), "add/remove")
    assert "nothing is known" in eps(noise._replace(correlation="Gaussian process"))


def test_a_matrix_that_grows_beyond_float64_has_no_figure():
    """C^-1 = I - 3 S has C = sum of (3 S)^k; after 20 rounds its figure is large and right."""
    unstable, once = banded_inverse([1.0, -3.0]), Participation("separated", 0.1, 700)
    assert eps(unstable, once, rounds=20) == gaussian.epsilon(DELTA, np.sqrt((9.0**20 - 1) / 8) / 6)
    for rounds in (320, 700):  # the sum of squares overflows, or a coefficient
        assert eps(unstable, once, rounds=rounds) == (
            f"the sensitivity of {rounds} rounds is beyond float64: the inverse given is unstable"
        )


test_bad_correlations = refused(
    (lambda: ledger.sensitivity(None, cn.Schedule(3)), "correlation must be a type of server_noise.correlations"),
)
