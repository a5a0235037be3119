"""Masks whose sum survivors decode at once: LightSecAgg (So et al., MLSys 2022).

Client i adds a uniform mask z_i. It cuts z_i into U - T pieces, adds T random pieces, and sends client j the share
`f_i(alpha_j)`, where f_i is the polynomial of degree U - 1 through the pieces at `beta_1, ..., beta_U`. Once the
survivors S are known, each sends ONE vector, `sum_S f_i(alpha_j)`. Any U of these vectors give `sum_S f_i`, and so
`sum_S z_i`, whoever was lost. T shares of a mask are independent of it, as no alpha is a beta.

Clients commit to their masks, so that the server notices a share or an answer that is garbled: it costs the round.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Key, Layer, Link, Placement, Received, SecureSum, Sent
from fedjax_priv.crypto import field, lagrange, matrix, shamir
from fedjax_priv.crypto.prg import GeneratorName, Prg, expand, generator, philox
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.group_sums import field_sum, message_bits
from fedjax_priv.layers.secure_sum import committed_sums
from fedjax_priv.layers.secure_sum import committee as committees
from fedjax_priv.layers.secure_sum.committee import Roster
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from fedjax_priv.layers.secure_sum.public_factors import bits_to_tell, in_sum, weighed


class Code(NamedTuple):
    """What everybody knows before any round."""

    group_size: int  # N
    colluders: int  # T
    threshold: int  # U
    num_values: int  # d
    holders: int  # of shares of a mask, its owner among them
    prg: Prg = philox  # of masks and pieces

    @property
    def pieces(self) -> int:
        """U - T, of a mask."""
        return self.threshold - self.colluders

    @property
    def length(self) -> int:
        """L, words of a piece and of a share."""
        return -(-self.num_values // self.pieces)


class Opened(NamedTuple):
    """What the server is sent once the survivors are known."""

    sums: UInt32[Array, "n l"]  # of the survivors' shares that each client holds; zero: not sent
    sent: Bool[Array, " n"]
    commitment: UInt32[Array, " 2"]  # to the sum of the survivors' masks


def coded_masks(
    *,
    num_values: int,
    group_size: int,
    colluders: int | None = None,
    lost: int | None = None,
    threshold: int | None = None,
    holders: int | None = None,
    elide: bool = False,
    prg: GeneratorName | Prg = "philox",
) -> Layer:
    """The innermost layer of LightSecAgg: exact sums of uploads `[b, d]` of field elements.

    The round is recovered exactly if at least `threshold` uploads arrive and as many of these clients answer. A client
    answers once, and only if it is told that at least `threshold` uploads arrived. If it answered twice, for S and for
    S without i, the two answers would give z_i. Shares are recomputed from the seed of each client's mask when
    survivors are known, so that they are never all held; bits are those of the shares.

    Args:
      num_values: d, numbers in an upload.
      group_size: N, most clients of a round, at least 2; a larger cohort is refused.
      colluders: T, clients from whose shares together nothing can be learned, at least 1; N / 2 rounded down if not
        given.
      lost: D, clients that may be lost, T + D < N; 3 N / 10 rounded down if not given.
      threshold: U, T < U <= N - D; N - D if not given. The server needs U answers to decode the sum of masks, and sums
        of fewer than U uploads are not opened. A share has d / (U - T) numbers.
      holders: clients with numbers below this hold shares; the clients of the round if not given. Give the size of the
        population if a client may send shares in one round and others answer for it in a later one.
      elide: neither mask nor code. The aggregate has the same bits, but uploads are in the clear; reports say so.
      prg: generator of masks and pieces, from seeds of 64 bits ("philox", "threefry") or 256 ("chacha20").

    Uploads may have factors (`Cohort.factor`): holders then answer with the sum of the shares, each times the factor of
    its upload, and the server gets the sum of the updates, each times its factor. With `holders`, shares are sent when
    jobs begin. Their bits are counted in the round in which the job's upload arrives, as many down as up: in the long
    run a client receives as many shares as it sends, if all have as many jobs.

    Masks and pieces are words of a generator. If they were uniform, T clients and the server together would learn only
    the sum.

    Raises:
      ValueError: a size outside its range, shares of a client of 512 MiB or more, or (when a round is traced) a cohort
        above `group_size` or below `threshold`, or uploads of another length.
        A client of the round whose number is not below `holders` makes the round fail.

    Examples:
      >>> masks = coded_masks(num_values=1000, group_size=10, colluders=4, lost=3)
      >>> masks.sums.threshold
      7
    """
    _validate.one_of((True, False), elide=elide)
    code = code_of(num_values, group_size, colluders, lost, threshold, holders, prg)
    combine = weighed(field_sum())

    def advertise(
        key: Key, state: tuple, cohort: Cohort, placement: Placement = ONE_DEVICE
    ) -> tuple[Array, Roster, Bits]:
        del state, placement
        return _open_round(code, key, cohort, by_number=holders is not None)

    def encode(key: Key, seed: Array, roster: Roster, x: Array, cohort: Cohort) -> tuple[Array, tuple, Sent]:
        del key, cohort
        if x.shape[1] != code.num_values:
            raise ValueError(f"num_values must be the numbers in an upload, {x.shape[1]}, got {code.num_values}")
        y = x if elide else field.add(_masks(code, seed, roster.round[0])[:, : x.shape[1]], x)
        return y, (), Sent(message_bits(y, len(y)))

    def disclose(
        seed: Array, roster: Roster, clear: tuple, alive: Array, online: Array, placement: Placement = ONE_DEVICE
    ) -> tuple[Opened, Bits]:
        del clear
        told = (in_sum(alive, roster.factor).sum() >= code.threshold) & (roster.place < code.holders).all()
        sent = online & told
        sums, commitment = jnp.zeros((len(alive), code.length), jnp.uint32), jnp.zeros(2, jnp.uint32)
        if not elide:
            sums, commitment = _sums_of_shares(code, seed, roster, alive, placement)
            sums, commitment = only_rows(sent, sums), jnp.where(told, commitment, 0)
        up = jnp.where(sent, message_bits(sums[0]), 0)
        listed = 8 * ((roster.selected.sum(dtype=jnp.uint32) + 7) // 8) + bits_to_tell(alive, roster.factor)
        return Opened(sums, sent, commitment), {"unmask": Link(up, jnp.where(alive, listed, 0))}

    def decode(header: Opened, roster: Roster, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        del placement
        enough = header.sent.sum() >= code.threshold
        count = jnp.where(enough, received.count, 0)
        if elide:
            return Received(received.value, count, jnp.zeros(1, jnp.int32))
        mask = _sum_of_masks(code, header, roster)
        value = field.sub(received.value, mask[None, : received.value.shape[1]])
        return Received(value, count, committed_sums.status(mask, header.commitment, enough))

    return Layer(
        lambda key, n: (), advertise, encode, disclose, decode, combine,
        caveats=(ELIDED,) if elide else (), needs_placement=True,
        sums=SecureSum(code.threshold, opened_by=code.colluders + 1),
    )  # fmt: skip


def code_of(
    num_values: int,
    group_size: int,
    colluders: int | None,
    lost: int | None,
    threshold: int | None,
    holders: int | None = None,
    prg: GeneratorName | Prg = "philox",
) -> Code:
    """Checked arguments of `coded_masks`."""
    _validate.integer(num_values=num_values)
    _validate.integer(at_least=2, group_size=group_size)
    if group_size > matrix.MAX_TERMS:
        raise ValueError(
            f"group_size must be at most the terms of an exact product = {matrix.MAX_TERMS}, got {group_size}"
        )
    colluders = group_size // 2 if colluders is None else colluders
    lost = 3 * group_size // 10 if lost is None else lost
    _validate.integer(colluders=colluders)
    _validate.integer(at_least=0, lost=lost)
    if colluders + lost >= group_size:
        raise ValueError(f"colluders + lost must be below group_size = {group_size}, got {colluders} + {lost}")
    threshold = group_size - lost if threshold is None else threshold
    _validate.integer(threshold=threshold)
    if not colluders < threshold <= group_size - lost:
        raise ValueError(
            f"threshold must be above colluders = {colluders} and at most group_size - lost = {group_size - lost}, "
            f"got {threshold}"
        )
    holders = group_size if holders is None else holders
    _validate.integer(at_least=group_size, holders=holders)
    code = Code(group_size, colluders, threshold, num_values, holders, generator(prg))
    message_bits(jax.ShapeDtypeStruct((holders - 1, code.length), jnp.uint32))
    return code


def points(code: Code) -> tuple[UInt32[Array, " n"], UInt32[Array, " u"]]:
    """Where shares and pieces are values of the polynomials, alpha and beta: distinct, and none is both."""
    beta = jnp.arange(1, code.threshold + 1, dtype=jnp.uint32)
    alpha = jnp.arange(code.threshold + 1, code.threshold + code.holders + 1, dtype=jnp.uint32)
    return jax.lax.optimization_barrier((alpha, beta))  # else XLA would compute weights while it compiles


def _open_round(code: Code, key: Key, cohort: Cohort, *, by_number: bool) -> tuple[UInt32[Array, "n s"], Roster, Bits]:
    """Every client draws a seed, commits to its mask, and sends a share of it to each other one."""
    n = cohort.client.size
    committees.check_cohort(n, code.group_size, threshold=code.threshold)
    seed = committees.own_seeds(key, cohort.client, code.prg.seed_words)
    holders = jnp.uint32(code.holders) if by_number else cohort.selected.sum(dtype=jnp.uint32)
    others = jnp.maximum(holders, 1) - 1
    share = message_bits(jax.ShapeDtypeStruct((code.length,), jnp.uint32))
    shares = jnp.where(cohort.selected, others * share, 0)
    bits = {"advertise": committed_sums.sending(cohort.selected), "share": Link(shares, shares)}
    rows = jnp.arange(n)
    return seed, Roster(cohort.round, cohort.selected, rows, cohort.factor, cohort.client if by_number else rows), bits


def _masks(code: Code, seed: UInt32[Array, "b s"], round: Array) -> UInt32[Array, "b w"]:
    """Of each client, `[b, (U - T) L]`; words after the first d cover nothing."""
    return jax.vmap(lambda seed: expand(seed, "coded mask", round, code.pieces * code.length, code.prg))(seed)


def pieces_of(code: Code, seed: UInt32[Array, "b s"], round: Array) -> UInt32[Array, "u b l"]:
    """The pieces of each client's mask, and T random ones."""
    own = lambda seed: expand(seed, "random pieces", round, code.colluders * code.length, code.prg)
    random = jax.vmap(own)(seed)
    words = jnp.concatenate([_masks(code, seed, round), random], 1)
    return jnp.moveaxis(words.reshape(len(seed), code.threshold, code.length), 1, 0)


def _sums_of_shares(
    code: Code, seed: UInt32[Array, "n s"], roster: Roster, alive: Bool[Array, " n"], placement: Placement
) -> tuple[UInt32[Array, "n l"], UInt32[Array, " 2"]]:
    """For each client the sum of the shares that survivors have sent it, and that of the survivors' commitments, each
    times the factor of its upload.
    """
    n, (alpha, beta) = len(seed), points(code)

    def shares(shared: tuple, seed: Array) -> tuple[Array, Array]:
        weights, round = shared
        pieces = pieces_of(code, seed, round)
        of_holders = matrix.matmul(weights, pieces.reshape(code.threshold, -1))
        mask = jnp.moveaxis(pieces[: code.pieces], 1, 0).reshape(len(seed), -1)
        return jnp.moveaxis(of_holders.reshape(n, len(seed), code.length), 1, 0), committed_sums.committed(mask)

    shared = lagrange.basis(beta, alpha[roster.place]), roster.round[0]
    held = 12 * (code.threshold + n) * code.length
    return committees.sums_held(shares, shared, (seed,), alive, held, placement, roster.factor)


def _sum_of_masks(code: Code, header: Opened, roster: Roster) -> UInt32[Array, " w"]:
    """What the first U answers decode to."""
    alpha, beta = points(code)
    chosen = shamir.first(code.threshold, header.sent)
    weights = lagrange.basis(alpha[roster.place], beta[: code.pieces], chosen)
    return matrix.matmul(weights, header.sums).reshape(-1)
