"""A real key agreement: X25519 (RFC 7748) and HKDF-SHA256 (RFC 5869), on the host, called from inside jit.

What a user shares with others is a seed of 256 bits, eight field elements drawn uniformly. Its private key is derived
from the seed, so whoever rebuilds the seed from shares has the key. The seeds of pairs are eight words, keys of
`prg.chacha20`. All functions are deterministic, and compute row by row under `vmap`.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, UInt32

WORDS = 8
MOST_USERS = 1000
"""Of a group: each pair takes two exchanges on the host, of about 50 microseconds each."""
_PRIVATE = b"fedjax_priv x25519 private key"
_PAIR = b"fedjax_priv secagg pair seed"


def check(users: int) -> None:
    """Whether the host can do it.

    Raises:
      ImportError: `cryptography` is not installed.
      ValueError: more than 1,000 users.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519  # noqa: F401
    except ImportError as error:
        raise ImportError("X25519 needs the package cryptography: pip install fedjax-priv[crypto]") from error
    if users > MOST_USERS:
        raise ValueError(
            f"group_size must be at most {MOST_USERS} with key_agreement='x25519', which computes each pair on the "
            f"host, got {users}"
        )


def public_key(secret: UInt32[Array, "*n 8"]) -> UInt32[Array, "*n 8"]:
    """The public key of each user, as words, the lowest byte first."""
    return jax.pure_callback(_public_keys, _words_like(secret), secret, vmap_method="broadcast_all")


def shared_seeds(
    secret: UInt32[Array, "*n 8"],
    public: UInt32[Array, "*n m 8"],
    round: Integer[Array, ""] | int,
    asked: Bool[Array, "*n m"] | None = None,
) -> UInt32[Array, "*n m 8"]:
    """The seeds a user has in common with others: HKDF of the exchanged secret, the round and both public keys.

    Args:
      secret: of the user.
      public: keys of the others.
      round: number of the round.
      asked: which seeds are needed; others are zeros, and cost nothing.
    """
    asked = jnp.ones(public.shape[:-1], bool) if asked is None else asked
    round = jnp.asarray(round).astype(jnp.uint32)
    return jax.pure_callback(
        _pair_seeds, _words_like(public), secret, public, round, asked, vmap_method="broadcast_all"
    )


def _words_like(a: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(a.shape, jnp.uint32)


def _public_keys(secret: Array) -> np.ndarray:
    rows = np.asarray(secret)
    flat = [own_keys(row.tobytes())[1] for row in rows.astype("<u4").reshape(-1, WORDS)]
    return _words(b"".join(flat)).reshape(rows.shape)


def _pair_seeds(secret: Array, public: Array, round: Array, asked: Array) -> np.ndarray:
    """Row by row: the secret, its peers' keys, the round and the peers that are asked for."""
    users, keys = np.asarray(secret, "<u4"), np.asarray(public, "<u4")
    mapped = np.asarray(round)  # its axes are those of `vmap`, the first ones
    rounds = np.broadcast_to(mapped.reshape(*mapped.shape, *(1,) * (users.ndim - 1 - mapped.ndim)), users.shape[:-1])
    seeds = np.zeros(keys.shape, np.uint32)
    for row in itertools.product(*map(range, users.shape[:-1])):
        peers = np.flatnonzero(np.asarray(asked)[row])
        if peers.size:
            private, own = own_keys(users[row].tobytes())
            number = int(rounds[row]).to_bytes(4, "big")
            found = [pair_seed(private, own, keys[row][peer].tobytes(), number) for peer in peers]
            seeds[row][peers] = _words(b"".join(found)).reshape(-1, WORDS)
    return seeds


def _words(text: bytes) -> np.ndarray:
    return np.frombuffer(text, "<u4").astype(np.uint32)


def own_keys(secret: bytes) -> tuple[bytes, bytes]:
    """The private and the public key of a user with a shared secret of 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = _hkdf(secret, _PRIVATE)
    return private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def pair_seed(private: bytes, own: bytes, other: bytes, round: bytes) -> bytes:
    """The seed of a pair, 32 bytes, by the private key of one end: both ends get the same.

    A key of small order, which no honest user has, agrees on zeros with everybody, as RFC 7748 allows: only pairs of
    its owner are known to others.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        exchanged = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        exchanged = bytes(32)
    return _hkdf(exchanged, b"".join((_PAIR, round, *sorted((own, other)))))


def _hkdf(secret: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=32, salt=None, info=info).derive(secret)
