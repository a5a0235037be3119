"""What a secure sum costs beyond training: keys, shares, masks, uploads, opened secrets, and masks taken out again.

python -m experiments.benchmarks.secure_sums --out results/secure_sums.json [--cases sparse:100,sparse:1000]

A round starts from quantized uploads `[n, d]`; 30% of the users drop out. The table has wall-clock time, and processor
time divided by the number of cores, which depends less on other work on the machine.
"""

import functools
import json
import resource
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from fedjax_priv.base import Cohort, Layer, Placement, Received
from fedjax_priv.clients import everyone
from fedjax_priv.crypto.field import Q
from fedjax_priv.crypto.lattice import spacing_of
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.mesh import resolve_mesh
from fedjax_priv.keys import named
from fedjax_priv.layers import (
    coded_masks,
    one_shot_masks,
    paired_coordinates,
    pairwise_masks,
    sparse_masks,
    thresholded_masks,
)
from fedjax_priv.layers.secure_sum.expansion import most_ones

ALPHA, DROPOUT = 0.1, 0.3
LARGEST = 30_000
"""Number in an upload: 100 of them, times the spacing of one-shot sums, stay within the field."""
SPARSE, DENSE = 165_000, 159_010
"""Parameters: of the CIFAR-10 CNN of SparseSecAgg, and of the MLP 784-200-10."""


def thresholded(group_size: int) -> Layer:
    """Coordinates that three clients sent, opened by a committee of ten."""
    pairs = paired_coordinates(alpha=ALPHA, group_size=group_size)
    sent = 1 - (1 - ALPHA / (group_size - 1)) ** (group_size - 1)
    most = most_ones(SPARSE, sent, group_size)
    return thresholded_masks(pairs, num_values=SPARSE, most=most, group_size=group_size, threshold=3, committee=10)


def one_shot(group_size: int) -> Layer:
    """Secrets of 64 numbers; sums are wrong with a probability of at most 1e-12."""
    spacing = spacing_of(group_size, coins=21, num_values=DENSE, failure=1e-12)
    return one_shot_masks(group_size=group_size, spacing=spacing)


KINDS: dict[str, tuple[int, Callable[..., Layer]]] = {
    "sparse": (SPARSE, functools.partial(sparse_masks, alpha=ALPHA)),
    "sparse_reference": (SPARSE, functools.partial(sparse_masks, alpha=ALPHA, expand="dense")),
    "sparse_elided": (SPARSE, functools.partial(sparse_masks, alpha=ALPHA, elide=True)),
    "sparse_100_neighbours": (SPARSE, functools.partial(sparse_masks, alpha=ALPHA, neighbours=100)),
    "secagg": (DENSE, pairwise_masks),
    "secagg_20_neighbours": (DENSE, functools.partial(pairwise_masks, neighbours=20)),
    "lightsecagg": (DENSE, functools.partial(coded_masks, num_values=DENSE)),
    "one_shot": (DENSE, one_shot),
    "thresholded": (SPARSE, thresholded),
}
CASES = (
    "sparse:100,sparse:1000,sparse:4000,sparse_reference:100,sparse_elided:100,sparse_100_neighbours:10000,"
    "secagg:100,secagg_20_neighbours:100,lightsecagg:100,one_shot:100,thresholded:100"
)


def protocol(layer: Layer, n: int) -> jax.stages.Wrapped:
    """`run(key, upload [d])` is a round in which all users send the same upload."""
    placement = Placement(None, resolve_mesh("auto"))
    layer, combine = layer.placed(placement), layer.combine
    assert combine

    def run(key: jax.Array, x: jax.Array) -> tuple:
        who, _ = everyone().apply(named(key, "cohort"), (), jnp.int32(0), jnp.ones(n, jnp.int32))
        private, public, _ = layer.advertise(named(key, "advertise"), (), who)
        alive = jax.random.permutation(named(key, "dropout"), n) >= round(DROPOUT * n)

        def upload(shared: tuple, valid: jax.Array, who: Cohort, private: tuple, alive: jax.Array) -> tuple:
            x, public = shared
            y, _, sent = layer.encode(key, private, public, jnp.broadcast_to(x, (alive.size, x.size)), who)
            bits, status = (jnp.broadcast_to(jnp.uint32(a), alive.shape) for a in (sent.bits, sent.status))
            return combine.lift(y, alive & valid, who.group), (bits, status, sent.clear)

        sums, (bits, status, clear) = over_clients(
            upload, (x, public), (who, private, alive), row_bytes=12 * x.size, **placement._asdict()
        )
        header, _ = layer.disclose(private, public, clear, alive, alive)
        received = layer.decode(header, public, combine.lower(sums))
        return received, status.max(), jnp.where(alive, bits, 0).sum() / alive.sum()

    return jax.jit(run)


def measure(case: str, repeats: int) -> dict[str, float]:
    """A row of the table."""
    kind, n = case.split(":")
    d, make = KINDS[kind]
    jitted = protocol(make(group_size=int(n)), int(n))
    x, keys = 1 + jnp.arange(d, dtype=jnp.uint32) % LARGEST, jax.random.split(jax.random.key(0), repeats + 1)
    run, compiled = script.timed(lambda: jitted.lower(keys[0], x).compile())
    received, status, bits = jax.block_until_ready(run(keys[0], x))
    wall, processor = [], []
    for key in keys[1:]:
        used = time.process_time()
        (received, status, bits), took = script.timed(lambda key=key: run(key, x))
        processor.append((time.process_time() - used) / jax.device_count())
        wall.append(took)
        check(case, received, int(status), np.asarray(x))
    return {
        "users": int(n), "parameters": d, "survivors": int(received.count[0]),
        "seconds": statistics.median(wall), "least": min(wall), "most": max(wall),
        "processor_seconds_over_cores": statistics.median(processor),
        "compile_seconds": compiled, "upload_megabytes": float(bits) / 8e6,
        "peak_gigabytes_so_far": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def check(case: str, received: Received, status: int, x: np.ndarray) -> None:
    """Every coordinate of the sum must be a whole number of uploads; in a dense sum, those of all survivors."""
    count, total = int(received.count[0]), np.asarray(received.value[0]).astype(np.int64)
    uploads = total / x
    expected = count if KINDS[case.split(":")[0]][0] == DENSE else np.clip(np.rint(uploads), 0, count)
    if status or not count or (uploads != expected).any():
        raise RuntimeError(f"{case}: the round failed, status {status}, {count} uploads")


def numpy_masks(n: int, d: int) -> None:
    """The pairwise masks of all users in NumPy, on one core: PCG64 words added modulo q."""
    for user in range(n):
        total = np.zeros(d, np.uint64)
        for peer in range(n):
            if peer != user:
                words = np.random.default_rng(min(user, peer) * n + max(user, peer)).integers(0, Q, d, np.uint32)
                total = total + words if peer > user else total + (np.uint64(Q) - words)
        total %= Q


def table(cases: str, repeats: int) -> dict[str, object]:
    """A row for each case, printed as it is measured."""
    rows: dict[str, object] = {}
    for case in cases.split(","):
        rows[case] = measure(case, repeats)
        print(case, json.dumps(rows[case]), flush=True)
    masks = {"users": 100, "parameters": DENSE, "seconds": script.seconds(lambda: numpy_masks(100, DENSE))}
    return rows | {"numpy_masks:100": masks}


if __name__ == "__main__":
    script.main(__doc__, table, cases=CASES, repeats=3)
