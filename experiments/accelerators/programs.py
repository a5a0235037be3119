"""One round of each system, compiled for a device that is not there.

python -m experiments.accelerators.programs fedavg-h200-1000 [--fast] [--block 8]

It prints, as JSON, what the compiler made of it. `environment.python_path` says where the compilers of GPUs and TPUs
are. A name is the system, the target and the number of clients. Clients train the MLP 784-200-10 in three steps of 20
of their 60 images; 10% drop out. Those of `_uneven` take an epoch of at most 600 images, and `_cnn` is another model.
"""

import argparse
import inspect
import json
import pathlib
import time
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.accelerators.cost import cost
from experiments.accelerators.order import scatters_in_any_order
from experiments.accelerators.targets import TARGETS
from fedjax_priv import ClientData, clients, losses, models, systems
from fedjax_priv.base import CLIENTS, Algorithm
from fedjax_priv.runs.records.manifest import commit

SYSTEMS = ("fedavg", "secagg", "sparse_secagg", "cdp_fl", "fedrep", "wireless")
CASES = [f"{system}-{target}-{n}" for n in (100, 1_000) for target in TARGETS for system in SYSTEMS]
CASES += [f"{system}-h200-100" for system in ("lightsecagg", "one_shot_secagg", "flamingo", "thresholded_secagg")]
CASES += ["fedavg_uneven-h200-1000", "fedavg_cnn-h200-100", "fedavg_cnn-tpu-100", f"sparse_secagg-h200-{10_000}"]
CASES += ["lightsecagg-h200-1000"]
SHAPE, SAMPLES, STEPS, BATCH = (28, 28, 1), 60, 3, 20
MOST_SAMPLES = 600
IN_FIXED_ORDER: dict[str, str | bool] = {"xla_gpu_deterministic_ops": True, "xla_gpu_enable_triton_gemm": False}
"""Products are a library's: newer compilers choose none of Triton's for them without a device."""
MANY, HIDDEN = 10_000, 208
"""With so many clients, hidden units for 165,370 parameters, about as many as SparseSecAgg's CIFAR-10 network has."""


def compiled(
    name: str,
    *,
    fast: bool = False,
    block: int | None = None,
    deterministic: bool = False,
    hlo: pathlib.Path | None = None,
) -> dict[str, Any]:
    """What the compiler made of a case.

    Args:
      name: one of `CASES`.
      fast: ask for the compiler's least effort, which gives about as many kernels.
      block: clients computed at once, if not as many as fit.
      deterministic: with XLA's setting for the same bits in every run on a GPU.
      hlo: file to write the optimized program to.
    """
    if fast:
        jax.config.update("jax_optimization_level", "O0")
    system, target, n = name.split("-")
    devices = TARGETS[target].devices()
    begun = time.perf_counter()
    lowered = _lowered(system, int(n), devices, {} if block is None else {"block": block})
    traced = time.perf_counter() - begun
    made = lowered.compile(IN_FIXED_ORDER if deterministic else None)
    took, text = time.perf_counter() - begun, made.as_text() or ""
    memory: Any = made.memory_analysis()
    package = "libtpu" if target.startswith("tpu") else "jax-cuda12-pjrt"
    if hlo:
        hlo.write_text(text)
    return cost(text)._asdict() | {
        "temporary_bytes": memory.temp_size_in_bytes, "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes, "lower_seconds": round(traced, 1),
        "compile_seconds": round(took - traced, 1), "scatters_in_any_order": scatters_in_any_order(text),
        "jax": jax.__version__, "commit": commit(), "compiler": " ".join((package, metadata.version(package))),
    }  # fmt: skip


def _lowered(name: str, n: int, devices: Any, more: dict[str, Any]) -> jax.stages.Lowered:
    mesh = Mesh(np.array(devices), (CLIENTS,)) if len(devices) > 1 else None
    whole = NamedSharding(mesh or Mesh(np.array(devices), (CLIENTS,)), PartitionSpec())
    rows = NamedSharding(whole.mesh, PartitionSpec(CLIENTS)) if n % len(devices) == 0 else whole
    model = models.mlp(SHAPE, 10, hidden=(HIDDEN if n == MANY else 200,))
    if name.endswith("_cnn"):
        name, model = name.removesuffix("_cnn"), models.mcmahan_cnn()
    samples, duration = SAMPLES, {"num_steps": STEPS}
    if name.endswith("_uneven"):
        name, samples, duration = name.removesuffix("_uneven"), MOST_SAMPLES, {"num_epochs": 1}
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(model.init, key)
    images = jax.ShapeDtypeStruct((n, samples, *SHAPE), jnp.float32), jax.ShapeDtypeStruct((n, samples), jnp.int32)
    counts: Any = jax.ShapeDtypeStruct((n,), jnp.int32)
    data = ClientData(images, counts)
    algorithm = _system(name, model, n, sum(p.size for p in jax.tree.leaves(params)), duration, mesh=mesh, **more)
    state = jax.eval_shape(algorithm.init, key, params, data)
    put = lambda tree, where: jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=where), tree)
    state = put(state, whole)._replace(memory=put(state.memory, rows), layers=put(state.layers, rows))
    return jax.jit(algorithm.step, donate_argnums=1).lower(put(key, whole), state, put(data, rows))


def _system(name: str, model: Any, n: int, num_params: int, duration: dict[str, int], **more: Any) -> Algorithm:
    factory = getattr(systems, name)
    noise: dict[str, Any] = {"sample_clip": 1.0, "gradient_noise": 0.01} if name == "cdp_fl" else {}
    loss = losses.softmax_cross_entropy(model)
    local = clients.local_sgd(loss, learning_rate=0.1, batch_size=BATCH, **duration, **noise)
    offered = {"num_clients": n, "num_params": num_params, "dropout": 0.1}
    fitting = {k: value for k, value in offered.items() if k in inspect.signature(factory).parameters}
    return factory(local, **fitting, **more)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=CASES, metavar="case")
    parser.add_argument("--fast", action="store_true", help="the compiler's least effort")
    parser.add_argument("--block", type=int, help="clients computed at once; as many as fit by default")
    parser.add_argument("--deterministic", action="store_true", help="a GPU adds in a fixed order")
    parser.add_argument("--hlo", type=pathlib.Path, help="file for the optimized program")
    given = parser.parse_args()
    print(json.dumps(compiled(**vars(given))))
