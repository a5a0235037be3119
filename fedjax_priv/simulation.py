"""Runs an algorithm for many rounds, and keeps what every chunk of rounds leaves as soon as it is finished."""

import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree

from fedjax_priv import _validate, chunks, results
from fedjax_priv import progress as progress_bar
from fedjax_priv.base import CLIENTS, Algorithm, ClientData, Key
from fedjax_priv.blocks import clients_mesh, fastest_block
from fedjax_priv.manifest import manifest


class SimulationError(RuntimeError):
    """A run broken off by an error, its cause; `dataset` holds the chunks that were finished before."""

    def __init__(self, message: str, dataset: xr.Dataset):
        super().__init__(message)
        self.dataset = dataset


def simulate(
    algorithm: Algorithm,
    key: Key,
    params: PyTree,
    data: ClientData,
    *,
    rounds: int,
    evaluate: chunks.Evaluate | None = None,
    every: int = 1,
    progress: bool = True,
) -> xr.Dataset:
    """Run rounds of an algorithm; the same bits as calling `algorithm.step(key, state, data)` in a loop.

    Args:
      algorithm: what to run. Where it leaves its block open, the fastest one is measured first.
      key: root key, a typed scalar key.
      params: initial parameters, float32 leaves. They are copied, not consumed.
      data: samples of every client, NumPy or JAX arrays. They are put on the devices once, spread over
        `algorithm.mesh` where its size divides the number of clients.
      rounds: how many rounds.
      evaluate: `params -> {name: scalar}`, pure. Jitted, and called before the first round and after each chunk.
      every: rounds of a chunk; where it does not divide `rounds`, the last chunk is shorter.
      progress: show a bar on standard error if that is a terminal.

    Returns:
      Dataset with the dimensions `round` (from 1), `client` (place in the cohort), `group`, `phase` of the protocol,
      `evaluation` (rounds done before it, the first is 0) and `parameter`:

      - `loss`, `counted`, `client_id` `[round, client]`, `status` `[round]`, `group_status` `[round, group]`;
      - `up_bytes`, `down_bytes` `[phase, round, client]`, float64;
      - a variable for each metric, and `seconds` that the rounds so far took, `[evaluation]`;
      - `params` `[parameter]`, the final ones, ravelled.

      Attributes: the manifest, `compile_seconds`, `rounds_done`, `failed_rounds`, `failed_because` and `interrupted`,
      1 if the run ended early, as by Ctrl-C: it then has the chunks that were finished, evaluation included. Ctrl-C
      while programs are still compiled finds nothing to keep and is a `KeyboardInterrupt`.

    Raises:
      ValueError: an argument is not as above.
      SimulationError: a round or an evaluation raised; it holds what was finished.
    """
    _check(key, params, data, rounds, every)
    finished: list[results.Chunk] = []
    with progress_bar.bar(rounds, show=progress) as update:
        algorithm, (key, params, data) = _place(algorithm, key, params, data)
        attrs = manifest(key=key, rounds=rounds, every=every, num_clients=len(data.count), block=algorithm.block)
        run = chunks.prepare(algorithm, key, params, data, evaluate=evaluate, lengths=_lengths(rounds, every))
        finish = lambda **more: results.dataset(finished, run.empty, attrs | run.attrs | more)
        try:
            _follow(run.chunks, finished, update)
            return finish(interrupted=0)
        except KeyboardInterrupt:
            kept = finish(interrupted=1)
            print(f"interrupted: {kept.attrs['rounds_done']} of {rounds} rounds are kept", file=sys.stderr)
            return kept
        except Exception as error:
            kept = finish(interrupted=1)
            raise SimulationError(f"after {kept.attrs['rounds_done']} of {rounds} rounds: {error}", kept) from error


def _follow(run: Iterator[results.Chunk], finished: list[results.Chunk], update: progress_bar.Update) -> None:
    """Keep what every chunk of a run leaves, and show where it stands."""
    seconds, megabytes, failed = 0.0, 0.0, 0
    for chunk in run:
        finished.append(chunk)  # one step: an interrupt comes before or after it
        if len(finished) > 1:
            finished[-2] = finished[-2]._replace(params=())  # only the last parameters are wanted
        seconds += chunk.seconds
        megabytes += results.megabytes(chunk.info["bits"])
        failed += int(np.count_nonzero(chunk.info["status"]))
        update(chunk.rounds, seconds=seconds, metrics=chunk.metrics, megabytes=megabytes, failed=failed)


def _check(key: Key, params: PyTree, data: ClientData, rounds: int, every: int) -> None:
    _validate.integer(rounds=rounds, every=every)
    if not jnp.issubdtype(getattr(key, "dtype", np.void), jax.dtypes.prng_key) or key.shape:
        raise ValueError(f"key must be one typed key, as of jax.random.key, got {key!r}")
    for path, leaf in jax.tree.leaves_with_path(params):
        if getattr(leaf, "dtype", type(leaf)) != np.float32:
            got = getattr(leaf, "dtype", type(leaf).__name__)
            raise ValueError(f"params must have float32 leaves, got {got} in params{jax.tree_util.keystr(path)}")
    if not isinstance(data, ClientData) or np.ndim(data.count) != 1:
        raise ValueError(f"data must be a ClientData with a count of shape [n], got {type(data).__name__}")
    for path, leaf in jax.tree.leaves_with_path(data):
        if np.shape(leaf)[:1] != np.shape(data.count):
            raise ValueError(
                f"data must have {len(data.count)} clients on the first axis of every leaf, as its count has, "
                f"got shape {np.shape(leaf)} in data{jax.tree_util.keystr(path)}"
            )
    _check_samples(data)


def _check_samples(data: ClientData) -> None:
    """What only the host can know: the rows of each client that are samples are there."""
    count, room = np.asarray(data.count), {np.shape(leaf)[1:2] for leaf in jax.tree.leaves(data.examples)}
    if len(room) != 1 or () in room:
        raise ValueError(f"data.examples must be arrays [n, m, ...] with one m, got m of {sorted(room)}")
    most = room.pop()[0]
    if not np.issubdtype(count.dtype, np.integer):
        raise ValueError(f"data.count must be integers, got {count.dtype}")
    if not count.size or count.min() < 0 or count.max() > most or not count.any():
        raise ValueError(f"data.count must be from 0 to {most}, the samples there is room for, and not all 0")


def _lengths(rounds: int, every: int) -> list[int]:
    whole, rest = divmod(rounds, every)
    return [every] * whole + [rest] * (rest > 0)


def _place(
    algorithm: Algorithm, key: Key, params: PyTree, data: ClientData
) -> tuple[Algorithm, tuple[Key, PyTree, ClientData]]:
    """Puts the arguments on the devices; then the algorithm has its mesh, and its block if that was left open."""
    mesh = algorithm.mesh or clients_mesh([*jnp.zeros(()).devices()])  # or the default device
    whole = NamedSharding(mesh, PartitionSpec())
    rows = NamedSharding(mesh, PartitionSpec(CLIENTS)) if len(data.count) % mesh.size == 0 else whole
    placed = jax.device_put((key, params, data), (whole, whole, rows))
    return (fastest_block(algorithm, *placed) if algorithm.in_blocks else algorithm), placed
