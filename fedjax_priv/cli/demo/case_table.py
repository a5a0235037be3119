"""The systems of the demo: how each is made of a client's local training."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import aggregators, systems
from fedjax_priv.base import Algorithm, Cohort, Local
from fedjax_priv.layers import plain_field

BLOCK = 10
LEVELS = 2.0**20
LOST = 0.3
AIR: Any = dict(clip=0.5, noise_variance=0.02, receiver_noise=0.1, participation=0.9, block=BLOCK)


class Size(NamedTuple):
    """How much of everything."""

    clients: int = 100
    byzantine: int = 10
    compared: int = 3  # rounds in which a secure sum is compared with a plain one
    trials: int = 200  # runs of an audit, with each of two inputs
    watched: int = 4  # rounds of each


class Case(NamedTuple):
    """A system, and its twin that adds the same quantized updates in the clear."""

    make: Callable[..., Algorithm]  # (local, **how)
    twin: Callable[[Local], Algorithm] | None = None  # None: no secure sum
    noisy: bool = False  # local training clips samples and adds noise
    audited: Mapping[str, Any] = MappingProxyType({})  # other arguments: masks elided, a rule that hides nothing


def cases(num_params: int, size: Size) -> dict[str, Case]:
    """FedAvg, SecAgg, and the systems of the four papers, for a model of `num_params` parameters."""
    common: Any = dict(num_clients=size.clients, levels=LEVELS, block=BLOCK)
    plain: Any = dict(secure_sum=plain_field())
    robust = common | dict(
        num_params=num_params, ratio=0.1, aggregate=aggregators.coordinate_median(), num_byzantine=size.byzantine
    )
    every_buffer = dict(elide=True, aggregate=aggregators.mean(), num_byzantine=0)
    return {
        "FedAvg": Case(functools.partial(systems.fedavg, block=BLOCK)),
        "SecAgg, 30% lost": _case(systems.secagg, common | dict(dropout=LOST), plain),
        "SparseSecAgg, 30% lost": _case(systems.sparse_secagg, common | dict(dropout=LOST), dict(elide=True)),
        "FedREP, median": _case(systems.fedrep, robust, dict(in_the_clear=True))._replace(audited=every_buffer),
        "wireless, p = 0.9": Case(functools.partial(systems.wireless, **AIR)),
        "CDP-FL": _case(systems.cdp_fl, common, plain)._replace(noisy=True),
    }


def turned(local: Local, factor: float | Array, number: int) -> Local:
    """The first `number` clients send `factor` times what they have learned."""

    def apply(key: Any, memory: Any, params: Any, data: Any, cohort: Cohort) -> tuple:
        update, memory, loss = local.apply(key, memory, params, data, cohort)
        return jnp.where(cohort.client[:, None] < number, factor, 1.0) * update, memory, loss

    return local._replace(apply=apply)


def _case(system: Callable[..., Algorithm], options: dict, clear: dict) -> Case:
    make = functools.partial(system, **options)
    return Case(make, functools.partial(make, **clear), audited={"elide": True})
