"""Masked uploads compared with random words: what a secure sum promises for each single upload.

An upload is a value plus a pad, in F_q or modulo 2**bits. If pads are uniform and fresh, an upload has the law of
random words, whatever the server opens later: eps = 0. The two worlds are the real pads, and uniform words instead of
them. A twin of the system with its masks elided sends the same values in the clear, and so yields the pads.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from fedjax_priv.audit.bounds.guessing import check_trials
from fedjax_priv.audit.by_release import Subject
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.audit.readings import looked_at
from fedjax_priv.audit.verdicts import Finding, Tried, claims_of, finding
from fedjax_priv.audit.worlds import Make, Worlds
from fedjax_priv.base import Key, View, absent
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.engine.batches import in_batches
from fedjax_priv.keys import named
from fedjax_priv.layers.secure_sum import bitmap, opening
from fedjax_priv.layers.secure_sum.masked_sum import Protocol, private_masks, seeds_of
from fedjax_priv.ledger import Entry, Figure
from fedjax_priv.ledger.entry import none

ROUNDS, _WORDS = 2, 32
"""Rounds of a trial, and at most how many words of an upload are looked at."""
_FEWEST_WORDS, _ALL_WORDS = 4, 4096
"""At least so many words of an upload are looked at, and about so many of all uploads of a large cohort."""
_COMPARED = 2**14
"""About so many words of all uploads of a round are compared with each other."""


Words = UInt32[Array, "*t r n w"] | UInt32[np.ndarray, "*t r n w"]


ENTRY = Entry(
    "the server, of each upload alone", "an upload, or random words in its place", none("no paper states an eps"),
    Figure(0.0, 0.0, "words of the generator of masks as good as uniform"), view="upload",
)  # fmt: skip


class Pads(NamedTuple):
    """Pads of all clients of the cohort, at some coordinates: `[trials, rounds, n, w]`."""

    pad: Words
    opened: Words  # the pads minus every mask that the server can compute from opened values
    compared: Words  # as `opened`, at more coordinates
    differs: Array | np.ndarray  # bool [trials], whether masks changed the aggregate


def pads(
    make: Make,
    unmasked: Make,
    key: Key,
    *,
    params: PyTree,
    num_clients: int,
    trials: int,
    protocol: Protocol | None = None,
    layer: str = "mask",
    at_once: int = 20,
) -> Pads:
    """Runs the system and its twin without masks on the same random updates.

    Args:
      make: the system, as in `worlds.scores`. Its uploads are integers modulo `protocol.modulus`, in F_q if `protocol`
        is None.
      unmasked: the same system with masks elided, or with the same field elements in the clear.
      key: root key of all trials.
      params: of the first model.
      num_clients: n.
      trials: at least 4, of two rounds each.
      protocol: how uploads are masked; None: opened values let the server compute no mask.
      layer: name of the mask layer.
      at_once: trials computed side by side.
    """
    check_trials(trials)
    size, data = sum(leaf.size for leaf in jax.tree.leaves(params)), no_samples(num_clients)

    def trial(key: Key) -> Pads:
        sent = sending(jax.random.normal(named(key, "updates"), (num_clients, size)))
        systems = [make(sent, lambda view: view), unmasked(sent, lambda view: view)]

        def step(states: tuple, t: Array) -> tuple:
            after, infos = zip(
                *(s.step(key, state, data) for s, state in zip(systems, states, strict=True)), strict=True
            )
            masked, plain = infos
            found = _pads(masked.observed, plain.observed, protocol, layer, jax.random.fold_in(key, t))
            return after, (*found, (masked.direction != plain.direction).any())

        start = tuple(s.init(key, params, data) for s in systems)
        *words, differs = jax.lax.scan(step, start, jnp.arange(ROUNDS))[1]
        return Pads(*words, differs=differs.any())

    run = jax.jit(lambda keys: in_batches(trial, keys, at_once))
    return jax.tree.map(np.asarray, run(jax.random.split(key, trials)))


def upload_finding(subject: Subject, key: Key, *, trials: int, confidence: float = 0.95) -> Finding:
    """Audits the masks of a secure sum: can each client's upload alone be told from random words?

    Args:
      subject: must have `unmasked`.
      key: root key of all runs.
      trials: at least 4, of two rounds each, with masks.
      confidence: of the comparison with eps = 0.

    Raises:
      ValueError: a subject without `unmasked`, or too few trials.
    """
    if subject.unmasked is None:
        raise ValueError("subject must have unmasked, the same system with its masks elided, got None")
    protocol = getattr(subject.release, "masks", None)
    found = pads(
        subject.make, subject.unmasked, named(key, "pads"), params=subject.params,
        num_clients=int(subject.data.count.size), trials=trials, protocol=protocol,
    )  # fmt: skip
    return judged(found, int(jax.random.bits(named(key, "words"))), confidence, _modulus(protocol))


def judged(found: Pads, seed: int, confidence: float, modulus: Modulus = FIELD) -> Finding:
    """The finding for these pads; `seed` draws the uniform words."""
    words = against_uniform(found, seed, modulus)
    return finding(
        ENTRY, claims_of(ENTRY, [], None), [Tried("masked upload", words)], delta=0.0, confidence=confidence,
        who=ENTRY.adversary,
    )  # fmt: skip


def _modulus(protocol: Protocol | None) -> Modulus:
    return FIELD if protocol is None else protocol.modulus


def _pads(masked: View, plain: View, protocol: Protocol | None, layer: str, key: Key) -> list[Array]:
    """`pad`, `opened` and `compared` of `Pads` for one round; random words where nothing was sent."""
    sub = _modulus(protocol).sub
    pad = sub(masked.uploads, plain.uploads)
    n, d = pad.shape
    located = masked.clear[layer]
    chosen = jnp.ones(pad.shape, bool) if absent(located) else jax.vmap(lambda w: bitmap.unpack(w, d))(located)
    chosen &= masked.alive[:, None]
    known = jnp.zeros(pad.shape, jnp.uint32) if protocol is None else _known(protocol, masked, layer, d)
    opened = sub(pad, known)
    at = looked_at(d, min(_WORDS, max(_FEWEST_WORDS, _ALL_WORDS // n)))
    words = [(pad, at), (opened, at), (opened, _compared_at(d, n))]

    def sent(part: Key, rows: Array, at: np.ndarray) -> Array:
        nothing = jax.random.bits(part, (n, at.size)) & np.uint32(2 ** _modulus(protocol).bits - 1)
        return jnp.where(chosen[:, at], rows[:, at], nothing)

    parts = jax.random.split(named(key, "nothing"), len(words))
    return [sent(part, *one) for part, one in zip(parts, words, strict=True)]


def _compared_at(d: int, n: int) -> np.ndarray:
    """Random coordinates, always the same: evenly spaced ones would miss pads that repeat at another distance."""
    return np.sort(np.random.default_rng(0).permutation(d)[: max(_WORDS, _COMPARED // n)])


def _known(protocol: Protocol, view: View, layer: str, d: int) -> UInt32[Array, "n d"]:
    """The sum of the masks on each upload that the server can compute: the private mask and those with lost peers."""
    roster, header = view.public[layer], view.header[layer]
    rebuilt = opening.reconstruct(protocol.quorum, header, roster)
    lost = roster.selected & ~header.alive & rebuilt.known
    sub = protocol.modulus.sub

    def with_lost(total: Array, slot: Array) -> tuple[Array, None]:
        of_lost = protocol, roster, slot[None], rebuilt.secrets[slot][None], header.alive, lost[slot][None]
        peer, *shared = (one[0] for one in seeds_of(*of_lost))
        theirs = protocol.expansion.pairs(*(one[:, None] for one in shared), roster.round[0], d).mask
        own = jnp.where(shared[1], peer, len(total))
        return total.at[own].set(sub(total[peer], theirs), mode="drop"), None

    private = private_masks(protocol, roster, rebuilt.secrets, d)
    opened = header.alive & rebuilt.known
    return jax.lax.scan(with_lost, jnp.where(opened[:, None], private, 0), jnp.arange(lost.size))[0]


def against_uniform(found: Pads, seed: int, modulus: Modulus = FIELD) -> Worlds:
    """Columns `[trials, s]` for real pads and for uniform words; both have the same law if the pads are good.

    The columns are means by client, by coordinate and over all, of: words that are 0 (the upload is in the clear), or
    0 without opened masks; words equal in two trials, clients or coordinates, or equal or opposite in two rounds; and
    the bytes of words. Then chi-square of the bytes; by client and over all, the fraction of words that are 0, and of
    words equal or opposite to another word of the client; and whether masks changed the aggregate.
    """
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, modulus.size, real.shape, dtype=np.uint32) for real in found[:-1]]
    ideal = Pads(*words, differs=np.zeros(len(found.differs), bool))
    return Worlds(_columns(found, modulus), _columns(ideal, modulus))


def _columns(found: Pads, modulus: Modulus) -> np.ndarray:
    pad, opened, compared, differs = (np.asarray(words) for words in found)
    ordered = np.sort(pad, axis=2)
    bytes_of = [opened >> shift & 255 for shift in (*range(0, modulus.bits - 8, 8), max(modulus.bits - 8, 0))]
    words = [
        pad == 0, opened == 0, *(rows == np.roll(rows, 1, axis) for rows, axis in ((pad, 0), (ordered, 2), (pad, 3))),
        *(pad[:, :1] == again for again in (pad[:, 1:], (modulus.size - pad[:, 1:].astype(np.int64)))),
        *bytes_of,
    ]  # fmt: skip
    means = [one.mean(axes) for one in words for axes in (2, (1, 3), (1, 2, 3))]
    of_bytes = [rows for one in bytes_of for rows in (np.moveaxis(one, 2, 1), one[:, None])]
    of_clients = [
        share for one in ((compared == 0).mean((1, 3)), _again(compared, modulus)) for share in (one, one.mean(1))
    ]
    columns = [*means, *map(_chi_square, of_bytes), *of_clients, differs]
    return np.concatenate([np.asarray(a, np.float64).reshape(len(pad), -1) for a in columns], axis=1)


def _again(words: np.ndarray, modulus: Modulus) -> np.ndarray:
    """Fraction of a client's words that are equal or opposite to another of its words in any round: `[trials, n]`."""
    either = np.minimum(words, modulus.size - words.astype(np.int64))
    ordered = np.sort(np.moveaxis(either, 2, 1).reshape(len(words), words.shape[2], -1))
    return (ordered[..., 1:] == ordered[..., :-1]).mean(-1)


def _chi_square(values: np.ndarray) -> np.ndarray:
    """Chi-square of the bytes of each trial and row, up to scale: `[trials, rows, ...]` to `[trials, rows]`."""
    rows = values.reshape(*values.shape[:2], -1)
    flat = rows.reshape(-1, rows.shape[2]).astype(np.int64)
    counts = np.stack([np.bincount(row, minlength=256) for row in flat])
    return np.square(counts - rows.shape[2] / 256).sum(1).reshape(rows.shape[:2])
