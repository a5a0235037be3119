"""A real key agreement on the host: X25519 (RFC 7748) and HKDF-SHA256 (RFC 5869).

Its seeds replace those of `key_agreement`; they too are two field elements, 64 bits, the key size of the generators in
`prg`.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt32

from fedjax_priv.crypto.field import Q

_ELEMENT_BYTES = 16  # reduced modulo q: within 2**-96 of uniform


def pair_seeds(private_keys: Sequence[bytes]) -> UInt32[np.ndarray, "n n 2"]:
    """The seeds of all pairs of n users, two field elements each: symmetric, zero on the diagonal.

    Args:
      private_keys: 32 random bytes per user, for one round only.

    Raises:
      ImportError: `cryptography` is not installed.
      ValueError: a key is not 32 bytes long, or not usable.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    except ImportError as error:
        raise ImportError("X25519 needs the package cryptography: pip install fedjax-priv[crypto]") from error
    if any(len(key) != 32 for key in private_keys):
        raise ValueError(f"private_keys must have 32 bytes each, got {sorted({len(key) for key in private_keys})}")
    private = [X25519PrivateKey.from_private_bytes(key) for key in private_keys]
    public = [key.public_key() for key in private]
    seeds = np.zeros((len(private), len(private), 2), np.uint32)
    for i, mine in enumerate(private):
        for j in range(i):
            names = sorted((public[i].public_bytes_raw(), public[j].public_bytes_raw()))
            seeds[i, j] = seeds[j, i] = _derive(mine.exchange(public[j]), b"".join(names))
    return seeds


def _derive(secret: bytes, names: bytes) -> list[int]:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"fedjax_priv pair seed" + names
    stream = HKDF(SHA256(), length=2 * _ELEMENT_BYTES, salt=None, info=info).derive(secret)
    return [int.from_bytes(half) % int(Q) for half in (stream[:_ELEMENT_BYTES], stream[_ELEMENT_BYTES:])]
