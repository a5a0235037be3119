import hashlib
import hmac
import sys

import numpy as np
import pytest

from fedjax_priv.crypto import x25519

Q = 2**32 - 5

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


def hkdf_in_python(secret, info):
    """RFC 5869 with SHA-256 and no salt, 32 bytes."""
    extracted = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def test_seed_of_the_published_pair():
    pytest.importorskip("cryptography")
    names = b"".join(sorted((ALICE_PUBLIC, BOB_PUBLIC)))
    stream = hkdf_in_python(SHARED, b"fedjax_priv pair seed" + names)
    expected = [int.from_bytes(stream[:16]) % Q, int.from_bytes(stream[16:]) % Q]
    seeds = x25519.pair_seeds([ALICE, BOB])
    assert seeds[0, 1].tolist() == seeds[1, 0].tolist() == expected
    assert not seeds[[0, 1], [0, 1]].any()


def test_every_pair_has_its_own_seed_whoever_else_is_there():
    pytest.importorskip("cryptography")
    keys = [hashlib.sha256(bytes([i])).digest() for i in range(6)]
    seeds = x25519.pair_seeds(keys)
    assert (seeds == seeds.swapaxes(0, 1)).all()
    assert (seeds < Q).all()
    assert np.unique(seeds[np.triu_indices(6, 1)]).size == 2 * 15
    assert (x25519.pair_seeds(keys[:3]) == seeds[:3, :3]).all()


def test_a_short_key_is_refused():
    pytest.importorskip("cryptography")
    with pytest.raises(ValueError, match="private_keys must have 32 bytes each, got"):
        x25519.pair_seeds([ALICE, BOB[:31]])


def test_without_cryptography_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.x25519", None)
    with pytest.raises(ImportError, match=r"pip install fedjax-priv\[crypto\]"):
        x25519.pair_seeds([ALICE, BOB])
