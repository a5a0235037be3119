"""Where a block finds the samples of its clients: copied to it or, if training can read them there, where they lie."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, PyTree

from fedjax_priv.base import CLIENTS, ClientData, Cohort, Local, Rows
from fedjax_priv.engine.blocks import num_rows
from fedjax_priv.engine.client_rows import rows_of


class Samples(NamedTuple):
    """The data of a cohort in two parts: by client, and what blocks share."""

    by_client: ClientData  # [n, ...]; of `Rows`, `row` alone
    shared: PyTree  # `among` of the `Rows`; () if samples are copied
    spec: PartitionSpec  # how `shared` lies on the mesh
    device: Array | None = None  # [n], the device that holds a client's samples; None: that of its block


def samples_of(
    local: Local, who: Cohort, data: ClientData, mesh: Mesh | None, *, blocks_in_order: bool, of_any: bool = False
) -> Samples:
    """The samples of a cohort.

    They are copied for training that takes no `Rows`, and where a client's samples may lie on another device than its
    block: for a cohort of a population that is spread over several devices, unless each may train the clients it holds.

    Args:
      local: the training.
      who: `[n]`.
      data: of the population, or examples of the cohort in its order.
      mesh: devices that blocks are spread over.
      blocks_in_order: whether device `j` has block rows `j n / devices` and on, if the devices divide n.
      of_any: whether a device may be asked to train any clients, as many as it holds.
    """
    copied = lambda: Samples(rows_of(who, data), (), PartitionSpec())
    if not local.in_place:
        return copied()
    held, n = num_rows(data.examples), who.client.size
    in_order, devices = held == n, mesh.size if mesh else 1
    spread = devices > 1 and held % devices == 0
    stays = in_order and blocks_in_order
    if spread and not (stays or of_any):
        return copied()
    row = jnp.arange(n) if in_order else who.client
    by_client = ClientData(Rows((), row % (held // devices) if spread else row), rows_of(who, data.count))
    among = jax.tree.map(jnp.asarray, data.examples)  # a traced number cannot index NumPy's
    device = row // (held // devices) if spread and not stays else None
    return Samples(by_client, among, PartitionSpec(CLIENTS) if spread else PartitionSpec(), device)


def of_block(by_client: ClientData, shared: PyTree) -> ClientData:
    """The data of a block, as `Local.apply` takes them."""
    if not isinstance(by_client.examples, Rows):
        return by_client
    return by_client._replace(examples=by_client.examples._replace(among=shared))
