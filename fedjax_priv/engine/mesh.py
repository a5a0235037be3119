"""The devices that clients are spread over."""

from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from fedjax_priv.base import CLIENTS


def clients_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """Mesh with one axis, `"clients"`, over the given JAX devices, or all of them.

    Examples:
      >>> mesh = clients_mesh()
      >>> mesh.axis_names
      ('clients',)
    """
    return Mesh(np.array(jax.devices() if devices is None else devices), (CLIENTS,))


def resolve_mesh(mesh: Mesh | Literal["auto"] | None) -> Mesh | None:
    """Turns "auto" into a mesh over all devices, or into None if there is one device only.

    It is also None inside a program that is already split over devices, as a sweep is.

    Raises:
      ValueError: not "auto", None or a mesh with the one automatic axis "clients".
    """
    if isinstance(mesh, str) and mesh == "auto":
        alone = jax.device_count() == 1 or jax.sharding.get_abstract_mesh().manual_axes
        return None if alone else clients_mesh()
    fits = isinstance(mesh, Mesh) and mesh.axis_names == (CLIENTS,) and mesh.axis_types == (AxisType.Auto,)
    if mesh is not None and not (fits and mesh.size):
        raise ValueError(f"mesh must be 'auto', None or a mesh from clients_mesh(), got {mesh!r}")
    return mesh
