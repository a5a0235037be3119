"""SparseSecAgg (Algorithm 1): masks on a random few coordinates of each pair, and uploads of no others."""

from typing import Any, Literal

from jax.core import Tracer
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Layer
from fedjax_priv.crypto.agreement import AgreementName
from fedjax_priv.crypto.prg import GeneratorName, Prg, generator
from fedjax_priv.layers.secure_sum import sharing
from fedjax_priv.layers.secure_sum.expansion import dense, skip
from fedjax_priv.layers.secure_sum.masked_sum import Protocol, masked_sum


def sparse_masks(num_groups: int = 1, **protocol: Any) -> Layer:
    """The innermost layer of SparseSecAgg: exact sums in F_q of what each client selects of its upload `[b, d]`.

    A pair of peers selects each coordinate with probability a = alpha / peers (eq. 13), a client what any of its pairs
    selects, p = 1 - (1 - a)**peers of all (eqs. 14, 19). On the wire are the selected field elements and a bitmap of d
    bits. The server gets `sum_{i in S} 1[l in U_i] x_i(l)`: scale updates by 1 / p.

    Args:
      num_groups: groups; each has its own secure sum. All should hold `group_size` clients, since a is the same.
      **protocol: arguments of `sparse_protocol`.

    The server can separate much of what it sums: see `leakage`. What `secagg_protocol` does not run is not run here.

    Raises:
      ValueError: as `sparse_protocol`.

    Examples:
      >>> masks = sparse_masks(alpha=0.1, group_size=10)
      >>> send = stack(scale=scale(1 / 0.0956), quantize=quantize(2**16, 10), masks=masks)  # p = 1 - (1 - 0.1 / 9)**9
    """
    return masked_sum(sparse_protocol(num_groups, **protocol), num_groups)


def sparse_protocol(
    num_groups: int = 1,
    *,
    alpha: float | Array,
    group_size: int,
    neighbours: int | Literal["all"] = "all",
    threshold: int | None = None,
    expand: Literal["skip", "dense"] = "skip",
    elide: bool = False,
    key_agreement: AgreementName = "simulated",
    prg: GeneratorName | Prg = "philox",
) -> Protocol:
    """How `sparse_masks` masks uploads; `leakage` takes it too.

    Args:
      num_groups: as in `sparse_masks`.
      alpha: in (0, 1]. The fraction p that a client sends is below alpha, and close to it if alpha is small. May be
        traced if `expand` is "dense"; one out of range then sets `CAP_OVERFLOW`.
      group_size: as in `secagg_protocol`.
      neighbours: an even number k of peers that each client masks with and gives shares to; a pair then selects a
        coordinate with probability alpha / k. "all" is the complete graph.
      threshold: number of shares that reconstruct a secret; more than half of its holders if not given.
      expand: "skip" draws the gaps between the ones of a pair, O(alpha d + peers) a client; "dense" compares a word at
        every coordinate, O(peers d), the reference. The distribution is the same, the draws are not. More ones than
        "skip" has room for set `CAP_OVERFLOW`; this has a probability below 1e-12 a round.
      elide: draw the coordinates, but expand no masks. The aggregate has the same bits, but uploads are in the clear;
        reports say so.
      key_agreement: how pairs agree on seeds; "simulated" has the messages and no strength, "x25519" is X25519 and
        HKDF-SHA256 on the host, for groups of up to 1,000, and needs the package `cryptography` and `prg="chacha20"`.
      prg: generator of the masks, which sets the length of all seeds, keys and shares: 64 bits for "philox" and
        "threefry", 256 for "chacha20" (RFC 8439). In Python another `crypto.prg.Prg`, too.

    Raises:
      ImportError: "x25519" without the package `cryptography`.
      ValueError: no group, or as `secagg_protocol`; alpha outside (0, 1], or traced with `expand="skip"`, whose shapes
        depend on it.

    Examples:
      >>> protocol = sparse_protocol(alpha=0.1, group_size=10)
    """
    _validate.integer(num_groups=num_groups)
    _validate.one_of(("skip", "dense"), expand=expand)
    _validate.one_of((True, False), elide=elide)
    alpha = _validate.fraction(above_zero=True, alpha=alpha)
    prg = generator(prg)
    quorum = sharing.quorum_of(group_size, neighbours, threshold, key_agreement=key_agreement, words=prg.seed_words)
    peers = quorum.holders - 1
    if expand == "dense":
        how = dense(alpha / peers, prg, elide=elide)
    else:
        how = skip(_known(alpha) / peers, num_groups * group_size * peers // 2, prg, elide=elide)
    return Protocol(quorum=quorum, expansion=how, prg=prg, elide=elide)


def _known(alpha: float | Array) -> float:
    if isinstance(alpha, Tracer):
        raise ValueError("alpha must be a number known before the program is compiled, or expand='dense', got a tracer")
    return float(alpha)
