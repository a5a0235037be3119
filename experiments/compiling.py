"""Programs that run once are compiled fast, whatever they then take to run."""

import jax

FAST_FLAGS = (
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
    if jax.__version_info__ < (0, 11)
    else ""
)
"""`XLA_FLAGS` of one module a program and of the older emitters of kernels: a third less time. Later versions of XLA
do not know them, and an unknown flag ends the process."""
