"""`simulate`: one run of many rounds."""

from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.data import Pool
from fedjax_priv.engine import processes
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.parts import check_params
from fedjax_priv.runs import checks
from fedjax_priv.runs import progress as progress_bar
from fedjax_priv.runs.chunk_loop import Log, chunk_lengths, run_chunks
from fedjax_priv.runs.ending import run_to_the_end
from fedjax_priv.runs.failures import warn_if_all_failed
from fedjax_priv.runs.programs import layout
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.programs.kept_programs import KeptPrograms
from fedjax_priv.runs.programs.pool_program import lower_pool_run
from fedjax_priv.runs.programs.run_program import Inputs, Lowered, lower_runs
from fedjax_priv.runs.records import mechanism, result_dataset, run_writer
from fedjax_priv.runs.records.digests import digest
from fedjax_priv.runs.records.manifest import manifest_with
from fedjax_priv.runs.records.result_dataset import Chunk
from fedjax_priv.runs.records.run_writer import Keep


def simulate(
    algorithm: Algorithm,
    key: Key,
    params: PyTree,
    data: ClientData | Pool,
    *,
    rounds: int,
    evaluate: Evaluate | None = None,
    every: int = 1,
    keep: Keep | None = None,
    log: Log | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Runs an algorithm for `rounds` rounds, like a loop over `algorithm.step(key, state, data)`.

    Draws, and secure sums of the same updates, have the same bits as in that loop. XLA may round local training
    differently in another program.

    Args:
      algorithm: the system to run.
      key: root key, a typed scalar key.
      params: initial parameters, float32 leaves. They are copied, not consumed.
      data: samples of every client, NumPy or JAX arrays. They are put on the devices once, spread over
        `algorithm.mesh` if its size divides the number of clients. With several processes, give each process either
        the result of `processes.distribute` or the same whole arrays. Or a `Pool`, whose samples are fetched round by
        round.
      rounds: how many rounds.
      evaluate: `params -> {name: scalar}`, pure. Jitted, and called before the first round and after each chunk.
      every: rounds of a chunk; if it does not divide `rounds`, the last chunk is shorter.
      keep: folder to write the run to; the run can be resumed from it. With `keep`, SIGTERM ends the process with exit
        status 143 after the current chunk and a checkpoint.
      log: called after each chunk with `{"round", "seconds", "loss", "megabytes", "failed"}` and the metrics, and also
        before the first round, then without "loss"; `wandb.log` fits. Of several processes only the first one calls it.
      progress: show a bar on standard error if that is a terminal.

    Returns:
      Dataset with the dimensions `round` (from 1), `client` (place in the cohort), `group`, `phase` of the protocol,
      `evaluation` (rounds done before it, the first is 0) and `parameter`:

      - `loss`, `trains`, `counted`, `client_id` `[round, client]`, `status` `[round]`, `group_status` `[round, group]`;
      - `up_bytes`, `down_bytes` `[phase, round, client]`, float64;
      - a variable per metric, and `seconds`, the time that the rounds so far took, `[evaluation]`;
      - `params` `[parameter]`, the final parameters, ravelled;
      - `mechanism`, as JSON: release, local steps and sizes of the data, by which `ledger` knows the run again.

      Attributes: the manifest, `compile_seconds`, `rounds_done`, `failed_rounds`, `failed_because`, `caveats` and
      `interrupted`, which is 1 if Ctrl-C ended the run early: the dataset then has the finished chunks. Ctrl-C before
      the first evaluation raises `KeyboardInterrupt`. If every round failed, a warning says why.

    Raises:
      ValueError: an argument is not as above, or the folder holds another run (the difference is named).
      OSError: the folder cannot be written, is in use, or is not empty and `keep.resume` is not set.
      SimulationError: a round, an evaluation or a checkpoint raised an error; it holds the finished chunks.
      SystemExit: SIGTERM arrived.
    """
    result = simulate_kept(
        algorithm, key, params, data, rounds=rounds, evaluate=evaluate, every=every, keep=keep, log=log,
        progress=progress, programs=None,
    )  # fmt: skip
    warn_if_all_failed(result)
    return result


def simulate_kept(
    algorithm: Algorithm,
    key: Key,
    params: PyTree,
    data: ClientData | Pool,
    *,
    rounds: int,
    evaluate: Evaluate | None,
    every: int,
    keep: Keep | None,
    programs: KeptPrograms | None,
    log: Log | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """`simulate`, which also keeps its compiled programs; `programs.about` must determine the algorithm."""
    _validate.part(Algorithm, "systems.fedavg(local)", algorithm=algorithm)
    rounds, every = checks.checked_rounds(rounds, every)
    _check(key, params, data)
    checks.check_keep(keep)
    checks.check_shown(evaluate, log, progress)
    about = manifest_with(
        keep.config if keep else {}, key=key, rounds=rounds, every=every, num_clients=len(data.count),
        block=algorithm.block or "as many as fit", processes=jax.process_count(),
    )  # fmt: skip
    show = progress and processes.is_first()
    with run_writer.opened(keep, about, every) as writer, progress_bar.bar(rounds, show=show) as update:
        inputs = _place(algorithm, key, params, data)
        facts = _facts(inputs, data) if writer or programs else {}
        lowered = _lower(algorithm, inputs, data, rounds, every, evaluate, programs and _with_samples(programs, facts))
        if writer:
            for name, value in (facts | lowered.digests).items():
                writer.fact(name, value)
        if writer and writer.is_finished():
            return writer.read_result()
        compiled, chunks = lowered.compile(), list[Chunk]()
        attrs = about | {"caveats": " / ".join(algorithm.caveats)} | compiled.attrs
        stated = mechanism.of(algorithm, data.count)
        return run_to_the_end(
            lambda hooks: _collect(
                run_chunks(compiled, inputs, chunk_lengths(rounds, every), hooks), chunks, update
            ),
            chunks,
            result=lambda **ended: result_dataset.dataset(chunks, compiled.empty, attrs | ended, stated=stated),
            so_far=lambda: f"{chunks[-1].rounds} of {rounds} rounds",
            writer=writer,
            log=log,
        )  # fmt: skip


def _check(key: Key, params: PyTree, data: ClientData | Pool) -> None:
    checks.check_jit()
    checks.check_key(key)
    check_params(params)
    if not isinstance(data, Pool):
        checks.check_data(data)


def _place(algorithm: Algorithm, key: Key, params: PyTree, data: ClientData | Pool) -> Inputs:
    """Put the arguments on the devices."""
    where = layout.one_run(_mesh(algorithm), len(data.count))
    placed = () if isinstance(data, Pool) else processes.place(data, where.data)
    params = jax.tree.map(lambda p: jnp.asarray(p, p.dtype), params)  # a weak type would make another program
    return Inputs({}, processes.place(key, where.whole), processes.place(params, where.whole), placed)


def _mesh(algorithm: Algorithm) -> jax.sharding.Mesh:
    return algorithm.mesh or clients_mesh([*jnp.zeros(()).devices()])  # or the default device


def _lower(
    algorithm: Algorithm,
    inputs: Inputs,
    data: ClientData | Pool,
    rounds: int,
    every: int,
    evaluate: Evaluate | None,
    programs: KeptPrograms | None,
) -> Lowered:
    mesh = _mesh(algorithm)
    if isinstance(data, Pool):
        return lower_pool_run(algorithm, inputs, data, mesh=mesh, rounds=rounds, evaluate=evaluate)
    where, lengths = layout.one_run(mesh, len(data.count)), chunk_lengths(rounds, every)
    return lower_runs(lambda: algorithm, inputs, layout=where, lengths=lengths, evaluate=evaluate, kept=programs)


def _facts(inputs: Inputs, data: ClientData | Pool) -> dict[str, str]:
    """What a run depends on. The samples of a pool are not digested: the caller must not change them."""
    samples = digest(data.count if isinstance(data, Pool) else inputs.data)
    return {"data": samples, "params": digest(inputs.params)}


def _with_samples(programs: KeptPrograms, facts: Mapping[str, str]) -> KeptPrograms:
    """Other samples are another program, as the algorithm may be made from them."""
    return programs._replace(about={**programs.about, "data": facts["data"]})


def _collect(run: Iterator[Chunk], finished: list[Chunk], update: progress_bar.Update) -> None:
    """Collects the chunks of a run, and shows its progress."""
    seconds, megabytes, failed = 0.0, 0.0, 0
    for chunk in run:
        result_dataset.add(chunk, finished)
        seconds += chunk.seconds
        megabytes += result_dataset.megabytes(chunk.info["bits"]).item()
        failed += int(np.count_nonzero(chunk.info["status"]))
        metrics = {name: values.item() for name, values in chunk.metrics.items()}
        update(chunk.rounds, seconds=seconds, metrics=metrics, megabytes=megabytes, failed=failed)
