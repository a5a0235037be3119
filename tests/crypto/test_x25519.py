"""X25519 and HKDF against the vectors of RFC 7748 and 5869, and as a part of a traced program."""

import hashlib
import hmac
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import x25519
from fedjax_priv.crypto.agreement import agreement_of
from helpers import Q, same_bits

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")

N = 4
SECRETS = np.random.default_rng(0).integers(0, Q, (N, 8), dtype=np.uint32)


def hkdf_in_python(secret, info):
    """RFC 5869 with SHA-256 and no salt, 32 bytes."""
    extracted = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def test_seed_of_the_published_pair():
    pytest.importorskip("cryptography")
    names = b"".join(sorted((ALICE_PUBLIC, BOB_PUBLIC)))
    round = (7).to_bytes(4, "big")
    expected = hkdf_in_python(SHARED, b"fedjax_priv secagg pair seed" + round + names)
    assert x25519.pair_seed(ALICE, ALICE_PUBLIC, BOB_PUBLIC, round) == expected
    assert x25519.pair_seed(BOB, BOB_PUBLIC, ALICE_PUBLIC, round) == expected


def test_keys_are_derived_from_the_secret_that_is_shared():
    """The curve's equation is checked by the exchange above; here that the private key is HKDF of the words."""
    curve = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.x25519")
    private = hkdf_in_python(SECRETS[0].astype("<u4").tobytes(), b"fedjax_priv x25519 private key")
    public = curve.X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    assert x25519.own_keys(SECRETS[0].astype("<u4").tobytes()) == (private, public)
    assert np.asarray(x25519.public_key(jnp.asarray(SECRETS)))[0].astype("<u4").tobytes() == public


@jax.jit
def all_pairs(secrets, round, asked):
    public = x25519.public_key(secrets)
    return x25519.shared_seeds(secrets, jnp.broadcast_to(public, (N, N, 8)), round, asked)


def test_every_pair_has_a_seed_of_its_own_in_every_round():
    pytest.importorskip("cryptography")
    everybody = np.ones((N, N), bool)
    first, second = (np.asarray(all_pairs(SECRETS, np.int32(t), everybody)) for t in (0, 1))
    assert (first == first.swapaxes(0, 1)).all()
    upper = np.concatenate([seeds[np.triu_indices(N, 1)] for seeds in (first, second)])
    assert np.unique(upper).size == 2 * 6 * 8
    own = x25519.own_keys(SECRETS[1].astype("<u4").tobytes())
    other = x25519.own_keys(SECRETS[2].astype("<u4").tobytes())
    assert second[1, 2].astype("<u4").tobytes() == x25519.pair_seed(*own, other[1], (1).to_bytes(4, "big"))
    some = np.eye(N, k=1, dtype=bool)
    asked = np.asarray(all_pairs(SECRETS, np.int32(0), some))
    assert (asked[some] == first[some]).all() and not asked[~some].any()


def test_runs_side_by_side_are_those_one_by_one():
    """`vmap` over secrets, rounds and who is asked for."""
    pytest.importorskip("cryptography")
    rng = np.random.default_rng(1)
    secrets, rounds = rng.integers(0, Q, (3, N, 8), dtype=np.uint32), np.arange(3, dtype=np.int32)
    asked = rng.random((3, N, N)) < 0.7
    together = jax.jit(jax.vmap(all_pairs))(secrets, rounds, asked)
    for t in range(3):
        assert same_bits(together[t], all_pairs(secrets[t], rounds[t], asked[t]))


def test_any_32_bytes_are_a_public_key():
    """Those of small order agree on zeros, with everybody and whatever the round; a garbled key on something else."""
    pytest.importorskip("cryptography")
    private, own = x25519.own_keys(SECRETS[0].astype("<u4").tobytes())
    zero = bytes(32)
    info = b"fedjax_priv secagg pair seed" + bytes(4) + b"".join(sorted((own, zero)))
    assert x25519.pair_seed(private, own, zero, bytes(4)) == hkdf_in_python(zero, info)
    other = x25519.own_keys(SECRETS[1].astype("<u4").tobytes())[1]
    garbled = bytes([other[0] ^ 1]) + other[1:]
    assert x25519.pair_seed(private, own, garbled, bytes(4)) != x25519.pair_seed(private, own, other, bytes(4))


def test_what_does_not_fit_is_refused_in_one_line(monkeypatch):
    with pytest.raises(ValueError, match="prg must be 'chacha20' with key_agreement='x25519'"):
        agreement_of("x25519", 2, 10)
    pytest.importorskip("cryptography")
    with pytest.raises(ValueError, match="group_size must be at most 1000 with key_agreement='x25519'"):
        agreement_of("x25519", 8, 1001)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(ImportError, match=r"pip install fedjax-priv\[crypto\]"):
        agreement_of("x25519", 8, 10)
