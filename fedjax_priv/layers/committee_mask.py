"""Masks of one enrolment that a committee takes off a sum: Flamingo, in which clients send one message a round.

Ma, Woods, Angel, Polychroniadou and Rabin, S&P 2023 (arXiv 2308.09883), over F_q. In round t client i sends
`x_i + PRG(m_i) + sum_{j > i} PRG(h_ij) - sum_{j < i} PRG(h_ij)` over its neighbours j. `h_ij` is the round key of a
pair that enrolled once, `m_i` is new. In the same message go `h_ij`, encrypted for the committee, and a share of `m_i`
for each member. Once the survivors are known, members open the `m_i` of survivors, and `h_ij` for survivors i with lost
neighbours j. No `m_j` of a lost client is opened, so an upload that arrives late stays hidden.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Combine, Key, Layer, Link, Placement, Received, SecureSum, Sent
from fedjax_priv.crypto import lagrange, matrix, shamir
from fedjax_priv.crypto.agreement import AgreementName, KeyAgreement
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.crypto.prg import GeneratorName, Prg, expand, generator
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.keys import each_named
from fedjax_priv.layers.group_sums import counted, exact_sum, message_bits
from fedjax_priv.layers.secure_sum import committee as committees
from fedjax_priv.layers.secure_sum.circle import CONNECTED, Circle, arrange, peers
from fedjax_priv.layers.secure_sum.enrolment import Enrolment, enrol, round_keys
from fedjax_priv.layers.secure_sum.expansion import Expansion, whole
from fedjax_priv.layers.secure_sum.lists import SIGNATURE_BITS
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.layers.secure_sum.private_links import delivered
from fedjax_priv.layers.secure_sum.sharing import quorum_of

POINT_BITS = 264
"""Of a compressed point of P-256. A round key is encrypted by two, and each member opens it by one."""
TAG_BITS = 128
"""By which an encrypted share is longer."""


class Terms(NamedTuple):
    """What everybody knows before any round."""

    group_size: int  # most clients of a round
    holders: int  # neighbours of a client, and itself
    committee: int
    threshold: int  # members that open
    fewest: int  # uploads in a sum that is opened
    agreement: KeyAgreement  # of the enrolment
    prg: Prg
    expansion: Expansion


class Member(NamedTuple):
    """What a client of a round knows alone."""

    slot: Int[Array, " n"]  # its row in the roster
    secret: UInt32[Array, "n w"]  # of its enrolment
    seed: UInt32[Array, "n w"]  # from which it draws m_i and the polynomials of its shares


class Roster(NamedTuple):
    """What everybody knows once a round is open."""

    client: Int[Array, " n"]
    who: committees.Roster  # takes part, and is on the committee
    public: UInt32[Array, "n w"]
    directory: PyTree  # of all public keys, as the key agreement has it
    circle: Circle


class Opened(NamedTuple):
    """What the committee opens once the survivors are known."""

    shares: UInt32[Array, "c n w"]  # of the m_i of survivors; zero: not sent
    keys: UInt32[Array, "n m w"]  # h_ij of survivor i and a lost neighbour; zero: not opened
    sent: Bool[Array, " c"]
    alive: Bool[Array, " n"]


def committee_masks(
    *,
    group_size: int,
    neighbours: int | Literal["all"] = "all",
    committee: int | None = None,
    threshold: int | None = None,
    fewest: int | None = None,
    elide: bool = False,
    key_agreement: AgreementName = "simulated",
    prg: GeneratorName | Prg = "philox",
) -> Layer:
    """The innermost layer of Flamingo: exact sums of uploads `[b, d]` of field elements.

    Clients agree on keys when they enrol, before the first round, and these messages count in no round's bits. Then a
    client speaks once a round, and a member of the committee twice more. A round fails if fewer than `threshold`
    members answer.

    Args:
      group_size: most clients of a round, at least 2; a larger cohort is refused.
      neighbours: an even number k of clients that each masks with, the k nearest on a random circle, new in each round;
        "all" is the complete graph. Flamingo draws a random graph.
      committee: C, clients of the round that open its sum, at most `group_size`; 10, or `group_size` if that is fewer,
        if not given. They are drawn anew in each round, where Flamingo hands a key from one committee to the next.
      threshold: members that open; fewer learn nothing. More than half if not given.
      fewest: uploads below which no member answers, at least 2; more than half of `group_size` if not given.
      elide: do not expand masks. The aggregate has the same bits, but uploads are in the clear; reports say so.
      key_agreement: how pairs agree on their seed, as in `secagg_protocol`.
      prg: generator of masks, keys and shares, as in `secagg_protocol`: 64 bits of a seed, or 256.

    Unlike in other layers, bits count encryption, which is most of what is sent in addition to the update: 528 for each
    neighbour (ElGamal on P-256), and 128 more than a share for each member. Encryption, the election of the committee
    and its signatures are ideal. Members answer once, for one list of survivors; a wrong answer goes unnoticed.

    Raises:
      ValueError: an argument outside its range, an agreement and a generator that do not fit, or (when a round is
        traced) a cohort above `group_size` or below `committee` or `fewest`, or 2**32 bits or more to a member.
      ImportError: "x25519" without the package `cryptography`.

    Examples:
      >>> masks = committee_masks(group_size=10, committee=5)
      >>> send = stack(mean=weighted_mean(), quantize=quantize(2**20, 10), masks=masks)
    """
    _validate.one_of((True, False), elide=elide)
    prg = generator(prg)
    quorum = quorum_of(group_size, neighbours, None, key_agreement=key_agreement, words=prg.seed_words)
    committee, threshold, fewest = committees.sizes(group_size, committee, threshold, fewest)
    expansion = whole(prg, elide=elide)
    terms = Terms(group_size, quorum.holders, committee, threshold, fewest, quorum.agreement, prg, expansion)
    combine = exact_sum(FIELD)

    def advertise(
        key: Key, state: Enrolment, cohort: Cohort, placement: Placement = ONE_DEVICE
    ) -> tuple[Member, Roster, Bits]:
        del placement
        return _open_round(terms, key, state, cohort)

    def encode(key: Key, private: Member, roster: Roster, x: Array, cohort: Cohort) -> tuple[Array, Enrolment, Sent]:
        del key, cohort
        y = x if elide else FIELD.add(x, _upload_masks(terms, roster, private, x.shape[1]))
        return y, Enrolment(private.secret, roster.public[private.slot]), _sent(terms, roster, private, x)

    def disclose(
        private: Member, roster: Roster, clear: tuple, alive: Array, online: Array, placement: Placement = ONE_DEVICE
    ) -> tuple[Opened, Bits]:
        del clear, placement
        return _disclose(terms, private, roster, alive, online)

    def decode(header: Opened, roster: Roster, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        value, opened = received.value, header.sent.sum() >= threshold
        if not elide:
            value = FIELD.sub(value, _left(terms, combine, header, roster, value.shape[1], placement))
        return Received(value, jnp.where(opened, received.count, 0))

    return Layer(
        lambda key, n: enrol(terms.agreement, prg, key, n), advertise, encode, disclose, decode, combine,
        caveats=(ELIDED,) if elide else (), needs_placement=True,
        sums=SecureSum(fewest, min(threshold, terms.holders - 1), "" if quorum.complete else CONNECTED),
    )  # fmt: skip


def _open_round(terms: Terms, key: Key, state: Enrolment, cohort: Cohort) -> tuple[Member, Roster, Bits]:
    """Each client is told who its neighbours are; nothing is sent."""
    n = cohort.client.size
    committees.check_cohort(n, terms.group_size, committee=terms.committee, fewest=terms.fewest)
    keys = each_named(key, ("seed", "committee", "graph"))
    # Without the barrier XLA would compute the neighbours of all clients, [n, m], while it compiles.
    circle = jax.lax.optimization_barrier(arrange(cohort, None if terms.holders == terms.group_size else keys["graph"]))
    member = committees.elected(keys["committee"], cohort.selected, terms.committee)
    who = committees.Roster(cohort.round, cohort.selected, member)
    roster = Roster(cohort.client, who, state.public, terms.agreement.directory(state.public), circle)
    seed = committees.own_seeds(keys["seed"], cohort.client, terms.prg.seed_words)
    private = Member(jnp.arange(n), state.secret, seed)
    told = message_bits(cohort.client[0]) * _neighbours(terms, roster, private.slot)[1].sum(1, dtype=jnp.uint32)
    told = jnp.where(cohort.selected, told, 0)
    return private, roster, {"advertise": Link(jnp.zeros_like(told), told)}


def _neighbours(terms: Terms, roster: Roster, slot: Int[Array, " b"]) -> tuple[Int[Array, "b m"], Bool[Array, "b m"]]:
    """Rows of each client's neighbours, and whether there is one."""
    near = jax.vmap(lambda slot: peers(roster.circle, slot, terms.holders))(slot)
    return near.slot[:, 1:], near.there[:, 1:]


def _keys(terms: Terms, roster: Roster, private: Member) -> UInt32[Array, "b m w"]:
    """The h_ij of each client and its neighbours."""
    peer, _ = _neighbours(terms, roster, private.slot)
    return round_keys(terms.agreement, terms.prg, private.secret, roster.directory, peer, roster.who.round[0])


def _secrets(terms: Terms, private: Member) -> UInt32[Array, "b w"]:
    """The m_i of each client, field elements."""
    return expand(private.seed.T, "private seed", 0, terms.prg.seed_words).T


def _pair_masks(
    terms: Terms, roster: Roster, slot: Array, keys: UInt32[Array, "b m w"], active: Bool[Array, " n"], d: int
) -> UInt32[Array, "b d"]:
    """What each client adds for its active neighbours. Client and server both call this."""
    peer, there = _neighbours(terms, roster, slot)
    plus = roster.client[peer] > roster.client[slot][:, None]
    return terms.expansion.pairs(keys, there & active[peer], plus, 0, d).mask


def _own_masks(terms: Terms, roster: Roster, secrets: UInt32[Array, "b w"], d: int) -> UInt32[Array, "b d"]:
    """`PRG(m_i)`. Client and server both call this."""
    return jax.vmap(lambda seed: expand(seed, "private mask", roster.who.round[0], d, terms.prg))(secrets)


def _upload_masks(terms: Terms, roster: Roster, private: Member, d: int) -> UInt32[Array, "b d"]:
    pairs = _pair_masks(terms, roster, private.slot, _keys(terms, roster, private), roster.who.selected, d)
    return FIELD.add(_own_masks(terms, roster, _secrets(terms, private), d), pairs)


def _sent(terms: Terms, roster: Roster, private: Member, x: UInt32[Array, "b d"]) -> Sent:
    """The update, an encrypted key for each neighbour, and an encrypted share for each member."""
    _, there = _neighbours(terms, roster, private.slot)
    keys = there.sum(1, dtype=jnp.uint32) * np.uint32(2 * POINT_BITS)
    shares = counted(terms.committee * (_share_bits(terms) + TAG_BITS))
    return Sent(message_bits(x, len(x)) + keys + shares, each=32)


def _share_bits(terms: Terms) -> int:
    return 32 * terms.prg.seed_words


def _disclose(
    terms: Terms, private: Member, roster: Roster, alive: Bool[Array, " n"], online: Bool[Array, " n"]
) -> tuple[Opened, Bits]:
    """Members sign the list of survivors, check that enough signed the same one, and open what it needs."""
    answers = (online & roster.who.selected)[roster.who.member] & (alive.sum() >= terms.fewest)
    enough = answers.sum() >= terms.threshold
    sent = answers & enough
    peer, there = _neighbours(terms, roster, private.slot)
    broken = there & (roster.who.selected & ~alive)[peer] & alive[:, None]
    keys = jnp.where((broken & enough)[..., None], _keys(terms, roster, private), 0)
    shares = jnp.where((sent[:, None] & alive[None, :])[..., None], jnp.swapaxes(_shares(terms, private), 0, 1), 0)
    bits = _closing_bits(terms, roster, alive, answers, sent, broken.sum(dtype=jnp.uint32))
    return Opened(shares, keys, sent, alive), bits


def _shares(terms: Terms, private: Member) -> UInt32[Array, "n c w"]:
    """Of m_i, one to each member, recomputed from the client's seed."""
    coefficients = expand(private.seed.T, "shares", 0, terms.prg.seed_words).T
    return delivered(
        shamir.share(coefficients, _secrets(terms, private), threshold=terms.threshold, num_shares=terms.committee)
    )


def _closing_bits(
    terms: Terms, roster: Roster, alive: Array, answers: Array, sent: Array, broken: UInt32[Array, ""]
) -> Bits:
    """To each member the list of survivors, a bit for each client, and the others' signatures; then what it opens."""
    n, share = alive.size, _share_bits(terms)
    counted(n * (share + TAG_BITS) + min(n // 2, terms.holders) * n * POINT_BITS)  # of all that a member may be sent
    signatures = np.uint32(SIGNATURE_BITS) * (jnp.maximum(answers.sum(dtype=jnp.uint32), 1) - 1)
    listed = jnp.where(alive[roster.who.member], counted(8 * -(-n // 8)), 0) + jnp.where(answers, signatures, 0)
    survivors = alive.sum(dtype=jnp.uint32)
    opens = survivors * np.uint32(share) + broken * np.uint32(POINT_BITS)
    relayed = survivors * np.uint32(share + TAG_BITS) + broken * np.uint32(POINT_BITS)
    return {
        "consistency": committees.asked(roster.who, jnp.where(answers, jnp.uint32(SIGNATURE_BITS), 0), listed),
        "unmask": committees.asked(roster.who, jnp.where(sent, opens, 0), jnp.where(sent, relayed, 0)),
    }


def _left(
    terms: Terms, combine: Combine, header: Opened, roster: Roster, d: int, placement: Placement
) -> UInt32[Array, "1 d"]:
    """The masks in the sum: those of survivors, and those that survivors have with lost neighbours."""
    lost = roster.who.selected & ~header.alive

    def run(shared: tuple, valid: Array, alive: Array, slot: Array, secrets: Array, keys: Array) -> tuple:
        roster, lost = shared
        masks = FIELD.add(_own_masks(terms, roster, secrets, d), _pair_masks(terms, roster, slot, keys, lost, d))
        return combine.lift(masks, valid & alive, jnp.zeros_like(slot)), ()

    rows = header.alive, jnp.arange(lost.size), _rebuilt(terms, header), header.keys
    sums, _ = over_clients(run, (roster, lost), rows, row_bytes=4 * d, **placement._asdict())
    return combine.lower(sums).value


def _rebuilt(terms: Terms, header: Opened) -> UInt32[Array, "n w"]:
    """The m_i of survivors from the shares of the first members that answered; anything, if they are too few."""
    point = jax.lax.optimization_barrier(jnp.asarray(shamir.points(terms.committee)))
    chosen = shamir.first(terms.threshold, header.sent)
    weights = lagrange.basis(point, jnp.zeros(1, jnp.uint32), chosen)
    shares = header.shares
    return matrix.matmul(weights, shares.reshape(len(shares), -1)).reshape(shares.shape[1:])
