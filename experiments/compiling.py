"""Programs that run once are compiled fast, whatever they then take to run; a few that run long are optimised."""

import contextlib
from collections.abc import Iterator

import jax

FAST_FLAGS = (
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
    if jax.__version_info__ < (0, 11)
    else ""
)
"""`XLA_FLAGS` of one module a program and of the older emitters of kernels: a third less time. Later versions of XLA
do not know them, and an unknown flag ends the process."""
_OPTION = "jax_disable_most_optimizations"


@contextlib.contextmanager
def optimised() -> Iterator[None]:
    """Programs compiled inside are optimised, also where the process does without: for those that run long."""
    before = jax.config.read(_OPTION)
    jax.config.update(_OPTION, False)
    try:
        yield
    finally:
        jax.config.update(_OPTION, before)
