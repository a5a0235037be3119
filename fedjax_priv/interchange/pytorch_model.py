"""A `Model` from a PyTorch module, which PyTorch itself computes: for porting, not for speed."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fedjax_priv.base import Key, Model
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.status import keep_error

_ONE_AT_A_TIME = threading.Lock()  # a module holds one call's parameters; PyTorch's generator is everybody's


def from_torch(make: Callable[[], Any]) -> Model:
    """Model of a PyTorch module, such as `from_torch(lambda: torch.nn.Linear(64, 10))`.

    Each forward and backward pass leaves the compiled round and is computed by PyTorch on the host, client by client.
    Use it to see that a port gives the same numbers, then write the model in JAX: `to_state_dict` and `from_state_dict`
    carry the parameters over. Its parameters are a dict of float32 arrays by their names in PyTorch. Gradients are of
    first order and of reverse mode.

    Args:
      make: returns a new module, initialized from PyTorch's default generator, which `init` seeds by its key. The
        module is called on `[b, ...]` and returns logits `[b, classes]`. In training, a module with dropout, an
        `nn.Dropout` or the `dropout` of an `nn.LSTM` or `nn.MultiheadAttention`, draws for each example by that
        example's key; the function `dropout` is not seen, and never draws.

    Raises:
      ImportError: torch is not installed.
      ValueError: `make` does not return a module, or one with buffers: running statistics would be client state that
        is neither averaged nor private. Or its parameters are not all float32, or some are frozen, or there are none.
      RuntimeError: after the round, if the module raises, as of a rule of `aggregators.from_host`.

    Examples:
      >>> import torch  # doctest: +SKIP
      >>> model = from_torch(lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)))  # doctest: +SKIP
    """
    host = _Host(make, _made(make, 0))
    draws = any(_drops(part, host.torch) for part in host.module.modules())
    shapes = {name: _struct(value.shape) for name, value in host.module.named_parameters()}

    def init(key: Key) -> PyTree:
        return _outside(host.new, shapes, seed_of(key))

    @jax.custom_vjp
    def logits(params: PyTree, x: Array, seeds: Array | None) -> Array:
        return cast(Array, _outside(host.logits, _struct(host.shape(x)), params, x, seeds))

    def backward(kept: tuple, cotangent: Array) -> tuple:
        params, x, seeds = kept
        floating = jnp.issubdtype(x.dtype, jnp.floating)
        like = (shapes, _struct(x.shape) if floating else None)
        return *_outside(host.gradients, like, params, x, seeds, cotangent), None

    logits.defvjp(lambda *args: (logits(*args), args), backward)
    train = lambda params, x, keys: logits(params, x, jax.vmap(seed_of)(keys))
    return Model(init, lambda params, x: logits(params, x, None), train if draws else None)


class _Host(NamedTuple):
    """What runs outside XLA, on NumPy arrays."""

    make: Callable[[], Any]
    module: Any

    @property
    def torch(self) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        return torch

    def new(self, seed: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters of a new module."""
        return {name: value.detach().numpy() for name, value in _made(self.make, _seed(seed)).named_parameters()}

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of the logits of such examples."""
        with _ONE_AT_A_TIME, self.torch.no_grad():
            return tuple(self.module.eval()(self.torch.from_numpy(np.zeros(x.shape, x.dtype))).shape)

    def logits(self, params: Mapping[str, np.ndarray], x: np.ndarray, seeds: np.ndarray | None) -> np.ndarray:
        """Of all examples at once, or one by one with their own draws."""
        with self.torch.no_grad():
            return self._called(self._tensors(params), self._tensors(x), seeds).numpy()

    def gradients(
        self, params: Mapping[str, np.ndarray], x: np.ndarray, seeds: np.ndarray | None, cotangent: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        """Of the parameters and of the examples, if these are no integers."""
        with self.torch.enable_grad():
            weights, rows = self._tensors(params), self._tensors(x)
            leaves = [*weights.values(), *([rows] if rows.is_floating_point() else [])]
            for leaf in leaves:
                leaf.requires_grad_()
            out = self._called(weights, rows, seeds)
            found = self.torch.autograd.grad(out, leaves, self._tensors(cotangent), materialize_grads=True)
        arrays = [gradient.numpy() for gradient in found]
        return dict(zip(weights, arrays, strict=False)), arrays[-1] if rows.is_floating_point() else None

    def _called(self, weights: Mapping[str, Any], rows: Any, seeds: np.ndarray | None) -> Any:
        module = self.module.train(seeds is not None)
        if seeds is None:
            return self.torch.func.functional_call(module, weights, (rows,))
        found = []
        with self.torch.random.fork_rng(devices=[]):
            for row, seed in zip(rows, seeds, strict=True):
                self.torch.manual_seed(_seed(seed))
                found.append(self.torch.func.functional_call(module, weights, (row[None],)))
        return self.torch.cat(found)

    def _tensors(self, arrays: Any) -> Any:
        return jax.tree.map(lambda array: self.torch.from_numpy(np.array(array)), arrays)


def _outside(function: Callable, like: PyTree, *args: PyTree) -> PyTree:
    """The function's arrays, or NaN with the error kept."""

    def call(*args: PyTree) -> PyTree:
        args = jax.tree.map(np.asarray, args)
        try:
            with _ONE_AT_A_TIME:
                return jax.tree.map(
                    lambda a, want: np.asarray(a, want.dtype).reshape(want.shape), function(*args), like
                )
        except BaseException as error:  # not even SystemExit may leave a callback
            keep_error(f"the module of from_torch raised {type(error).__name__}: {error}", error)
            return jax.tree.map(lambda want: np.full(want.shape, np.nan, want.dtype), like)

    return jax.pure_callback(call, like, *args, vmap_method="sequential")


def _made(make: Callable[[], Any], seed: int) -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("modules of PyTorch need the package torch: pip install torch") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make()
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"make must return a torch.nn.Module, got {type(module).__name__}")
    if buffers := [name for name, _ in module.named_buffers()]:
        raise ValueError(
            f"make must return a module without buffers, got {', '.join(buffers)}: running statistics are refused, "
            "normalise by nn.GroupNorm or nn.LayerNorm"
        )
    if frozen := [name for name, value in module.named_parameters() if not value.requires_grad]:
        raise ValueError(
            f"make must return a module all of whose parameters are trained, got frozen {', '.join(frozen)}"
        )
    kinds = {str(value.dtype) for value in module.parameters()}
    if kinds != {"torch.float32"}:
        raise ValueError(f"make must return a module whose parameters are float32, got {sorted(kinds) or 'none'}")
    return module


def _drops(part: Any, torch: Any) -> bool:
    rate = getattr(part, "dropout", 0.0)  # of recurrent networks and attention, which hold no nn.Dropout
    return isinstance(part, torch.nn.modules.dropout._DropoutNd) or (isinstance(rate, float) and rate > 0)


def _seed(words: np.ndarray) -> int:
    return int(words[0]) << 32 | int(words[1])


def _struct(shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(shape), jnp.float32)
