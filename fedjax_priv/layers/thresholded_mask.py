"""Masks that a committee takes off the sum of a coordinate only if enough clients sent it: thresholded opening.

Suimon, Koizumi, Takemasa, Hasegawa, 2025 (arXiv 2508.04285), here over F_q and for one round. Client i sends values at
the coordinates U_i it chooses, and adds there a mask for each member of a committee, other than the server. Members are
shown which coordinates the survivors sent. Each answers once, with ONE vector: at the coordinates that `threshold`
survivors or more sent, the sum of their masks for it, and nothing elsewhere. The server takes these sums off; where a
coordinate is not opened it holds a uniform element and makes it no value.
"""

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Key, Layer, Placement, Received, SecureSum, Sent
from fedjax_priv.crypto import field
from fedjax_priv.crypto.agreement import AgreementName
from fedjax_priv.crypto.prg import GeneratorName, Prg
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.secure_sum import bound_masks, thresholded_opening
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.layers.secure_sum.thresholded_opening import Opened, Roster, Secrets
from fedjax_priv.layers.stacking import add_bits
from fedjax_priv.status import Status

PUBLIC_COUNTS = "the server learns which coordinates each client sent"
MALICIOUS = (
    "colluders that claim every coordinate count towards the threshold: t = A + k leaves k honest clients in a sum"
)


def thresholded_masks(
    below: Layer,
    *,
    num_values: int,
    most: int | None = None,
    group_size: int,
    threshold: int,
    committee: int | None = None,
    quorum: int | None = None,
    elide: bool = False,
    key_agreement: AgreementName = "simulated",
    prg: GeneratorName | Prg = "philox",
) -> Layer:
    """The innermost layer of thresholded opening: a sum of field elements at the coordinates that enough clients sent.

    With S the survivors, the server gets `sum_{i in S, l in U_i} x_i(l)` exactly where at least `threshold` of them
    sent l, and 0 elsewhere, which stands for no value. A round fails (`NOT_RECOVERED`) if nothing is opened, or if
    fewer than `quorum` members answer.

    Args:
      below: an innermost layer of sums in F_q of what clients select, which tells the server as a bitmap what they
        sent. `plain_sparse_field(d)`, for any selection: masks of the committee are then the only ones.
        `sparse_masks(...)`: on top of the masks of SparseSecAgg, as in the paper. `paired_coordinates(...)`: the
        coordinates of SparseSecAgg without its masks, which are not needed.
      num_values: d, coordinates of an upload.
      most: coordinates that a client may send, all if not given; more set `CAP_OVERFLOW`. Work is that of so many.
      group_size: most clients of a round, at least 2; a larger cohort is refused.
      threshold: t, survivors that must have sent a coordinate, at most `group_size`; 1 opens everything. Colluders that
        claim every coordinate count too: t = A + k leaves k honest clients in a sum with A colluders, so t > A + 1.
      committee: C, clients of the round that open sums, at most `group_size`; 10, or `group_size` if that is fewer, if
        not given.
      quorum: members whose answers suffice; more than half if not given. Clients share with the committee the seeds of
        their masks, and those for a member that is gone are opened. `committee`: nothing is shared, and a member that
        does not answer fails the round.
      elide: no masks, `below` should have none either. The sums have the same bits, but uploads are in the clear;
        reports say so.
      key_agreement: how clients agree on seeds with members, as in `secagg_protocol`.
      prg: generator of their masks, as in `secagg_protocol`: 64 bits of a seed, or 256.

    The server, any number of clients that follow the protocol and fewer than `quorum` members learn only sums over all
    survivors that sent a coordinate, of at least `threshold`. Keys and seeds are simulation-grade by
    default, digests of bitmaps always.

    Raises:
      ValueError: an argument outside its range; or, when a round is traced, a cohort above `group_size` or below
        `committee`, a layer below that sends no bitmap of `num_values`, or 2**32 bits or more to a member.

    Examples:
      >>> masks = thresholded_masks(plain_sparse_field(1000), num_values=1000, group_size=10, threshold=3)
      >>> send = stack(few=rand_k(1000, 500), quantize=on_sparse_values(quantize(2.0**16, 10)), mask=masks)
    """
    _validate.part(Layer, "layers.plain_sparse_field(d)", below=below)
    terms = thresholded_opening.terms_of(
        num_values, most, group_size, threshold, committee, quorum, key_agreement, prg, elide
    )
    extent = terms.extent

    def advertise(
        key: Key, state: PyTree, cohort: Cohort, placement: Placement = ONE_DEVICE
    ) -> tuple[Secrets, Roster, Bits]:
        theirs, public, bits = below.placed(placement).advertise(key, state, cohort)
        secret, seed, who = thresholded_opening.open_round(terms, key, cohort)
        roster = Roster(public, extent.agreement.public_key(secret), who)
        bits = add_bits(bits, {"committee": thresholded_opening.bits_of_keys(roster)})
        return Secrets(theirs, secret, seed), roster, bits

    def encode(key: Key, private: Secrets, roster: Roster, x: PyTree, cohort: Cohort) -> tuple[Array, PyTree, Sent]:
        y, state, sent = below.encode(key, private.below, roster.below, x, cohort)
        _check_bitmap(num_values, y, sent)
        if not elide:
            who = roster.committee
            seeds = bound_masks.seeds_of_clients(extent, private.key, roster.key[who.member], sent.clear)
            everybody = jnp.ones(seeds.shape[:2], bool)
            y = field.add(y, bound_masks.sum_of_masks(extent, seeds, everybody, sent.clear, who.round[0]))
        refused = sent.refused | jnp.where(bound_masks.too_many(extent, sent.clear), int(Status.CAP_OVERFLOW), 0)
        return y, state, sent._replace(bits=sent.bits + terms.committee * terms.share_bits, refused=refused)

    def disclose(
        private: Secrets, roster: Roster, clear: Array, alive: Array, online: Array, placement: Placement = ONE_DEVICE
    ) -> tuple[Opened, Bits]:
        theirs, bits = below.placed(placement).disclose(private.below, roster.below, clear, alive, online)
        located = only_rows(alive, clear)
        header = thresholded_opening.disclose(terms, private, roster, theirs, located, alive, online, placement)
        return header, add_bits(bits, thresholded_opening.bits_of_members(terms, roster, header, alive))

    def decode(header: Opened, roster: Roster, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        rows = below.placed(placement).decode(header.below, roster.below, received)
        value = thresholded_opening.without_masks(terms, roster, header, rows.value, placement)
        opened = header.contributors >= threshold
        enough = (header.answered.sum() >= terms.quorum) & opened.any()
        return rows._replace(value=jnp.where(opened[None], value, 0), count=jnp.where(enough, rows.count, 0))

    return below._replace(
        advertise=advertise, encode=encode, disclose=disclose, decode=decode,
        caveats=tuple(dict.fromkeys((*below.caveats, *((ELIDED,) if elide else ()), PUBLIC_COUNTS, MALICIOUS))),
        needs_placement=True,
        sums=SecureSum(max(threshold, below.sums.threshold), opened_by=terms.quorum, opens_at=threshold, selects=True),
    )  # fmt: skip


def _check_bitmap(d: int, y: Array, sent: Sent) -> None:
    """Raises ValueError unless uploads have `d` coordinates and travel with a bitmap of them."""
    if y.ndim != 2 or y.shape[1] != d:
        raise ValueError(f"num_values must be the coordinates of an upload, {y.shape[-1]}, got {d}")
    if getattr(sent.clear, "shape", ()) != (len(y), -(-d // 32)):
        raise ValueError("below must be a layer that sends a bitmap of its coordinates, such as plain_sparse_field(d)")
