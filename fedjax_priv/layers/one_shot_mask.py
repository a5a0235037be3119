"""Masks that clients send in one message and a committee takes off their sum: one-shot private aggregation (OPA).

Karthikeyan and Polychroniadou, 2024 (arXiv 2410.22303), over F_q. Client i sends `Delta x_i + A s_i + e_i`, with A
public and e_i small (`crypto.lattice`), and with it Shamir shares of s_i to each member of a committee. Once the
survivors S are known, each member sends ONE vector, the sum of its shares. They give `sum_S s_i`, never one s_i; the
server takes off `A sum_S s_i` and rounds by Delta. Nothing is set up, and whoever is lost costs nothing.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Key, Layer, Placement, Received, SecureSum, Sent
from fedjax_priv.crypto import field, lagrange, lattice, matrix, shamir
from fedjax_priv.crypto.prg import GeneratorName, Prg, expand, generator, philox
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import each_named
from fedjax_priv.layers.group_sums import counted, field_sum, message_bits
from fedjax_priv.layers.secure_sum import committed_sums
from fedjax_priv.layers.secure_sum import committee as committees
from fedjax_priv.layers.secure_sum.committee import Roster
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.layers.secure_sum.public_factors import bits_to_tell, in_sum, weighed

HINT = "the server also learns the sum of the clients' secrets and of their errors"
UNKNOWN = "how hard it is to take off a mask was not estimated (secrets of {} numbers modulo q)"
NO_ERRORS = "masks have no errors: whoever knows as many numbers of an update as a secret is long knows all of it"


class Terms(NamedTuple):
    """What everybody knows before any round."""

    group_size: int
    spacing: int  # Delta
    committee: int
    threshold: int  # members that open a sum
    fewest: int  # uploads in a sum that is opened
    length: int  # numbers in a secret
    coins: int  # of each sign in an error
    prg: Prg = philox  # of secrets, errors and the public matrix


class Opened(NamedTuple):
    """What the committee sends once the survivors are known."""

    sums: UInt32[Array, "c k"]  # of the survivors' shares; zero: not sent
    sent: Bool[Array, " c"]
    commitment: UInt32[Array, " 2"]  # to the sum of the survivors' secrets


def one_shot_masks(
    *,
    group_size: int,
    spacing: int,
    committee: int | None = None,
    threshold: int | None = None,
    fewest: int | None = None,
    length: int = 64,
    coins: int = 21,
    elide: bool = False,
    prg: GeneratorName | Prg = "philox",
) -> Layer:
    """The innermost layer of one-shot aggregation: sums of uploads `[b, d]` of field elements.

    Put it below `quantize(levels, max_terms=group_size * spacing)`: a sum must stay within (q-1)/2 / Delta, so
    log2(Delta) bits of the field are spent. A sum is exact unless its errors exceed (Delta - 1) / 2 somewhere, which
    nobody notices; `crypto.lattice.spacing_of` has the Delta for which they cannot, or almost never do.

    Args:
      group_size: most clients of a round, at least 2; a larger cohort is refused.
      spacing: Delta, an odd integer.
      committee: C, clients of the round that hold shares, at most `group_size`; 10, or `group_size` if that is fewer,
        if not given.
      threshold: members whose sums open the sum of the secrets; fewer learn nothing. More than half if not given.
      fewest: uploads below which no member answers, at least 2; more than half of `group_size` if not given.
      length: lambda, numbers in a secret. Work is d lambda products a client; 64 is for simulations, and about 2,048
        would be needed.
      coins: an error at a coordinate is the heads of so many coins less the heads of as many others, so its variance is
        half of this; from 0 to 32. 0 is a control: without errors anybody breaks the masks by linear algebra.
      elide: neither masks nor errors. Sums have the same bits wherever they are exact, but uploads are in the clear;
        reports say so.
      prg: generator of secrets, errors and the public matrix, with seeds of 64 bits ("philox", "threefry") or 256
        ("chacha20").

    Uploads may have factors (`Cohort.factor`): members add shares times these, and errors are multiplied as updates
    are, so that more of the field is spent: see `crypto.lattice.spacing_of_weighed`.

    Members answer once, for one list of survivors: two answers, for S and for S without i, would give s_i.

    Raises:
      ValueError: an argument outside its range, or (when a round is traced) a cohort above `group_size` or below
        `committee`, or 2**32 bits or more to a member.

    Examples:
      >>> from fedjax_priv.crypto.lattice import spacing_of
      >>> spacing = spacing_of(10, coins=21, num_values=1000, failure=0.0)
      >>> grid, masks = quantize(2.0**16, max_terms=10 * spacing), one_shot_masks(group_size=10, spacing=spacing)
      >>> send = stack(mean=weighted_mean(), quantize=grid, masks=masks)
    """
    _validate.one_of((True, False), elide=elide)
    terms = terms_of(group_size, spacing, committee, threshold, fewest, length, coins, prg)
    combine = weighed(field_sum())

    def advertise(
        key: Key, state: tuple, cohort: Cohort, placement: Placement = ONE_DEVICE
    ) -> tuple[Array, Roster, Bits]:
        del state, placement
        return _open_round(terms, key, cohort)

    def encode(key: Key, seed: Array, roster: Roster, x: Array, cohort: Cohort) -> tuple[Array, tuple, Sent]:
        del key, cohort
        y = x if elide else _upload(terms, seed, roster.round[0], x)
        shares = jax.ShapeDtypeStruct((terms.committee, terms.length), jnp.uint32)
        return y, (), Sent(message_bits(y, len(y)) + message_bits(shares) + committed_sums.BITS, each=32)

    def disclose(
        seed: Array, roster: Roster, clear: tuple, alive: Array, online: Array, placement: Placement = ONE_DEVICE
    ) -> tuple[Opened, Bits]:
        del clear
        told = in_sum(alive, roster.factor).sum() >= terms.fewest
        sent = (online & roster.selected)[roster.member] & told
        sums, commitment = _sums_of_shares(terms, seed, roster, alive, placement)
        sums, commitment = only_rows(sent, sums), jnp.where(told, commitment, 0)
        share = message_bits(sums[0])
        counted(alive.size * 32 * (terms.length + 1))  # of all that a member may be sent
        relayed = alive.sum(dtype=jnp.uint32) * share + bits_to_tell(alive, roster.factor)
        relayed = jnp.where(alive[roster.member], relayed, 0)
        bits = {"unmask": committees.asked(roster, jnp.where(sent, share, 0), relayed)}
        return Opened(sums, sent, commitment), bits

    def decode(header: Opened, roster: Roster, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        del placement
        value, enough = received.value, header.sent.sum() >= terms.threshold
        count = jnp.where(enough, received.count, 0)
        if elide:
            return Received(value, count, jnp.zeros(1, jnp.int32))
        secret = sum_of_secrets(terms, header)
        masked = field.sub(value, lattice.noiseless(secret, roster.round[0], value.shape[1], terms.prg))
        value = field.from_signed(lattice.nearest(masked, terms.spacing))
        return Received(value, count, committed_sums.status(secret[0], header.commitment, enough))

    caveats = (ELIDED,) if elide else (HINT, UNKNOWN.format(length) if coins else NO_ERRORS)
    return Layer(
        lambda key, n: (), advertise, encode, disclose, decode, combine, caveats=caveats, needs_placement=True,
        sums=SecureSum(terms.fewest, opened_by=terms.threshold, spacing=spacing),
    )  # fmt: skip


def terms_of(
    group_size: int,
    spacing: int,
    committee: int | None,
    threshold: int | None,
    fewest: int | None,
    length: int,
    coins: int,
    prg: GeneratorName | Prg = "philox",
) -> Terms:
    """Checked arguments of `one_shot_masks`."""
    _validate.integer(at_least=2, group_size=group_size)
    _validate.integer(spacing=spacing, length=length)
    committees.at_most(matrix.MAX_TERMS, "the terms of an exact product", length=length)
    if spacing % 2 == 0:
        raise ValueError(f"spacing must be odd, so that no sum is halfway between two multiples, got {spacing}")
    committees.at_most(int(field.Q) // 4 // group_size, "q / 4 / group_size", spacing=spacing)
    committee, threshold, fewest = committees.sizes(group_size, committee, threshold, fewest)
    lattice.check_coins(coins)
    return Terms(group_size, spacing, committee, threshold, fewest, length, coins, generator(prg))


def _open_round(terms: Terms, key: Key, cohort: Cohort) -> tuple[UInt32[Array, "n s"], Roster, Bits]:
    """Every client draws a seed; nothing is sent."""
    committees.check_cohort(cohort.client.size, terms.group_size, committee=terms.committee)
    keys = each_named(key, ("seed", "committee"))
    member = committees.elected(keys["committee"], cohort.selected, terms.committee)
    seed = committees.own_seeds(keys["seed"], cohort.client, terms.prg.seed_words)
    return seed, Roster(cohort.round, cohort.selected, member, cohort.factor), {}


def secrets_of(terms: Terms, seed: UInt32[Array, "b s"], round: Array) -> UInt32[Array, "b k"]:
    """The secret s_i of each client."""
    return jax.vmap(lambda seed: expand(seed, "secret", round, terms.length, terms.prg))(seed)


def share_seed(seed: UInt32[Array, " s"], round: Array) -> UInt32[Array, " s"]:
    """From which a client draws the polynomials of its shares."""
    return expand(seed, "shares", round, len(seed))


def _upload(terms: Terms, seed: UInt32[Array, "b s"], round: Array, x: UInt32[Array, "b d"]) -> UInt32[Array, "b d"]:
    """`Delta x + A s + e` of each client."""
    mask = lattice.noiseless(secrets_of(terms, seed, round), round, x.shape[1], terms.prg)
    error = field.from_signed(lattice.errors(seed, round, x.shape[1], terms.coins, terms.prg))
    return field.add(field.mul(x, np.uint32(terms.spacing)), field.add(mask, error))


def _sums_of_shares(
    terms: Terms, seed: UInt32[Array, "n s"], roster: Roster, alive: Bool[Array, " n"], placement: Placement
) -> tuple[UInt32[Array, "c k"], UInt32[Array, " 2"]]:
    """For each member the sum of the shares that it got from survivors, recomputed from their seeds, each times the
    factor of its upload.

    Returns:
      These, and the sum of the survivors' commitments, times these factors.
    """

    def shares(round: Array, seed: Array) -> tuple[Array, Array]:
        coefficients, secrets = jax.vmap(lambda seed: share_seed(seed, round))(seed), secrets_of(terms, seed, round)
        given = shamir.share(coefficients, secrets, threshold=terms.threshold, num_shares=terms.committee)
        return given, committed_sums.committed(secrets)

    held = 4 * terms.length * (4 * terms.threshold + 2 * terms.committee)
    return committees.sums_held(shares, roster.round[0], (seed,), alive, held, placement, roster.factor)


def sum_of_secrets(terms: Terms, header: Opened) -> UInt32[Array, "1 k"]:
    """What the first members that answered open; anything, if they are too few."""
    point = jax.lax.optimization_barrier(jnp.asarray(shamir.points(terms.committee)))
    chosen = shamir.first(terms.threshold, header.sent)
    return matrix.matmul(lagrange.basis(point, jnp.zeros(1, jnp.uint32), chosen), header.sums)
