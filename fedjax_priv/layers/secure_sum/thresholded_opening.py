"""What members of a committee answer in thresholded opening, and what opens for members that are gone."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Link, Placement
from fedjax_priv.crypto import field, lagrange, matrix, shamir
from fedjax_priv.crypto.agreement import AgreementName, agreement_of
from fedjax_priv.crypto.prg import GeneratorName, Prg, expand, generator
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.keys import each_named, per_client
from fedjax_priv.layers.group_sums import counted, message_bits
from fedjax_priv.layers.secure_sum import bound_masks
from fedjax_priv.layers.secure_sum import committee as committees
from fedjax_priv.layers.secure_sum.bound_masks import Extent
from fedjax_priv.layers.secure_sum.private_links import delivered


class Terms(NamedTuple):
    """What everybody knows before any round."""

    extent: Extent  # of masks
    group_size: int
    threshold: int  # t, survivors that must have sent a coordinate
    committee: int  # C
    quorum: int  # members whose answers suffice
    elide: bool = False  # there are no masks

    @property
    def shares_seeds(self) -> bool:
        """Whether members can be missed: clients share the seeds of their masks."""
        return self.quorum < self.committee

    @property
    def share_bits(self) -> UInt32[Array, ""]:
        """Of what a client sends one member: a share of the seed for each member."""
        return message_bits(jax.ShapeDtypeStruct((self.committee * self.shares_seeds, self.seed_words), jnp.uint32))

    @property
    def seed_words(self) -> int:
        """Of seeds, keys and secrets."""
        return self.extent.prg.seed_words


class Secrets(NamedTuple):
    """What a client knows alone."""

    below: PyTree  # of the layer below
    key: UInt32[Array, "n s"]  # exponent of the key agreement with members, and of members with clients
    seed: UInt32[Array, "n s"]  # of its polynomials


class Roster(NamedTuple):
    """What everybody knows once a round is open."""

    below: PyTree
    key: UInt32[Array, "n s"]  # public
    committee: committees.Roster


class Opened(NamedTuple):
    """What the server has once the survivors are known."""

    below: PyTree
    located: UInt32[Array, "n w"]  # the survivors' coordinates
    contributors: Int32[Array, " d"]  # survivors that sent a coordinate
    sums: UInt32[Array, "c d"]  # of the survivors' masks for each member, where opened; zero: not sent
    answered: Bool[Array, " c"]
    shares: PyTree  # [n, holder, member, s], of survivors' seeds for members that are gone; (): none are shared


def terms_of(
    num_values: int,
    most: int | None,
    group_size: int,
    threshold: int,
    committee: int | None,
    quorum: int | None,
    key_agreement: AgreementName = "simulated",
    prg: GeneratorName | Prg = "philox",
    elide: bool = False,
) -> Terms:
    """Checked arguments of `thresholded_masks`."""
    most = num_values if most is None else most
    _validate.one_of((True, False), elide=elide)
    _validate.integer(num_values=num_values, most=most)
    _validate.integer(at_least=2, group_size=group_size)
    _validate.integer(threshold=threshold)
    committee = min(10, group_size) if committee is None else committee
    _validate.integer(committee=committee)
    quorum = committee // 2 + 1 if quorum is None else quorum
    _validate.integer(quorum=quorum)
    for name, value, limit, of in (
        ("most", most, num_values, "num_values"),
        ("threshold", threshold, group_size, "group_size"),
        ("committee", committee, group_size, "group_size"),
        ("quorum", quorum, committee, "committee"),
    ):
        if value > limit:
            raise ValueError(f"{name} must be at most {of} = {limit}, got {value}")
    prg = generator(prg)
    agreement = agreement_of(key_agreement, prg.seed_words, group_size)
    return Terms(Extent(num_values, most, prg, agreement), group_size, threshold, committee, quorum, elide)


def open_round(terms: Terms, key: Key, cohort: Cohort) -> tuple[Array, Array, committees.Roster]:
    """Secrets and seeds of all clients, and who is in the committee."""
    committees.check_cohort(cohort.client.size, terms.group_size, committee=terms.committee)
    keys = each_named(key, ("committee key", "committee share", "committee"))
    words, agreement = terms.seed_words, terms.extent.agreement
    own = lambda key: agreement.secret(*jax.random.bits(key, (2, words), jnp.uint32))
    secret = per_client(own, keys["committee key"], cohort.client)
    seed = committees.own_seeds(keys["committee share"], cohort.client, words)
    member = committees.elected(keys["committee"], cohort.selected, terms.committee)
    return secret, seed, committees.Roster(cohort.round, cohort.selected, member)


def bits_of_keys(roster: Roster) -> Link:
    """A public key up; down those of the members, and to members those of all."""
    key, who = message_bits(roster.key[0]), roster.committee
    member = jnp.zeros(who.selected.shape, bool).at[who.member].set(True) & who.selected
    number = lambda rows: rows.sum(dtype=jnp.uint32)
    others = jnp.where(member, number(who.selected) - 1, number(member))
    return Link(jnp.where(who.selected, key, 0), jnp.where(who.selected, others * key, 0))


def disclose(
    terms: Terms,
    private: Secrets,
    roster: Roster,
    below: PyTree,
    located: UInt32[Array, "n w"],
    alive: Bool[Array, " n"],
    online: Bool[Array, " n"],
    placement: Placement,
) -> Opened:
    """What members that are online answer once they are shown the survivors' coordinates `located`."""
    who = roster.committee
    number = contributors(located, terms.extent.num_values, placement)
    answered = (online & who.selected)[who.member]
    sums, shares = jnp.zeros((terms.committee, number.size), jnp.uint32), ()
    if not terms.elide:
        sums = sums_of_masks(terms, private, roster, located, alive, placement)
        sums = jnp.where(answered[:, None] & (number >= terms.threshold)[None], sums, 0)
    if not terms.elide and terms.shares_seeds:
        shares = opened_shares(terms, private, roster, located, alive, answered, placement)
    return Opened(below, located, number, sums, answered, shares)


def contributors(located: UInt32[Array, "n w"], d: int, placement: Placement) -> Int32[Array, " d"]:
    """How many survivors sent each coordinate."""
    run = lambda _, valid, words: ((bound_masks.sent(words, d) & valid[:, None]).sum(0, dtype=jnp.int32), ())
    return over_clients(run, (), (located,), row_bytes=5 * d, **placement._asdict())[0]


def sums_of_masks(
    terms: Terms,
    private: Secrets,
    roster: Roster,
    located: UInt32[Array, "n w"],
    alive: Bool[Array, " n"],
    placement: Placement,
) -> UInt32[Array, "c d"]:
    """For each member the sum of the survivors' masks for it, by its own secret and the bitmaps it is shown."""

    def run(shared: tuple, valid: Array, counts: Array, public: Array, bitmaps: Array) -> tuple:
        secret, round = shared
        seeds = bound_masks.seeds_of_members(terms.extent, secret, public, bitmaps)
        return bound_masks.sums_by_member(terms.extent, seeds, valid & counts, bitmaps, round), ()

    shared = private.key[roster.committee.member], roster.committee.round[0]
    halves, _ = over_clients(run, shared, (alive, roster.key, located), row_bytes=0, **placement._asdict())
    return field.join(*halves)


def opened_shares(
    terms: Terms,
    private: Secrets,
    roster: Roster,
    located: UInt32[Array, "n w"],
    alive: Bool[Array, " n"],
    answered: Bool[Array, " c"],
    placement: Placement,
) -> UInt32[Array, "n c c s"]:
    """What members that answered have been sent by survivors of the seeds for members that are gone.

    They send nothing unless `quorum` of them answered, on a list they agree on.
    """

    def run(members: Array, valid: Array, secret: Array, seed: Array, bitmaps: Array) -> tuple:
        seeds = bound_masks.seeds_of_clients(terms.extent, secret, members, bitmaps).reshape(len(secret), -1)
        return (), delivered(_shares(terms, seed, seeds))

    members = roster.key[roster.committee.member]
    held = 16 * terms.seed_words * terms.committee * (terms.committee + 4 * terms.quorum)
    rows = private.key, private.seed, located
    _, shares = over_clients(run, members, rows, row_bytes=held, **placement._asdict())
    opens = answered[:, None] & ~answered[None] & (answered.sum() >= terms.quorum)
    return jnp.where(alive[:, None, None, None] & opens[None, :, :, None], shares, 0)


def _shares(terms: Terms, seed: UInt32[Array, "b s"], secrets: UInt32[Array, "b k"]) -> UInt32[Array, "b c c s"]:
    """Row v of a client is what it sends member v, with its upload."""
    coefficients = expand(seed.T, "shares of seeds", 0, terms.seed_words).T
    shares = shamir.share(coefficients, secrets, threshold=terms.quorum, num_shares=terms.committee)
    return shares.reshape(-1, terms.committee, terms.committee, terms.seed_words)


def bits_of_members(terms: Terms, roster: Roster, header: Opened, alive: Bool[Array, " n"]) -> Bits:
    """Who survived, their bitmaps and shares to each member; a word back where a sum is opened, and shares it opens."""
    _check_bits(terms, alive.size)
    who, survivors = roster.committee, alive.sum(dtype=jnp.uint32)
    list_of_survivors = (who.selected.sum(dtype=jnp.uint32) + np.uint32(7)) // 8 * np.uint32(8)
    shown = list_of_survivors + survivors * (np.uint32(terms.extent.num_values) + terms.share_bits)
    opened = (header.contributors >= terms.threshold).sum(dtype=jnp.uint32)
    gone = jnp.uint32(0)
    if terms.shares_seeds:
        enough = header.answered.sum() >= terms.quorum
        gone = jnp.where(enough, (~header.answered).sum(dtype=jnp.uint32), 0)
    up = jnp.where(header.answered, np.uint32(32) * opened + np.uint32(32 * terms.seed_words) * gone * survivors, 0)
    return {"unmask": committees.asked(who, up, jnp.where(alive[who.member], shown, 0))}


def _check_bits(terms: Terms, clients: int) -> None:
    """Refuses rounds in which a member may be sent, or send, more than is counted."""
    d, share = terms.extent.num_values, 32 * terms.committee * terms.shares_seeds * terms.seed_words
    counted(8 * (-(-clients // 8)) + clients * (d + share))
    counted(32 * d + clients * share)


def without_masks(
    terms: Terms, roster: Roster, header: Opened, value: UInt32[Array, "1 d"], placement: Placement
) -> UInt32[Array, "1 d"]:
    """A sum of uploads, less the masks that members opened. Where a coordinate is not opened it stays masked."""
    if terms.elide:
        return value
    value = field.sub(value, field.sum(header.sums)[None])
    if terms.shares_seeds:
        value = field.sub(value, masks_for_the_absent(terms, roster, header, placement)[None])
    return value


def masks_for_the_absent(terms: Terms, roster: Roster, header: Opened, placement: Placement) -> UInt32[Array, " d"]:
    """What the server computes for members that are gone: the survivors' masks for them, from opened shares.

    No more than `committee - quorum` can be gone, or the round fails.
    """
    point = jax.lax.optimization_barrier(jnp.asarray(shamir.points(terms.committee)))
    chosen = shamir.first(terms.quorum, header.answered)
    first = jnp.argsort(header.answered)[: terms.committee - terms.quorum]
    shares = jnp.moveaxis(header.shares[:, :, first], 1, 0).reshape(terms.committee, -1)
    seeds = matrix.matmul(lagrange.basis(point, jnp.zeros(1, jnp.uint32), chosen), shares)
    gone = (header.located > 0).any(1)[:, None] & ~header.answered[first][None]

    def run(round: Array, valid: Array, seeds: Array, gone: Array, bitmaps: Array) -> tuple:
        sums = bound_masks.sum_of_masks(terms.extent, seeds, valid[:, None] & gone, bitmaps, round)
        return tuple(half.sum(0, dtype=jnp.uint32) for half in field.split(sums)), ()

    rows, held = (seeds.reshape(*gone.shape, terms.seed_words), gone, header.located), 16 * terms.extent.num_values
    halves, _ = over_clients(run, roster.committee.round[0], rows, row_bytes=held, **placement._asdict())
    return field.join(*halves)
