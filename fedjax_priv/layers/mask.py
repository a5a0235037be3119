"""SecAgg (Bonawitz et al., CCS 2017) and SecAgg+ (Bell et al., CCS 2020): masks on every coordinate."""

from typing import Any, Literal

from fedjax_priv import _validate
from fedjax_priv.base import Layer
from fedjax_priv.crypto.agreement import AgreementName
from fedjax_priv.crypto.modulus import FIELD, ring
from fedjax_priv.crypto.prg import GeneratorName, Prg, generator
from fedjax_priv.layers.secure_sum import sharing
from fedjax_priv.layers.secure_sum.expansion import whole
from fedjax_priv.layers.secure_sum.masked_sum import Protocol, masked_sum


def pairwise_masks(num_groups: int = 1, **protocol: Any) -> Layer:
    """The innermost layer of SecAgg: exact sums of uploads `[b, d]` by group, masked on every coordinate.

    Uploads are elements of F_q, as `quantize` makes them; with `bits` integers modulo 2**bits, as `wrap` does.

    Args:
      num_groups: groups; each has its own secure sum.
      **protocol: arguments of `secagg_protocol`.

    Raises:
      ValueError: no group, or as `secagg_protocol`.

    Examples:
      >>> send = stack(mean=weighted_mean(), quantize=quantize(2**20, 10), masks=pairwise_masks(group_size=10))
    """
    _validate.integer(num_groups=num_groups)
    return masked_sum(secagg_protocol(**protocol), num_groups)


def secagg_protocol(
    *,
    group_size: int,
    neighbours: int | Literal["all"] = "all",
    threshold: int | None = None,
    elide: bool = False,
    key_agreement: AgreementName = "simulated",
    prg: GeneratorName | Prg = "philox",
    bits: int | None = None,
    consistency: bool = False,
    bind_model: bool = False,
) -> Protocol:
    """How `pairwise_masks` masks uploads; `leakage` takes it too.

    Args:
      group_size: most clients in a group, at least 2: the sum of one client is its update. A larger group sets
        `CAP_OVERFLOW`.
      neighbours: an even number k of peers that each client masks with and gives shares to, drawn at random each round
        (SecAgg+: the k nearest on a random circle); "all" is the complete graph.
      threshold: number of shares that reconstruct a secret; fewer reveal nothing. A group is lost if a secret it needs
        has fewer holders left, or if a share that is used is wrong (`WRONG_SHARES`). More than half of the holders if
        not given.
      elide: do not expand masks. The aggregate has the same bits, but uploads are in the clear; reports say so.
      key_agreement: how pairs agree on seeds. "simulated" has the messages and no strength; "x25519" is X25519 and
        HKDF-SHA256 on the host, for groups of up to 1,000, and needs the package `cryptography` and `prg="chacha20"`.
      prg: generator of the masks, which sets the length of all seeds, keys and shares: 64 bits for "philox" and
        "threefry", 256 for "chacha20" (RFC 8439). In Python another `crypto.prg.Prg`, too.
      bits: add uploads and masks modulo 2**bits, from 2 to 32, of which a number on the wire has as many; in F_q, of
        32 bits, if not given. Shares of secrets are elements of F_q in any case.
      consistency: survivors sign the list of survivors that they were told, and open shares only if `threshold` of
        them signed the same one (round ConsistencyCheck of Bonawitz et al. 2017). It keeps a server from telling
        them different lists, if 2 `threshold` is above the clients and colluders of a group together. Signatures are
        ideal. Complete graph only.
      bind_model: pairwise masks depend on a digest of the model that a client was given, and cancel between clients of
        the same model only. It keeps a server from reading the update of a client to which it gave another model than
        to the rest; a model that is harmful and the same for all passes. The digest is simulation-grade.

    `theory.secagg_plus` has the probability that a graph of neighbours fails.
    By default key agreement and seeds are simulation-grade: the messages are those of the protocol, its strength is
    not. The sum has the same bits whatever agreement and generator. Encryption of shares on their way through the
    server, with a second key pair, is neither run nor counted in bits.

    Raises:
      ValueError: a size below its minimum, neighbours that are no even number below `group_size`, a threshold
        outside [2, holders], `consistency` with neighbours, `elide` with `bind_model`, bits outside [2, 32], or an
        agreement and a generator that do not fit.
      ImportError: "x25519" without the package `cryptography`.

    Examples:
      >>> protocol = secagg_protocol(group_size=10, threshold=6)
    """
    _validate.one_of((True, False), elide=elide, consistency=consistency, bind_model=bind_model)
    if elide and bind_model:
        raise ValueError("elide must be False with bind_model, whose masks do not always cancel, got True")
    modulus = FIELD if bits is None else ring(bits)
    prg = generator(prg)
    quorum = sharing.quorum_of(group_size, neighbours, threshold, consistency, key_agreement, prg.seed_words)
    return Protocol(
        quorum=quorum, expansion=whole(prg, elide=elide, modulus=modulus), prg=prg, elide=elide, modulus=modulus,
        bind_model=bind_model,
    )  # fmt: skip
