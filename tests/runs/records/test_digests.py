"""Digests of arrays: what they tell apart, and that they do not depend on where arrays lie."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedjax_priv.runs.records.digests import digest

ROWS = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
TREE = {"x": ROWS, "count": np.array([3, 2, 1, 3], np.int32)}


@pytest.mark.parametrize(
    "other",
    [
        TREE | {"x": ROWS[[1, 0, 2, 3]]},  # two clients have changed places
        TREE | {"x": ROWS[:, ::-1]},
        TREE | {"x": np.nextafter(ROWS, np.float32(99))},
        TREE | {"x": np.where(ROWS == 0, np.float32(-0.0), ROWS)},
        TREE | {"x": ROWS.view(np.int32)},
        TREE | {"x": ROWS.reshape(4, 2, 3)},
        TREE | {"count": TREE["count"][::-1]},
        {"y": ROWS, "count": TREE["count"]},
        {"x": [ROWS], "count": TREE["count"]},
        TREE | {"more": np.float32(0)},
    ],
)
def test_what_differs_has_another_digest(other):
    assert digest(other) != digest(TREE)


def test_arrays_have_one_digest_wherever_they_lie():
    spread = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("clients",)), PartitionSpec("clients"))
    for placed in (jax.tree.map(jnp.asarray, TREE), jax.device_put(TREE, spread), jax.tree.map(np.copy, TREE)):
        assert digest(placed) == digest(TREE)
