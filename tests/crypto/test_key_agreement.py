import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from fedjax_priv.crypto import key_agreement

Q = 2**32 - 5
N = 300

secrets = jax.vmap(key_agreement.secret_key)(jax.random.split(jax.random.key(0), N))
publics = jax.jit(jax.vmap(key_agreement.public_key))(secrets)
all_pairs = jax.jit(jax.vmap(jax.vmap(key_agreement.shared_seed, (None, 0)), (0, None)))


def p_value(words):
    return stats.chisquare(np.bincount(np.asarray(words).ravel() % 16, minlength=16)).pvalue


def test_secrets_are_exponents_and_field_elements():
    assert secrets.shape == (N, 2)
    limbs = np.asarray(secrets)
    assert ((limbs >= 1) & (limbs <= Q - 2)).all()
    assert np.unique(limbs).size == 2 * N
    assert p_value(secrets) > 1e-3


def test_public_keys_are_powers_of_two():
    expected = [[pow(2, int(limb), Q) for limb in row] for row in np.asarray(secrets)]
    assert np.asarray(publics).tolist() == expected


def test_both_sides_agree_and_no_two_pairs_do():
    seeds = np.asarray(all_pairs(secrets, publics))
    assert (seeds == seeds.swapaxes(0, 1)).all()
    assert (seeds < Q).all()
    pairs = seeds[np.triu_indices(N, 1)]
    assert np.unique(pairs, axis=0).shape == pairs.shape


def test_seeds_are_uniform_and_what_is_agreed_on_is_not():
    upper = np.triu_indices(N, 1)
    seeds = np.asarray(all_pairs(secrets, publics))[upper]
    assert p_value(seeds) > 1e-3
    exponents = np.asarray(secrets).astype(object)
    agreed = (exponents[upper[0]] * exponents[upper[1]] % (Q - 1)).astype(np.uint32)
    assert p_value(agreed) < 1e-9


def test_another_public_key_gives_another_seed():
    mine = key_agreement.shared_seed(secrets[0], publics[1])
    assert (mine != key_agreement.shared_seed(secrets[0], publics[2])).all()
    assert (mine != key_agreement.shared_seed(secrets[0], jnp.roll(publics[1], 1))).all()
