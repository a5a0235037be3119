"""The main job in one call: 100 clients, real digits, in the clear and under secure aggregation with dropouts."""

import json
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree
from rich import box
from rich.console import Console
from rich.table import Table

from fedjax_priv import _validate, data, losses, metrics, models, plots
from fedjax_priv.base import Algorithm, ClientData, Key, Local
from fedjax_priv.clients.local import local_sgd
from fedjax_priv.keys import named
from fedjax_priv.layers.plain import plain_field
from fedjax_priv.simulation import simulate
from fedjax_priv.status import describe
from fedjax_priv.systems.fedavg import fedavg
from fedjax_priv.systems.secagg import secagg
from fedjax_priv.systems.sparse_secagg import sparse_secagg

NUM_CLIENTS = 100
BLOCK = 10
LEVELS = 2.0**20


class Row(NamedTuple):
    """One system in the table of the demo."""

    system: str
    accuracy: float  # on the test set, after the last round
    up_bytes: float  # by user and round, mean
    down_bytes: float
    seconds: float  # a round, compilation apart
    status: str
    difference: float | None  # largest |secure sum - plain sum|, in grid points; None: no secure sum


def demo(out: pathlib.Path = pathlib.Path("results/demo"), rounds: int = 40, seed: int = 0) -> list[Row]:
    """FedAvg, SecAgg, and SecAgg and SparseSecAgg with 30% of their users lost, on scikit-learn's digits.

    Args:
      out: folder for the figure `demo.png` and the table `demo.json`.
      rounds: rounds of each system.
      seed: of the split, the initial model and every draw.

    Raises:
      ValueError: `rounds` below 1 or `seed` below 0.
      OSError: `out` cannot be made.
    """
    _validate.integer(rounds=rounds)
    _validate.integer(at_least=0, seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    digits = data.digits()
    clients = data.federate(digits, NUM_CLIENTS, seed=seed)
    model = models.mlp(digits.x_train.shape[1:], digits.num_classes, hidden=(64,))
    evaluate = metrics.accuracy(model, digits.x_test, digits.y_test)
    local = local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=10, num_epochs=5)
    key = jax.random.key(seed)
    params = model.init(named(key, "params"))

    results, rows = {}, []
    for name, (system, twin) in _systems(local).items():
        results[name] = simulate(system, key, params, clients, rounds=rounds, evaluate=evaluate, every=5)
        difference = None if twin is None else largest_difference(system, twin, key, params, clients, rounds)
        rows.append(_row(name, results[name], difference))
    _show(rows, rounds)
    _write(out, rows, results)
    return rows


def _systems(local: Local) -> dict[str, tuple[Algorithm, Algorithm | None]]:
    """Each system, and its twin that adds the same quantized updates in the clear."""

    def options(dropout: float) -> dict[str, Any]:
        return dict(num_clients=NUM_CLIENTS, dropout=dropout, levels=LEVELS, block=BLOCK)

    def with_twin(dropout: float) -> tuple[Algorithm, Algorithm]:
        return secagg(local, **options(dropout)), secagg(local, **options(dropout), secure_sum=plain_field())

    sparse = sparse_secagg(local, **options(0.3)), sparse_secagg(local, **options(0.3), elide=True)
    return {
        "FedAvg": (fedavg(local, block=BLOCK), None),
        "SecAgg": with_twin(0.0),
        "SecAgg, 30% lost": with_twin(0.3),
        "SparseSecAgg, 30% lost": sparse,
    }


def largest_difference(
    secure: Algorithm, clear: Algorithm, key: Key, params: PyTree, clients: ClientData, rounds: int
) -> float:
    """Largest |secure sum - plain sum| over rounds and coordinates, in grid points.

    Both systems take every round from the same state, so they sum the same quantized updates of the same survivors.
    Sums below 2**24 grid points are exact in float32, so a difference of one point would show.
    """

    def run(clients: ClientData) -> jax.Array:
        def compare(state: PyTree, _: None) -> tuple[PyTree, jax.Array]:
            after, info = secure.step(key, state, clients)
            plain = clear.step(key, state, clients)[1]
            return after, jnp.where(info.status == 0, jnp.abs(info.direction - plain.direction).max(), 0.0)

        return jax.lax.scan(compare, secure.init(key, params, clients), length=rounds)[1].max()

    return float(jax.jit(run)(clients)) * LEVELS


def _row(name: str, result: xr.Dataset, difference: float | None) -> Row:
    failed = result.status.values[result.status.values > 0]
    reason = describe(int(np.bitwise_or.reduce(failed)))
    return Row(
        system=name,
        accuracy=float(result.accuracy[-1]),
        up_bytes=float(result.up_bytes.sum("phase").mean()),
        down_bytes=float(result.down_bytes.sum("phase").mean()),
        seconds=float(result.seconds[-1]) / result.sizes["round"],
        status=f"{len(failed)} failed: {reason}" if len(failed) else "ok",
        difference=difference,
    )


def _show(rows: list[Row], rounds: int) -> None:
    table = Table(
        title=f"{NUM_CLIENTS} clients, {rounds} rounds, digits", box=box.SIMPLE, pad_edge=False, collapse_padding=True
    )
    for heading in ("system", "accuracy", "up, B", "down, B", "s/round", "status", "difference"):
        table.add_column(heading, justify="left" if heading in ("system", "status") else "right", no_wrap=True)
    for row in rows:
        difference = "-" if row.difference is None else f"{row.difference:g}"
        table.add_row(
            row.system, f"{row.accuracy:.1%}", f"{row.up_bytes:,.0f}", f"{row.down_bytes:,.0f}",
            f"{row.seconds:.3f}", row.status, difference,
        )  # fmt: skip
    console = Console(soft_wrap=True)
    console.print(table)
    console.print("up, down: bytes by user and round, all phases. difference: the largest between the secure sum")
    console.print("and the plain sum of the same quantized updates, in grid points, over rounds and coordinates.")


def _write(out: pathlib.Path, rows: list[Row], results: dict[str, xr.Dataset]) -> None:
    plots.learning_curves(results).savefig(out / "demo.png", dpi=150)
    (out / "demo.json").write_text(json.dumps([row._asdict() for row in rows], indent=2) + "\n")
    Console(soft_wrap=True).print(f"figure: {out / 'demo.png'}, table: {out / 'demo.json'}")
