"""SecAgg (Bonawitz et al., CCS 2017) and SecAgg+ (Bell et al., CCS 2020): masks on every coordinate."""

from typing import Any, Literal

from jax.sharding import Mesh

from fedjax_priv import _validate
from fedjax_priv.base import Layer
from fedjax_priv.crypto.prg import Prg, philox
from fedjax_priv.layers.secure_sum import sharing
from fedjax_priv.layers.secure_sum.expansion import whole
from fedjax_priv.layers.secure_sum.masked_sum import Protocol, masked_sum


def pairwise_masks(num_groups: int = 1, **protocol: Any) -> Layer:
    """The innermost layer of SecAgg: exact sums of uploads `[b, d]` in F_q by group, masked on every coordinate.

    Args:
      num_groups: groups, each with a secure sum of its own.
      **protocol: arguments of `secagg_protocol`.

    Raises:
      ValueError: no group, or as `secagg_protocol`.
    """
    _validate.integer(num_groups=num_groups)
    return masked_sum(secagg_protocol(**protocol), num_groups)


def secagg_protocol(
    *,
    group_size: int,
    neighbours: int | Literal["all"] = "all",
    threshold: int | None = None,
    elide: bool = False,
    prg: Prg = philox,
    block: int = 8,
    mesh: Mesh | None = None,
) -> Protocol:
    """How `pairwise_masks` masks uploads, for its layer and for who attacks it.

    Args:
      group_size: most clients in a group, at least 2 (alone, a client's sum is its update). A larger group sets
        `CAP_OVERFLOW`.
      neighbours: an even number k of peers each user masks and shares with, drawn at random each round (SecAgg+: the k
        nearest on a random circle); "all" is the complete graph. `theory.secagg_plus` has the probability that a graph
        fails.
      threshold: shares that reconstruct a secret; fewer reveal nothing, and a group is lost if a secret it needs has
        fewer holders left. floor(holders / 2) + 1 if not given, of group_size or k + 1 holders.
      elide: expand no mask where only the aggregate is wanted: the same aggregate, bit for bit, of uploads in the
        clear. Reports say so.
      prg: generator of the masks.
      block: users whose masks the server takes out at once.
      mesh: devices the server spreads this work over.

    A Diffie-Hellman agreement in F_q and 64-bit seeds are simulation-grade: the protocol is run, not its strength. The
    encryption under which shares pass through the server, and its second key pair, are neither run nor counted in bits.

    Raises:
      ValueError: a size below its minimum, neighbours that are no even number below `group_size`, or a threshold
        outside [2, holders].
    """
    terms = sharing.terms(group_size, neighbours, threshold, block=block, mesh=mesh)
    return Protocol(terms, whole(prg, elide=elide), prg, elide)
