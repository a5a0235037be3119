"""One enrolment for all rounds: clients agree on keys once, and derive the keys of each round from them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree, UInt32

from fedjax_priv.base import Key
from fedjax_priv.crypto.agreement import KeyAgreement
from fedjax_priv.crypto.prg import Prg, expand
from fedjax_priv.keys import named, per_client


class Enrolment(NamedTuple):
    """What a client keeps from its enrolment on; everybody knows the public half."""

    secret: UInt32[Array, "n s"]
    public: UInt32[Array, "n s"]


def enrol(agreement: KeyAgreement, prg: Prg, key: Key, n: int) -> Enrolment:
    """The keys of n clients, from seeds as long as those of `prg`."""
    own = lambda key: agreement.secret(*jax.random.bits(key, (2, prg.seed_words), jnp.uint32))
    secret = per_client(own, named(key, "enrolment"), jnp.arange(n))
    return Enrolment(secret, agreement.public_key(secret))


def round_keys(
    agreement: KeyAgreement,
    prg: Prg,
    secret: UInt32[Array, "b s"],
    directory: PyTree,
    peer: Int[Array, "b m"],
    round: Int[Array, ""],
) -> UInt32[Array, "b m s"]:
    """What each client shares with each of its peers in a round, by a pseudorandom function of what they agreed on.

    Args:
      agreement: of the enrolment.
      prg: whose words the keys are.
      secret: of the clients.
      directory: of all public keys, as the agreement has it.
      peer: places in the directory.
      round: number of the round.
    """
    agreed_on = agreement.shared_seeds(secret, directory, peer, 0)
    seeds = jnp.moveaxis(jax.lax.optimization_barrier(agreed_on), 2, 0)
    return jnp.moveaxis(expand(seeds, "round key", round, len(seeds), prg), 0, 2)
