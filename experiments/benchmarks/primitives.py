"""Primitives that a round is made of, against ceilings measured in the same call: copy bandwidth and matmul rate.

python -m experiments.benchmarks.primitives --small --out primitives.json
"""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from fedjax_priv import ClientData, clients, losses, models, systems
from fedjax_priv.crypto import prg
from fedjax_priv.models.client_convolution import conv


class Sizes(NamedTuple):
    """How much each primitive does."""

    copied: int  # float32 values
    matmul: int
    words: int  # of each of `seeds` seeds
    seeds: int  # a multiple of 16
    clients: int
    d: int
    top: int  # largest coordinates that are kept
    repeats: int


SMALL = Sizes(copied=2**24, matmul=1024, words=2**16, seeds=16, clients=8, d=2**16, top=2**8, repeats=5)
LARGE = Sizes(copied=2**28, matmul=8192, words=2**20, seeds=64, clients=64, d=2**20, top=2**12, repeats=10)
COPIES = 8


class Row(NamedTuple):
    """One form of one primitive; `fraction` of the copy bandwidth or of the matmul rate."""

    primitive: str
    form: str
    seconds: float
    rate: float
    unit: str
    fraction: float | None = None


def table(small: bool) -> dict[str, Any]:
    """All rows, and the sizes they were measured at; `--small` is for a laptop's CPU."""
    sizes = SMALL if small else LARGE
    return {"sizes": sizes._asdict(), "rows": [row._asdict() for row in measure(sizes)]}


def measure(sizes: Sizes) -> list[Row]:
    """The ceilings, then every primitive."""
    rng = np.random.default_rng(0)
    values = jnp.asarray(rng.standard_normal(sizes.copied, np.float32))
    square = jnp.asarray(rng.standard_normal((sizes.matmul, sizes.matmul), np.float32))
    copy = _row("ceiling", "copy", _copies, (values,), 8 * COPIES * sizes.copied, "B/s", sizes)
    matmul = _row("ceiling", "matmul", jnp.matmul, (square, square), 2 * sizes.matmul**3, "FLOP/s", sizes)
    rows = [copy, matmul]
    rows += _masks(sizes, rng)
    rows += [row._replace(fraction=row.rate / matmul.rate) for row in _convolutions(sizes, rng)]
    for row in (*_order_statistics(sizes, rng), *_scatters(sizes, rng)):
        rows.append(row._replace(fraction=4 * row.rate / copy.rate))
    return rows + _blocks(sizes, rng)


def _copies(values: jax.Array) -> jax.Array:
    """Each reads and writes all values; several, because the first also pays for the memory it is given."""
    return jax.lax.fori_loop(0, COPIES, lambda _, a: a + 1, values)


def _masks(sizes: Sizes, rng: np.random.Generator) -> list[Row]:
    """Words of masks, summed over seeds so that no more are stored than are expanded side by side."""
    seeds = jnp.asarray(rng.integers(0, 2**32 - 5, (sizes.seeds, 8), np.uint32))
    count = sizes.seeds * sizes.words

    def total(generator: prg.Prg, lanes: int) -> Callable:
        def expand(total: jax.Array, seeds: jax.Array) -> tuple[jax.Array, None]:
            words = jax.vmap(lambda seed: prg.expand(seed, "mask", 0, sizes.words, generator))(seeds)
            return total + words.sum(0), None

        at_once = lambda seeds: seeds[:, : generator.seed_words].reshape(-1, lanes, generator.seed_words)
        return lambda seeds: jax.lax.scan(expand, jnp.zeros(sizes.words, jnp.uint32), at_once(seeds))[0]

    forms = {"philox": prg.philox, "threefry": prg.threefry, "chacha20": prg.chacha20}
    return [
        _row("mask", f"{name}, {lanes} at a time", total(form, lanes), (seeds,), count, "words/s", sizes)
        for name, form in forms.items()
        for lanes in (1, 4, 16)
    ]


def _convolutions(sizes: Sizes, rng: np.random.Generator) -> list[Row]:
    """Gradients of the second convolution of McMahan's CNN, 20 images of each client, each with its own kernel."""
    x = jnp.asarray(rng.standard_normal((sizes.clients, 20, 12, 12, 32), np.float32))
    kernel = jnp.asarray(rng.standard_normal((sizes.clients, 5, 5, 32, 64), np.float32))
    layout = jax.lax.conv_dimension_numbers(x.shape[1:], kernel.shape[1:], ("NHWC", "HWIO", "NHWC"))

    def gradient(convolve: Callable) -> Callable:
        loss = lambda x, kernel: (convolve(x, kernel, (1, 1), "VALID", dimension_numbers=layout) ** 2).sum()
        return jax.vmap(jax.grad(loss, argnums=(0, 1)))

    flops = 3 * 2 * sizes.clients * 20 * 8 * 8 * 25 * 32 * 64
    forms = {"models.conv": conv, "lax.conv under vmap": jax.lax.conv_general_dilated}
    return [_row("convolution", name, gradient(f), (x, kernel), flops, "FLOP/s", sizes) for name, f in forms.items()]


def _order_statistics(sizes: Sizes, rng: np.random.Generator) -> list[Row]:
    """Along clients, and the largest coordinates of each client; a rate of values read."""
    values, count = jnp.asarray(rng.standard_normal((sizes.clients, sizes.d), np.float32)), sizes.clients * sizes.d
    low = sizes.clients // 4
    along = {
        "sort": lambda a: jnp.sort(a, axis=0)[low:-low].mean(0),
        "sort of the transpose": lambda a: jnp.sort(a.T, axis=1)[:, low:-low].mean(1),
        "top_k of the transpose": lambda a: jax.lax.top_k(a.T, sizes.clients - low)[0][:, low:].mean(1),
    }
    top = {
        "lax.top_k": lambda a: jax.lax.top_k(jnp.abs(a), sizes.top),
        "lax.approx_max_k": lambda a: jax.lax.approx_max_k(jnp.abs(a), sizes.top),
        "sort": lambda a: jnp.sort(jnp.abs(a), axis=1)[:, -sizes.top :],
    }
    return [
        _row(name, form, f, (values,), count, "values/s", sizes)
        for name, forms in (("trimmed mean", along), ("top-K", top))
        for form, f in forms.items()
    ]


def _scatters(sizes: Sizes, rng: np.random.Generator) -> list[Row]:
    """Integers added at a tenth of the coordinates of each client, as a sparse mask does."""
    kept = sizes.d // 10
    at = jnp.asarray(rng.integers(0, sizes.d, (sizes.clients, kept), np.int32))
    values = jnp.asarray(rng.integers(0, 2**32, (sizes.clients, kept), np.uint32))
    add = lambda at, values: jnp.zeros(sizes.d, jnp.uint32).at[at].add(values)
    forms = {"any order": (at, values), "sorted by client": (jnp.sort(at, axis=1), values)}
    count = sizes.clients * kept
    return [_row("scatter-add", form, add, given, count, "values/s", sizes) for form, given in forms.items()]


def _blocks(sizes: Sizes, rng: np.random.Generator) -> list[Row]:
    """Rounds of FedAvg with the MLP 784-200-10, three steps of 20, by clients in a block."""
    n, m = 8 * sizes.clients, 60
    x, y = rng.random((n, m, 28, 28, 1), np.float32), rng.integers(0, 10, (n, m), np.int32)
    data = ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.full(n, m, jnp.int32))
    model, key = models.mlp((28, 28, 1), 10), jax.random.key(0)
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.05, batch_size=20, num_steps=3)

    def row(block: int) -> Row:
        system = systems.fedavg(local, block=block)
        state = system.init(key, model.init(key), data)
        return _row("round", f"block {block}", system.step, (key, state, data), n, "clients/s", sizes)

    return [row(block) for block in (1, 2, 4, 8, 16, 32)]


def _row(primitive: str, form: str, f: Callable, given: tuple, count: int, unit: str, sizes: Sizes) -> Row:
    """Times a compiled function; the rate is `count` divided by the median."""
    run = jax.jit(f)
    jax.block_until_ready(run(*given))
    median = statistics.median(script.seconds(lambda: run(*given)) for _ in range(sizes.repeats))
    return Row(primitive, form, median, count / median, unit)


if __name__ == "__main__":
    script.main(__doc__, table, small=False)
