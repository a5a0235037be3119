"""Law 12: what a program does depends on the platform it is lowered for, never on the process that traces it."""

import pathlib
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testing.system_cases import SYSTEMS

import fedjax_priv
from fedjax_priv.aggregators.numerics.column_blocks import gram, map_columns
from fedjax_priv.models.client_convolution import conv
from fedjax_priv.testing import NUM_CLIENTS as N
from fedjax_priv.testing import NUM_PARAMS as D
from helpers import remembering, targets

pytestmark = pytest.mark.usefixtures("any_platform")

ROWS = np.zeros((4, 600), np.float32)
IMAGES, KERNELS = np.zeros((5, 2, 6, 6, 3), np.float32), np.zeros((5, 3, 3, 3, 40), np.float32)
REPORTS = {"runs/records/manifest.py", "runs/programs/kept_programs.py", "cli/bench.py"}
"""Modules that say where a run was, or where a kept program may run; they trace nothing."""
MESH = {"engine/side_by_side.py"}
"""It asks the devices of a mesh, on which the program will run."""


def convolution(x, kernel):
    y, pull = jax.vjp(jax.vmap(lambda x, kernel: conv(x, kernel, (1, 1), "SAME")), x, kernel)
    return y, pull(y)


def lowered(function, platform, *args):
    return jax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(
    ("function", "args"),
    [(lambda rows: map_columns(lambda block: block.sum(0), rows), (ROWS,)), (gram, (ROWS, ROWS[0]))],
    ids=["map_columns", "gram"],
)
def test_only_a_cpu_takes_columns_in_blocks(function, args):
    whole = "x".join(map(str, ROWS.shape))
    for platform, blocks in {"cpu": True, "cuda": False, "tpu": False}.items():
        text = lowered(function, platform, *args)
        assert ("stablehlo.while" in text) == blocks
        assert (re.search(rf"(reduce|subtract)\b.*tensor<{whole}xf32>", text) is None) == blocks


def test_each_platform_has_its_form_of_a_convolution_with_a_kernel_per_client():
    """A CPU loops over clients, a GPU has one product for all, a TPU grouped convolutions, as JAX derives them."""
    for platform, looped, grouped in (("cpu", True, 0), ("cuda", False, 0), ("rocm", False, 0), ("tpu", False, 3)):
        text = lowered(convolution, platform, IMAGES, KERNELS)
        groups = [int(n) for n in re.findall(r"(?:feature|batch)_group_count = (\d+)", text)]
        assert ("stablehlo.while" in text) == looped
        assert sum(n == len(KERNELS) for n in groups) == grouped
        assert ("stablehlo.convolution" in text) == (platform in ("cpu", "tpu"))
        assert len(re.findall(rf"dot_general.*tensor<{len(KERNELS)}x", text)) == (
            3 if platform in ("cuda", "rocm") else 0
        )


@pytest.mark.parametrize(
    "name",
    [
        "scaffold, secure", "one_shot_secagg", "flamingo", "thresholded_secagg, top_k", "sparse_secagg",
        "sparse_secagg, survivors", "share", "blind_wireless", "robajol", "dp_fedavg, secure",
    ],
)  # fmt: skip
def test_all_forms_of_a_round_have_the_same_results(name):
    """Else tracing them fails; elsewhere only the forms for a CPU are traced."""
    system, key, data = SYSTEMS[name](remembering(), N, mesh=None), jax.random.key(0), targets(N, D)
    state = jax.eval_shape(system.init, key, jnp.zeros(D), data)
    after, _ = jax.eval_shape(system.step, key, state, data)
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)


def test_no_module_asks_the_process_where_it_runs():
    root = pathlib.Path(fedjax_priv.__file__).parent
    asks = re.compile(r"(?<!sys)\.(default_backend|platform|device_kind)\b")  # sys.platform: the operating system
    asking = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if asks.search(path.read_text())}
    assert asking == REPORTS | MESH
