"""Cryptographic building blocks; nothing here knows about clients and rounds.

- `field`: arithmetic modulo q = 2**32 - 5.
- `philox_stream`: Philox, and the order of its words.
- `prg`: pseudorandom words and field elements from a seed.
- `key_agreement`: Diffie-Hellman inside jit, simulation-grade.
- `x25519`: a real key agreement, on the host.
- `shamir`: secret sharing.
"""
