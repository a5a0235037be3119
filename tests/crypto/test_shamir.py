import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedjax_priv.crypto import field, prg, shamir
from helpers import refuses

Q = 2**32 - 5
SEED = jnp.array([20, 26], jnp.uint32)
N, THRESHOLD = 9, 5

SECRETS = jnp.array([0, 1, Q - 1, 2**31, 2**16, 12345], jnp.uint32)
POINTS = shamir.points(N)
deal = jax.jit(shamir.share, static_argnames=("threshold", "num_shares"))
lagrange_weights = jax.jit(shamir.lagrange_weights)
reconstruct = jax.jit(shamir.reconstruct)


def share(seed, secrets, **terms):
    """Of one owner."""
    return deal(seed[None], secrets[None], **terms)[0]


SHARES = share(SEED, SECRETS, threshold=THRESHOLD, num_shares=N)


def weights_of(chosen, group=None, points=POINTS):
    return lagrange_weights(jnp.asarray(points, jnp.uint32), chosen, group)


def interpolate(points, values, at, q=Q):
    """Lagrange's formula in Python integers: the value at `at` of the polynomial through the points."""
    total = 0
    points = [int(x) for x in points]
    for i, x in enumerate(points):
        others = [z for j, z in enumerate(points) if j != i]
        above = np.prod([(at - z) % q for z in others], dtype=object)
        below = np.prod([(x - z) % q for z in others], dtype=object)
        total += int(values[i]) * int(above) * pow(int(below), -1, q)
    return total % q


def chosen_mask(subset, n=N):
    return np.isin(np.arange(n), sorted(subset))


@given(st.sets(st.integers(0, N - 1), min_size=THRESHOLD))
def test_enough_shares_reconstruct_and_others_are_not_read(subset):
    chosen = chosen_mask(subset)
    garbled = np.where(chosen[:, None], SHARES, np.uint32(77))
    assert (reconstruct(garbled, weights_of(chosen)) == SECRETS).all()
    held = sorted(subset)
    assert interpolate(POINTS[held], np.asarray(SHARES)[held, 2], 0) == Q - 1


@given(st.sets(st.integers(0, N - 1), min_size=1, max_size=THRESHOLD - 1))
def test_too_few_shares_reconstruct_nothing_of_use(subset):
    assert (reconstruct(SHARES, weights_of(chosen_mask(subset))) != SECRETS).all()


@given(st.sets(st.integers(0, N - 1), min_size=1))
def test_weights_are_lagranges(subset):
    weights = np.asarray(weights_of(chosen_mask(subset)))
    held = sorted(subset)
    unit = np.eye(len(held), dtype=int)
    assert weights[held].tolist() == [interpolate(POINTS[held], row, 0) for row in unit]
    assert not np.delete(weights, held).any()


def consistent_secrets(points, values, degree, q):
    """How many polynomials of a degree over F_q pass through the shares, by secret; tries all of them."""
    counts = np.zeros(q, int)
    for coefficients in itertools.product(range(q), repeat=degree + 1):
        passes = all(
            sum(c * x**k for k, c in enumerate(coefficients)) % q == y for x, y in zip(points, values, strict=True)
        )
        counts[coefficients[0]] += passes
    return counts


def test_one_share_too_few_leaves_every_secret_equally_likely():
    q, threshold = 7, 3
    polynomial = [4, 2, 6]
    shares = {x: sum(c * x**k for k, c in enumerate(polynomial)) % q for x in range(1, q)}
    for points in itertools.combinations(shares, threshold - 1):
        values = [shares[x] for x in points]
        assert (consistent_secrets(points, values, threshold - 1, q) == 1).all()
        lower = consistent_secrets(points, values, threshold - 2, q)  # control: of a lower degree, one secret remains
        assert lower.sum() == lower.max() == 1


@pytest.mark.parametrize("candidate", [0, 1, 2**31, Q - 1])
def test_any_secret_is_consistent_with_one_share_too_few(candidate):
    """The polynomial through (0, candidate) and the shares predicts one more share; with it we reconstruct the
    candidate.
    """
    held = [0, 2, 3, 7]
    assert len(held) == THRESHOLD - 1
    chosen = chosen_mask([*held, 5])
    mine = np.asarray(SHARES)[:, 1]
    forged = interpolate([0, *POINTS[held]], [candidate, *mine[held]], int(POINTS[5]))
    shares = np.where(POINTS[5] == POINTS, np.uint32(forged), mine)
    assert int(reconstruct(shares[:, None], weights_of(chosen))[0]) == candidate


def test_shares_lie_on_a_polynomial_of_full_degree():
    """At one degree less, `threshold - 1` shares would predict the next, as the control shows."""

    def predicted(shares, using):
        return interpolate(POINTS[:using], shares[:using], int(POINTS[using])) == shares[using]

    for secret in range(SECRETS.size):
        shares = np.asarray(SHARES)[:, secret].astype(object)
        assert predicted(shares, THRESHOLD)
        assert not predicted(shares, THRESHOLD - 1)
    too_low = share(SEED, SECRETS, threshold=THRESHOLD - 1, num_shares=N)
    assert predicted(np.asarray(too_low)[:, 0].astype(object), THRESHOLD - 1)


def test_a_share_is_spread_over_the_field_whatever_the_secret():
    secrets = jnp.concatenate([jnp.zeros(4000, jnp.uint32), jnp.full(4000, Q - 1, jnp.uint32)])
    shares = np.asarray(share(SEED, secrets, threshold=3, num_shares=3)).reshape(3, 2, 4000)
    means = (shares / Q).mean(-1)
    assert (abs(means - 0.5) < 5 / np.sqrt(12 * 4000)).all()
    assert np.unique(shares).size > 0.999 * shares.size


def test_coefficients_come_from_the_key():
    again, other = (share(seed, SECRETS, threshold=THRESHOLD, num_shares=N) for seed in (SEED, SEED + 1))
    assert (again == SHARES).all()
    assert (other != SHARES).all()


@pytest.mark.parametrize(("threshold", "n"), [(1, 1), (1, 3), (2, 2), (1, 9), (9, 9)])
def test_extreme_thresholds(threshold, n):
    shares = share(SEED, SECRETS, threshold=threshold, num_shares=n)
    chosen = shamir.first(threshold, jnp.ones(n, bool))
    assert (reconstruct(shares, weights_of(chosen, points=shamir.points(n))) == SECRETS).all()
    assert threshold > 1 or (shares == SECRETS[None, :]).all()


def test_hundreds_of_holders():
    n, threshold, points = 300, 151, shamir.points(300)
    secrets = field.canonical(jax.random.bits(jax.random.key(2), (n,), jnp.uint32))
    shares = share(SEED, secrets, threshold=threshold, num_shares=n)
    available = jax.random.bernoulli(jax.random.key(3), 0.7, (n,))
    assert (reconstruct(shares, weights_of(shamir.first(threshold, available), points=points)) == secrets).all()
    one_less = weights_of(shamir.first(threshold - 1, available), points=points)
    assert (reconstruct(shares, one_less) != secrets).all()


def test_groups_reconstruct_on_their_own():
    """Holders of two groups together; points may repeat in another group."""
    group = jnp.array([0, 1, 0, 1, 0, 1, 0, 0, 1], jnp.int32)
    place = np.array([0, 0, 1, 1, 2, 2, 3, 4, 3])
    secrets = field.canonical(jax.random.bits(jax.random.key(4), (2, 3), jnp.uint32))
    shares = deal(jnp.stack([SEED, SEED + 1]), secrets, threshold=3, num_shares=5)[group, place]
    chosen = shamir.first(3, jnp.array([1, 1, 0, 1, 1, 0, 1, 1, 1], bool), group)
    assert chosen.tolist() == [True, True, False, True, True, False, True, False, True]
    weights = weights_of(chosen, group, shamir.points(5)[place])
    for g in (0, 1):
        mine = np.where(np.asarray(group == g)[:, None], shares, np.uint32(0))
        assert (reconstruct(mine, weights) == secrets[g]).all()


def test_first_takes_all_where_there_are_too_few():
    available = jnp.array([0, 1, 1, 0, 1], bool)
    for group in (None, jnp.zeros(5, jnp.int32)):
        assert shamir.first(2, available, group).tolist() == [False, True, True, False, False]
        assert shamir.first(4, available, group).tolist() == available.tolist()


test_bad_arguments = refuses(
    lambda threshold, num_shares: share(SEED, SECRETS, threshold=threshold, num_shares=num_shares),
    (0, N, "threshold must be an integer >= 1, got 0"),
    (10, N, "threshold must be at most num_shares = 9, got 10"),
    (1, 0, "num_shares must be an integer >= 1, got 0"),
    (1, Q, "num_shares must be below q = 4294967291, got 4294967291"),
)


def test_points_are_distinct_and_not_zero_and_do_not_depend_on_their_number():
    """Two cosets of a subgroup are disjoint; a point that two holders share would give one of them nothing."""
    points = shamir.points(2000).astype(object)
    assert len(set(points)) == 2000 and min(points) == 1 and max(points) < Q
    assert (shamir.points(50) == points[:50]).all()
    subgroup = points[: shamir.ORDER]
    assert {pow(int(x), shamir.ORDER, Q) for x in subgroup} == {1}
    assert all(set(points[38 * i : 38 * i + 38]) == set(2**i * subgroup % Q) for i in range(52))


@pytest.mark.parametrize(("num_shares", "threshold"), [(12, 7), (90, 76), (90, 77), (200, 150), (77, 77)])
def test_values_of_polynomials_are_horners_in_python_integers(num_shares, threshold):
    """Two owners of three secrets, on one product of matrices and on two; coefficients that are not the secret are
    the generator's words, secret by secret.
    """
    seeds, secrets = jnp.stack([SEED, SEED + 1]), SECRETS.reshape(2, 3)
    shares = np.asarray(deal(seeds, secrets, threshold=threshold, num_shares=num_shares)).astype(object)
    points = shamir.points(num_shares).astype(object)
    for owner in range(2):
        words = prg.expand(seeds[owner], "shamir", 0, 3 * (threshold - 1))
        for secret, others in enumerate(np.asarray(words).astype(object).reshape(3, threshold - 1)):
            value = np.zeros(num_shares, object)
            for coefficient in [*others[::-1], int(secrets[owner, secret])]:
                value = (value * points + coefficient) % Q
            assert (shares[owner, :, secret] == value).all()


def test_the_last_of_many_holders_reconstruct_and_one_fewer_do_not():
    shares = share(SEED, SECRETS, threshold=600, num_shares=700)
    for fewer in (0, 1):
        secrets = reconstruct(shares, weights_of(jnp.arange(700) >= 100 + fewer, points=shamir.points(700)))
        assert ((secrets == SECRETS) == (not fewer)).all()
