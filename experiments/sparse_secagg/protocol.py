"""Rounds of the protocol without training: what users send and select does not depend on their updates."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedjax_priv.base import Algorithm, ClientData, Local
from fedjax_priv.systems import secagg, sparse_secagg

SYSTEMS: dict[str, Callable[..., Algorithm]] = {"SecAgg": secagg, "SparseSecAgg": sparse_secagg}


def idle(num_params: int) -> Local:
    """Clients that send an update of zeros."""

    def apply(key: Any, memory: Any, params: Any, data: ClientData, cohort: Any) -> tuple[Array, Any, Array]:
        del key, params, cohort
        return jnp.zeros((data.count.size, num_params)), memory, jnp.zeros(data.count.size)

    return Local(lambda n, params: (), apply)


def nothing(num_clients: int) -> ClientData:
    """One sample for each client, so that all have equal weights."""
    return ClientData((np.zeros((num_clients, 1), np.float32),), jnp.ones(num_clients, jnp.int32))
