"""The sum of the masks of all pairs of clients, alone, compiled for a device that is not there: what a word costs.

python -m experiments.accelerators.masks h200 100 [--prg chacha20] [--bits 20]
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.accelerators.cost import cost
from experiments.accelerators.targets import TARGETS
from fedjax_priv.crypto import prg
from fedjax_priv.crypto.modulus import FIELD, ring
from fedjax_priv.layers.secure_sum.signed_sum import signed_sum

WORDS = 159_010
"""Of a mask, as many as the MLP 784-200-10 has parameters."""


def compiled(target: str, n: int, generator: str = "philox", bits: int | None = None) -> dict[str, float]:
    """Bytes moved and operations for each word of each pair of `n` clients.

    Args:
      target: one of `TARGETS`, with one device.
      n: number of clients.
      generator: "philox" or "chacha20".
      bits: B of the integers modulo 2**B; F_q if not given.
    """
    made: prg.Prg = getattr(prg, generator)
    modulus = FIELD if bits is None else ring(bits)
    where = NamedSharding(Mesh(np.array(TARGETS[target].devices()), ("devices",)), PartitionSpec())
    of = lambda dtype, *more: jax.ShapeDtypeStruct((n, n - 1, *more), dtype, sharding=where)
    sums = lambda seeds, meets, plus: signed_sum(seeds, meets, plus, "mask", 0, WORDS, made, modulus)
    lowered = jax.jit(sums).lower(of(jnp.uint32, made.seed_words), of(jnp.bool_), of(jnp.bool_))
    found, words = cost(lowered.compile().as_text() or ""), n * (n - 1) * WORDS
    return {"bytes": found.bytes / words, "operations": found.operations / words, "kernels": found.kernels}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[name for name in TARGETS if not name.endswith("2x2")])
    parser.add_argument("clients", type=int)
    parser.add_argument("--prg", choices=("philox", "chacha20"), default="philox")
    parser.add_argument("--bits", type=int, help="of integers modulo a power of two; the field if not given")
    given = parser.parse_args()
    print(json.dumps(compiled(given.target, given.clients, given.prg, given.bits)))
