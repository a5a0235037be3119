"""Cryptographic building blocks; nothing here knows about clients and rounds.

- `field`: arithmetic modulo q = 2**32 - 5.
- `modulus`: where uploads are added: the field, or the integers modulo a power of two.
- `matrix`, `lagrange`: products of matrices over the field, and polynomials through points of it.
- `lattice`: masks linear in a secret, up to small errors.
- `block_stream`: words in blocks from a counter, and their order.
- `philox_stream`, `chacha20_stream`: Philox, and ChaCha20 of RFC 8439.
- `prg`: pseudorandom words and field elements from a seed.
- `normal_draws`: Gaussian noise with a long tail, for privacy.
- `agreement`: how two users come to have a seed in common. `key_agreement`: by Diffie-Hellman inside jit,
  simulation-grade; `x25519`: by a real one, on the host.
- `shamir`: secret sharing.
- `sketch`: random projections from a public seed.
- `digest`: what a client hashes of the model it was given.
"""
