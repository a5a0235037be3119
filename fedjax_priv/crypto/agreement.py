"""How two users come to have a seed in common, as a part of a protocol: `SIMULATED` inside jit, or `X25519`."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from jaxtyping import Array, PyTree

from fedjax_priv._validate import one_of
from fedjax_priv.crypto import key_agreement, x25519
from fedjax_priv.crypto.prg import elements


class KeyAgreement(NamedTuple):
    """Secrets, public keys and seeds of pairs; `w` words each, as many as a seed of the generator has.

    A secret is made of field elements, so Shamir's scheme can share it as it is.
    """

    secret: Callable[..., Array]  # (word [*n, w], spare [*n, w]), random words -> secret [*n, w]
    public_key: Callable[..., Array]  # (secret [*n, w]) -> [*n, w]
    directory: Callable[..., PyTree]  # (public [n, w]) -> what is computed once of all public keys
    shared_seeds: Callable[..., Array]  # (secret [*b, w], directory, peer [*b, m], round, asked [*b, m]) -> [*b, m, w]
    seed_words: tuple[int, ...]  # lengths it has, w


def _simulated_seeds(
    secret: Array, directory: Array, peer: Array, round: Array | int, asked: Array | None = None
) -> Array:
    del round, asked
    return key_agreement.shared_seeds(secret, directory, peer)


def _x25519_seeds(
    secret: Array, directory: Array, peer: Array, round: Array | int, asked: Array | None = None
) -> Array:
    return x25519.shared_seeds(secret, directory[peer], round, asked)


SIMULATED = KeyAgreement(
    key_agreement.exponents, key_agreement.public_key, key_agreement.directory, _simulated_seeds, (2, 8)
)
"""Diffie-Hellman in F_q limb by limb, of no strength: `crypto.key_agreement`."""
X25519 = KeyAgreement(elements, x25519.public_key, lambda public: public, _x25519_seeds, (8,))
"""X25519 and HKDF-SHA256 on the host: `crypto.x25519`."""

AgreementName = Literal["simulated", "x25519"]
_NAMED = {"simulated": SIMULATED, "x25519": X25519}


def agreement_of(key_agreement: AgreementName, seed_words: int, users: int) -> KeyAgreement:
    """A key agreement by its name.

    Args:
      key_agreement: its name.
      seed_words: words of a seed of the generator that masks are made with.
      users: most users in a group.

    Raises:
      ValueError: there is none of this name, it has no seeds of this length, or the group is too large for the host.
      ImportError: X25519 without the package `cryptography`.

    Examples:
      >>> agreement_of("simulated", 2, users=10) is SIMULATED
      True
    """
    one_of(_NAMED, key_agreement=key_agreement)
    found = _NAMED[key_agreement]
    if seed_words not in found.seed_words:
        raise ValueError(
            f"prg must be 'chacha20' with key_agreement='x25519', whose seeds have 256 bits, got one of "
            f"{32 * seed_words} bits"
        )
    if found is X25519:
        x25519.check(users)
    return found
