"""Random rounds of secure sums: what the server accepts is the plain sum, whatever went wrong.

python -m experiments.benchmarks.random_rounds --out results/random_rounds.json [--rounds 10000] [--protocols sparse]

Who is selected, whose upload arrives and who answers is random; in half of the rounds a word of a message is garbled,
where a protocol has messages that are checked. Sums are compared with those of Python integers.
In rounds that are "weighed" the server multiplies uploads by public integers, as in buffers of stale updates.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from experiments.benchmarks.garbled import Garbled, GarbledAnswers, accepted, garbling, garbling_answers
from fedjax_priv.base import Layer
from fedjax_priv.layers import (
    coded_masks,
    one_shot_masks,
    paired_coordinates,
    pairwise_masks,
    sparse_masks,
    thresholded_masks,
)
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.status import Status
from fedjax_priv.testing import cohort_of, layer_round

Q = 2**32 - 5
D = 3
SPACING = 211  # of one-shot masks of five clients: 2 * 21 * 5 + 1, so errors never add up to more than half of it
WEIGHED_SPACING = 1681  # where errors are multiplied by up to 8: 2 * 21 * 5 * 8 + 1
CHUNK = 1000
"""Rounds side by side in one program; the rounds of a protocol are that many, or a multiple."""


class Protocol(NamedTuple):
    """A layer, and what may be garbled."""

    layer: Layer
    clients: int
    words: Mapping[str, tuple[int, ...]] = {}  # shapes of messages, by field of `Garbled` or `GarbledAnswers`
    least: int = 1  # survivors that must have sent a coordinate
    most: int = Q // 2  # of a number in an upload
    factor: int = 0  # uploads are multiplied by integers up to it, as in buffers of stale ones; 0: they are not

    @property
    def garble(self) -> Any:
        """What garbles the layer, and the tuple it takes; None: nothing is garbled."""
        return None if not self.words else (garbling, Garbled) if "key" in self.words else (
            garbling_answers, GarbledAnswers
        )  # fmt: skip


def _pairs(n: int, holders: int) -> dict[str, tuple[int, ...]]:
    return {"key": (n, 2), "commitment": (n, 2), "shares": (n, holders, 4)}


def _answers(members: int, length: int) -> dict[str, tuple[int, ...]]:
    return {"sums": (members, length), "commitment": (2,)}


PROTOCOLS = {
    "complete": Protocol(pairwise_masks(group_size=5, threshold=3), 5, _pairs(5, 5)),
    "k-regular": Protocol(pairwise_masks(group_size=8, neighbours=4, threshold=2), 8, _pairs(8, 5)),
    "sparse": Protocol(sparse_masks(alpha=0.6, group_size=5, threshold=2, expand="dense"), 5, _pairs(5, 5)),
    "coded": Protocol(coded_masks(num_values=D, group_size=5, colluders=1, lost=2), 5, _answers(5, 2)),
    "one-shot": Protocol(
        one_shot_masks(group_size=5, spacing=SPACING, committee=4, threshold=2, fewest=2, length=2), 5, _answers(4, 2),
        most=(Q // 2 - SPACING // 2) // SPACING // 5,
    ),
    "weighed coded": Protocol(
        coded_masks(num_values=D, group_size=5, colluders=1, lost=2, holders=9), 5, _answers(5, 2), factor=64
    ),
    "weighed one-shot": Protocol(
        one_shot_masks(group_size=5, spacing=WEIGHED_SPACING, committee=4, threshold=2, fewest=2, length=2), 5,
        _answers(4, 2), most=(Q // 2 - WEIGHED_SPACING // 2) // WEIGHED_SPACING // 40, factor=8,
    ),
    "thresholded": Protocol(
        thresholded_masks(
            paired_coordinates(alpha=0.8, group_size=5), num_values=D, group_size=5, threshold=2, committee=4, quorum=2
        ), 5, least=2,
    ),
}  # fmt: skip


class Draws(NamedTuple):
    """Of so many rounds."""

    x: np.ndarray  # uint32 [rounds, n, D]
    selected: np.ndarray
    alive: np.ndarray
    online: np.ndarray
    garbled: dict[str, np.ndarray]
    factor: Any  # uint32 [rounds, n]; (): none

    @property
    def touched(self) -> np.ndarray:
        """In which rounds a word is garbled."""
        any_word = [words.reshape(len(self.x), -1).any(1) for words in self.garbled.values()]
        return np.any(any_word, 0) if any_word else np.zeros(len(self.x), bool)


def drawn(protocol: Protocol, rounds: int, seed: int) -> Draws:
    """Updates, who is selected, uploads, answers, and in half of the rounds a garbled word somewhere."""
    rng, n = np.random.default_rng((seed, protocol.clients)), protocol.clients
    x = (rng.integers(-protocol.most, protocol.most + 1, (rounds, n, D)) % Q).astype(np.uint32)
    rate = rng.random((2, rounds, 1)) ** 2  # rounds in which few are lost, and rounds in which many are
    selected = rng.random((rounds, n)) < 0.9
    alive = selected & (rng.random((rounds, n)) > rate[0])
    online = alive & (rng.random((rounds, n)) > rate[1])
    wrong = {name: np.zeros((rounds, *shape), np.uint32) for name, shape in protocol.words.items()}
    for round in np.flatnonzero(rng.random(rounds) < 0.5) if wrong else ():
        words = wrong[rng.choice([*wrong])][round].reshape(-1)
        words[rng.integers(words.size)] = rng.integers(1, Q)
    factor = rng.integers(0, protocol.factor + 1, (rounds, n), dtype=np.uint32) if protocol.factor else ()
    return Draws(x, selected, alive, online, wrong, factor)


class Found(NamedTuple):
    """What came of rounds, `[rounds]`."""

    accepted: np.ndarray
    right: np.ndarray  # the sum is the plain one
    empty: np.ndarray  # enough clients sent no coordinate at all, so there is no sum
    wrong_shares: np.ndarray  # the server found a message that does not fit


@functools.cache
def _program(name: str) -> Any:
    """`CHUNK` rounds side by side."""
    protocol = PROTOCOLS[name]

    def one(key: jax.Array, draws: Draws) -> tuple:
        layer = protocol.layer
        if protocol.garble:
            garble, words = protocol.garble
            layer = garble(layer, words(**draws.garbled))
        who = cohort_of(protocol.clients)._replace(selected=draws.selected, factor=draws.factor)
        alive, online = jnp.asarray(draws.alive), jnp.asarray(draws.online)
        outcome = layer_round(layer, key, draws.x, who, alive, online)
        clear, received = outcome["sent"].clear, outcome["received"]
        located = isinstance(clear, tuple)
        chosen = jnp.ones(draws.x.shape, bool) if located else jax.vmap(lambda words: bitmap.unpack(words, D))(clear)
        status = jnp.int32(0) if isinstance(received.status, tuple) else received.status[0]
        return accepted(outcome, who)[0], received.value[0], status, chosen

    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(jax.vmap(one), compiler_options=options)


def play(name: str, seed: int = 0) -> tuple[Draws, Found]:
    """`CHUNK` rounds of a protocol, and what came of them."""
    protocol = PROTOCOLS[name]
    draws = drawn(protocol, CHUNK, seed)
    keys = jax.random.split(jax.random.key(seed), CHUNK)
    taken, value, status, chosen = jax.device_get(_program(name)(keys, draws))
    sent = draws.alive[:, :, None] & chosen
    times = draws.factor[:, :, None] if protocol.factor else 1
    plain = (np.where(sent, draws.x, 0).astype(object) * times).sum(1) % Q
    enough = sent.sum(1) >= protocol.least
    right = (value == np.where(enough, plain, 0)).all(1)
    return draws, Found(taken, right, ~enough.any(1), (status & Status.WRONG_SHARES) > 0)


def counted(name: str, chunks: int) -> dict[str, int]:
    """A row of the table."""
    row: dict[str, int] = dict.fromkeys(("rounds", "accepted", "accepted and wrong", "garbled", "garbled and found"), 0)
    for draws, found in _played(name, chunks):
        row["rounds"] += CHUNK
        row["accepted"] += int(found.accepted.sum())
        row["accepted and wrong"] += int((found.accepted & ~found.right).sum())
        row["garbled"] += int(draws.touched.sum())
        row["garbled and found"] += int(found.wrong_shares.sum())
    return row


def _played(name: str, chunks: int) -> Iterator[tuple[Draws, Found]]:
    return (play(name, seed) for seed in range(chunks))


def measure(rounds: int, protocols: str) -> dict[str, Any]:
    """The table: a row for each protocol."""
    if rounds < 1 or rounds % CHUNK:
        raise SystemExit(f"rounds must be a multiple of {CHUNK}, got {rounds}")
    return {name: counted(name, rounds // CHUNK) for name in protocols.split(",")}


if __name__ == "__main__":
    script.main(__doc__, measure, rounds=10_000, protocols=",".join(PROTOCOLS))
