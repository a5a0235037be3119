"""Masks of one enrolment: pairs agree on a seed once, and every round's masks come from it by a pseudorandom function.

In round t the members i, j of the round derive the round key `PRF(seed_ij, t)`, expand it to `r_ij`, and i adds
`sum_{j > i} r_ij - sum_{j < i} r_ij` (CDP-FL, eqs. 7 to 9, whose printed signs would make all masks 0).
Masks cancel over any set of members with no message but the list of them. If a member is lost, those that are left
send the server the round keys they share with it: never a seed, which would open every round.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Combine, Key, Layer, Link, Placement, Received, SecureSum, Sent
from fedjax_priv.crypto.agreement import AgreementName, KeyAgreement, agreement_of
from fedjax_priv.crypto.modulus import FIELD, Modulus, ring
from fedjax_priv.crypto.prg import GeneratorName, Prg, generator
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.group_sums import element_bits, exact_sum, message_bits
from fedjax_priv.layers.secure_sum.enrolment import Enrolment, enrol, round_keys
from fedjax_priv.layers.secure_sum.expansion import Expansion, whole
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED

LATE = "an upload that arrives after its round keys were opened can be read: no private mask covers it"


class Member(NamedTuple):
    """What a member of a round knows alone."""

    slot: Int[Array, " n"]  # its row in the roster
    secret: UInt32[Array, "n s"]


class Members(NamedTuple):
    """What everybody knows once a round is open."""

    client: Int[Array, " n"]
    round: Int[Array, " n"]
    public: UInt32[Array, "n s"]
    selected: Bool[Array, " n"]
    directory: PyTree  # of all public keys, as the key agreement has it


class Agreed(NamedTuple):
    """What everybody knows before any round."""

    group_size: int
    threshold: int  # survivors whose sum may be opened
    prg: Prg
    expansion: Expansion
    elide: bool
    modulus: Modulus
    agreement: KeyAgreement  # of the enrolment


class Opened(NamedTuple):
    """What the server is sent once the survivors are known."""

    keys: UInt32[Array, "n n s"]  # of the round: what survivor i shares with lost member j; zero: not sent
    alive: Bool[Array, " n"]
    complete: Bool[Array, ""]  # enough survived, and each sent its keys or nobody was lost


def enrolled_masks(
    *,
    group_size: int,
    threshold: int = 2,
    elide: bool = False,
    key_agreement: AgreementName = "simulated",
    prg: GeneratorName | Prg = "philox",
    bits: int | None = None,
) -> Layer:
    """The innermost layer of secure aggregation after one enrolment: exact sums of uploads `[b, d]`.

    In a round each member expands a mask for every other one and uploads d words. The server adds uploads, and expands
    masks of lost members only. If somebody was lost, a survivor that leaves before it sends its round keys fails the
    round. Failed rounds are counted too, so no mask is used twice.

    Args:
      group_size: most members of a round, at least 2; a larger cohort is refused.
      threshold: fewest survivors whose sum is opened, from 2 (the sum of one is its update) to `group_size`.
      elide: do not expand masks. The aggregate has the same bits, but uploads are in the clear; reports say so.
      key_agreement: how pairs agree on their seed, as in `secagg_protocol`.
      prg: generator of the masks and of the round keys, as in `secagg_protocol`: 64 bits of a seed, or 256.
      bits: as in `secagg_protocol`.

    Only a survivor and a lost member know their round key, so a wrong one that a survivor sends goes unnoticed.
    By default key agreement and seeds are simulation-grade, see `crypto.key_agreement`. The n (n - 1) / 2 agreements of
    the enrolment come before the first round and count in no round's bits. No upload may be rejected, as by
    `validate_norm`: survivors open the round keys of its sender, and no private mask covers it.

    Raises:
      ValueError: a size outside its range, an agreement and a generator that do not fit, or (when a round is traced) a
        cohort above `group_size` or below `threshold`.
      ImportError: "x25519" without the package `cryptography`.

    Examples:
      >>> masks = enrolled_masks(group_size=10, threshold=6)
      >>> send = stack(mean=weighted_mean(), quantize=quantize(2**20, 10), masks=masks)
    """
    _validate.one_of((True, False), elide=elide)
    _validate.integer(at_least=2, group_size=group_size, threshold=threshold)
    if threshold > group_size:
        raise ValueError(f"threshold must be at most group_size = {group_size}, got {threshold}")
    prg = generator(prg)
    agreement = agreement_of(key_agreement, prg.seed_words, group_size)
    modulus = FIELD if bits is None else ring(bits)
    agreed = Agreed(group_size, threshold, prg, whole(prg, elide=elide, modulus=modulus), elide, modulus, agreement)
    combine = exact_sum(modulus)

    def encode(key: Key, private: Member, roster: Members, x: Array, cohort: Cohort) -> tuple[Array, Enrolment, Sent]:
        del key, cohort
        y = _upload(agreed, roster, x, private)
        kept = Enrolment(private.secret, roster.public[private.slot])
        return y, kept, Sent(element_bits(modulus, y), each=modulus.bits)

    def decode(header: Opened, roster: Members, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        value = received.value
        if not elide:
            value = modulus.add(value, _correction(agreed, combine, header, roster, value.shape[1], placement))
        return Received(value, jnp.where(header.complete, received.count, 0))

    started = functools.partial(enrol, agreement, prg)
    open_round, disclose = (functools.partial(half, agreed) for half in (_open_round, _disclose))
    return Layer(
        started, open_round, encode, disclose, decode, combine, caveats=(ELIDED, LATE) if elide else (LATE,),
        needs_placement=True, sums=SecureSum(threshold, opened_by=group_size, shows_rejected=True),
    )  # fmt: skip


def _open_round(
    agreed: Agreed, key: Key, state: Enrolment, cohort: Cohort, placement: Placement = ONE_DEVICE
) -> tuple[Member, Members, Bits]:
    """The list of members goes to each of them."""
    del key, placement
    n = cohort.client.size
    if n > agreed.group_size:
        raise ValueError(f"group_size must be at least the size of the cohort, {n}, got {agreed.group_size}")
    if n < agreed.threshold:
        raise ValueError(f"threshold must be at most the size of the cohort, {n}, got {agreed.threshold}")
    others = jnp.maximum(cohort.selected.sum(dtype=jnp.uint32), 1) - 1
    listed = jnp.where(cohort.selected, others * message_bits(cohort.client[0]), 0)
    directory = agreed.agreement.directory(state.public)
    roster = Members(cohort.client, cohort.round, state.public, cohort.selected, directory)
    return Member(jnp.arange(n), state.secret), roster, {"advertise": Link(jnp.zeros_like(listed), listed)}


def _round_keys(agreed: Agreed, private: Member, roster: Members) -> UInt32[Array, "b n s"]:
    """The round keys of each member with every other."""
    everyone = jnp.broadcast_to(jnp.arange(len(roster.public)), (len(private.secret), len(roster.public)))
    return round_keys(agreed.agreement, agreed.prg, private.secret, roster.directory, everyone, roster.round[0])


def _masks(
    agreed: Agreed, roster: Members, slot: Array, keys: Array, active: Bool[Array, "b n"], d: int
) -> UInt32[Array, "b d"]:
    """The mask of each member with its active others. Client and server both call this."""
    meets = active & (jnp.arange(active.shape[1])[None, :] != slot[:, None])
    plus = roster.client[None, :] > roster.client[slot][:, None]
    return agreed.expansion.pairs(keys, meets, plus, 0, d).mask


def _upload(agreed: Agreed, roster: Members, x: Array, private: Member) -> UInt32[Array, "b d"]:
    """The messages of a block of members; zeros if there are too few, since a member alone has no mask."""
    if not agreed.elide:
        keys = _round_keys(agreed, private, roster)
        active = jnp.broadcast_to(roster.selected, keys.shape[:2])
        x = agreed.modulus.add(_masks(agreed, roster, private.slot, keys, active, x.shape[1]), x)
    return jnp.where(roster.selected.sum() >= agreed.threshold, x, 0)


def _disclose(
    agreed: Agreed,
    private: Member,
    roster: Members,
    clear: tuple,
    alive: Array,
    online: Array,
    placement: Placement = ONE_DEVICE,
) -> tuple[Opened, Bits]:
    """If enough survived, every survivor that is still there sends the round keys it shares with the lost."""
    del clear, placement
    lost, enough = roster.selected & ~alive, alive.sum() >= agreed.threshold
    sends = online[:, None] & lost[None, :] & enough
    keys = only_rows(sends, _round_keys(agreed, private, roster))
    up = sends.sum(1, dtype=jnp.uint32) * message_bits(keys[0, 0])
    down = jnp.where(alive, lost.sum(dtype=jnp.uint32) * message_bits(roster.client[0]), 0)
    complete = enough & (~lost.any() | (alive == online).all())
    return Opened(keys, alive, complete), {"unmask": Link(up, down)}


def _correction(
    agreed: Agreed, combine: Combine, header: Opened, roster: Members, d: int, placement: Placement
) -> UInt32[Array, "1 d"]:
    """What the lost would have added to cancel the masks that survivors share with them."""

    def run(shared: tuple, valid: Array, slot: Array, keys: Array) -> tuple:
        roster, alive = shared

        lost = valid & roster.selected[slot] & ~alive[slot]
        masks = _masks(agreed, roster, slot, keys, lost[:, None] & alive[None, :], d)
        return combine.lift(masks, valid, jnp.zeros_like(slot)), ()

    rows = jnp.arange(roster.client.size), jnp.swapaxes(header.keys, 0, 1)
    sums, _ = over_clients(run, (roster, header.alive), rows, row_bytes=4 * d, **placement._asdict())
    return combine.lower(sums).value
