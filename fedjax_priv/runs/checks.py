"""Checks the arguments of `simulate` and `sweep` before anything is compiled."""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv import _validate
from fedjax_priv.base import ClientData, Key
from fedjax_priv.engine import processes
from fedjax_priv.engine.parts import check_total
from fedjax_priv.runs.records import run_folder
from fedjax_priv.runs.records.manifest import plain
from fedjax_priv.runs.records.run_writer import Keep


def checked_rounds(rounds: int, every: int) -> tuple[int, int]:
    """Both as Python's integers.

    Raises:
      ValueError: one is no integer >= 1, or int32, which numbers rounds, does not hold their number.
    """
    rounds, every = _validate.integer(rounds=rounds), _validate.integer(every=every)
    if rounds >= 2**31:
        raise ValueError(f"rounds must be below 2**31, got {rounds}")
    return rounds, every


def check_jit() -> None:
    """Raises ValueError if JAX is told not to compile."""
    if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(
            "jax_disable_jit must be False here, where programs are compiled ahead, got True: "
            "without jit call algorithm.init and algorithm.step in a loop"
        )


def check_key(key: Key) -> None:
    """Raises ValueError unless `key` is one typed key."""
    if not jnp.issubdtype(getattr(key, "dtype", np.void), jax.dtypes.prng_key) or key.shape:
        raise ValueError(f"key must be one typed key, such as jax.random.key(0), got {_kind_of(key)}")


def _kind_of(key: Any) -> str:
    old = getattr(key, "dtype", None) == np.uint32 and np.shape(key) == (2,)
    return "an old-style key of jax.random.PRNGKey" if old else type(key).__name__


def check_data(data: ClientData) -> None:
    """Raises ValueError if samples and counts do not fit each other."""
    if not isinstance(data, ClientData) or np.ndim(data.count) != 1:
        raise ValueError(f"data must be a ClientData with a count of shape [n], got {type(data).__name__}")
    for path, leaf in jax.tree.leaves_with_path(data):
        if np.shape(leaf)[:1] != np.shape(data.count):
            raise ValueError(
                f"data must have {len(data.count)} clients on the first axis of every leaf, as its count has, "
                f"got shape {np.shape(leaf)} in data{jax.tree_util.keystr(path)}"
            )
    _check_samples(data)


def _check_samples(data: ClientData) -> None:
    """Raises ValueError if a count exceeds the samples; compiled code cannot check values."""
    count, room = processes.on_host(data.count), {np.shape(leaf)[1:2] for leaf in jax.tree.leaves(data.examples)}
    if len(room) != 1 or () in room:
        raise ValueError(f"data.examples must be arrays [n, m, ...] with one m, got m of {sorted(room)}")
    most = room.pop()[0]
    if not np.issubdtype(count.dtype, np.integer):
        raise ValueError(f"data.count must be integers, got {count.dtype}")
    if not count.size or count.min() < 0 or count.max() > most or not count.any():
        raise ValueError(
            f"data.count must be from 0 to {most}, the samples per client in data, and not all 0, got {count}"
        )
    check_total(data._replace(count=count))


def check_shown(evaluate: object, log: object, progress: object) -> None:
    """The first two must be None or a function of one argument, `progress` a truth value.

    Raises:
      ValueError: one is something else, such as metrics that were computed already.
    """
    _validate.one_of((True, False), progress=progress)
    if evaluate is not None:
        _validate.function(1, "metrics.accuracy(model, x, y)", evaluate=evaluate)
    if log is not None:
        _validate.function(1, "print", log=log)


def check_keep(keep: Keep | None, axes: Mapping[str, Sequence[Any]] = MappingProxyType({})) -> None:
    """`keep` must be None or a `Keep`, and `result.nc` must be able to hold `keep.config` and the values of axes.

    Raises:
      ValueError: `keep` is something else, such as a path, or `result.nc` cannot hold one of these values.
    """
    if keep is None:
        return
    _validate.part(Keep, "Keep('results/a')", keep=keep)
    if not isinstance(keep.folder, str | os.PathLike):
        raise ValueError(f"keep.folder must be a path, such as 'results/a', got {keep.folder!r}")
    if not isinstance(keep.config, Mapping):
        raise ValueError(f"keep.config must be a dict, got {type(keep.config).__name__}")
    about = {name: plain(value) for name, value in keep.config.items()}
    if not run_folder.can_hold(about, {}):
        lost = {name: keep.config[name] for name, value in about.items() if not run_folder.can_hold({name: value}, {})}
        raise ValueError(f"keep.config must have names and values that a netCDF file can hold, got {lost}")
    for name, labels in axes.items():
        if not run_folder.can_hold({}, {name: labels}):
            raise ValueError(f"axes[{name!r}] must have values that a netCDF file can hold, got {list(labels)}")
