import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from fedjax_priv.crypto import key_agreement, prg
from helpers import uniform

Q = 2**32 - 5
N = 300

secrets = jax.vmap(key_agreement.secret_key)(jax.random.split(jax.random.key(0), N))
publics = jax.jit(jax.vmap(key_agreement.public_key))(secrets)


@jax.jit
def all_pairs(secrets, publics):
    peer = jnp.broadcast_to(jnp.arange(len(publics)), (len(secrets), len(publics)))
    return key_agreement.shared_seeds(secrets, key_agreement.directory(publics), peer)


def p_value(words):
    return stats.chisquare(np.bincount(np.asarray(words).ravel() % 16, minlength=16)).pvalue


def test_secrets_are_exponents_and_field_elements():
    assert secrets.shape == (N, 2)
    limbs = np.asarray(secrets)
    assert ((limbs >= 1) & (limbs <= Q - 2)).all()
    assert np.unique(limbs).size == 2 * N
    assert p_value(secrets) > 1e-3
    assert uniform(limbs.ravel(), bits=4), "an exponent is as long as the field"


def test_public_keys_are_powers_of_two():
    expected = [[pow(2, int(limb), Q) for limb in row] for row in np.asarray(secrets)]
    assert np.asarray(publics).tolist() == expected


def test_both_sides_agree_and_no_two_pairs_do():
    seeds = np.asarray(all_pairs(secrets, publics))
    assert (seeds == seeds.swapaxes(0, 1)).all()
    assert (seeds < Q).all()
    pairs = seeds[np.triu_indices(N, 1)]
    assert np.unique(pairs, axis=0).shape == pairs.shape


def squares(elements):
    """The fraction that are squares modulo q, by Euler's criterion."""
    return np.mean([pow(int(element), (Q - 1) // 2, Q) == 1 for element in elements])


def test_half_of_the_seeds_are_squares_and_more_of_what_is_agreed_on():
    first, second = np.triu_indices(60, 1)
    seeds = np.asarray(all_pairs(secrets[:60], publics[:60]))[first, second].ravel()
    exponents = np.asarray(secrets).astype(object)
    agreed = [pow(2, int(e), Q) for e in (exponents[first] * exponents[second]).ravel()]
    assert abs(squares(seeds) - 1 / 2) < 5 / np.sqrt(4 * seeds.size)
    assert squares(agreed) > 2 / 3  # control: 2 ** (a b) is a square unless a and b are odd


def test_another_public_key_gives_another_seed():
    mine = all_pairs(secrets[:1], publics[1:2])
    assert (mine != all_pairs(secrets[:1], publics[2:3])).all()
    assert (mine != all_pairs(secrets[:1], jnp.roll(publics[1:2], 1, axis=1))).all()


def test_what_is_agreed_on_is_a_power_of_the_public_key():
    """Against Python integers, with the smallest and the largest exponents; `peer` chooses the key."""
    some = jnp.array([[1, Q - 2], [2**31, 15], [16, 2**32 - 6]], jnp.uint32)
    peer = jnp.array([[4, 0], [7, 7], [1, 299]])
    seeds = key_agreement.shared_seeds(some, key_agreement.directory(publics), peer)
    agreed = [
        [[pow(int(publics[j, limb]), int(own[limb]), Q) for limb in (0, 1)] for j in row]
        for own, row in zip(some, peer, strict=True)
    ]
    for own, row in zip(seeds, np.array(agreed, np.uint32), strict=True):
        assert np.array_equal(own, jax.vmap(lambda words: prg.expand(words, "pair seed", 0, 2))(row))
