"""The accelerators that programs are compiled for: how JAX describes one that is not there, and its peak rates."""

import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.update(  # libtpu asks for them when it is loaded
    TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_WORKER_HOSTNAMES="localhost",
)  # fmt: skip
SECONDS_A_KERNEL = 3e-6
"""Of a kernel that waits for the one before it, whatever its size; not measured here."""


class Target(NamedTuple):
    """One kind of device, or several of them. Rates are of one device."""

    name: str
    devices: Callable[[], Any]
    bytes_a_second: float
    flops_a_second: float  # of matrix products in JAX's default precision
    byte_flops_a_second: float  # of products of 8-bit integers
    operations_a_second: float | None  # of 32-bit integers; None: not published
    memory: float  # bytes
    source: str


def _gpu() -> Any:
    from jax.experimental import topologies

    config = (pathlib.Path(__file__).parent / "h200.txtpb").read_text()
    return topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=config).devices[:1]


def _tpus() -> Any:
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices


_GOOGLE = "Google Cloud, TPU v5e: 197 TFLOP/s in bf16, 393 TOP/s in int8, HBM of 16 GB at 819 GB/s"
TARGETS = {
    target.name: target
    for target in (
        Target(
            "h200", _gpu, 4.8e12, 495e12, 1979e12, 132 * 64 * 1.98e9, 141e9,
            "NVIDIA H200 SXM data sheet: 141 GB at 4.8 TB/s, with sparsity TF32 989 TFLOP/s and INT8 3,958 TOP/s, so "
            "495 and 1,979 without; 132 multiprocessors of 64 integer lanes at 1.98 GHz",
        ),
        Target("tpu", lambda: _tpus()[:1], 819e9, 197e12, 393e12, None, 16e9, _GOOGLE),
        Target("tpu_2x2", _tpus, 819e9, 197e12, 393e12, None, 16e9, _GOOGLE),
    )
}  # fmt: skip


def floor(target: Target, moved: float, flops: float, operations: float, byte_flops: float = 0) -> tuple[float, str]:
    """Seconds that no program with these counts can undercut on a device, and what they are spent on.

    Args:
      target: the device.
      moved: bytes.
      flops: of all products.
      operations: of other arithmetic.
      byte_flops: how many of `flops` are of products of bytes.
    """
    products = (flops - byte_flops) / target.flops_a_second + byte_flops / target.byte_flops_a_second
    quotients = {"memory": moved / target.bytes_a_second, "products": products}
    if target.operations_a_second:
        quotients["operations"] = operations / target.operations_a_second
    name = max(quotients, key=quotients.__getitem__)
    return quotients[name], name
