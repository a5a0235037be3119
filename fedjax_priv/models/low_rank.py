"""Low-rank adapters: clients train and send two thin factors for each matrix of a model that stays as it is."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key, Model

Adapters = dict[str, dict[str, Array]]
"""By the path of the matrix in the parameters: `down` `[inputs, rank]` and `up` `[rank, outputs]`."""


def _all_matrices(path: str) -> bool:
    del path
    return True


def lora(
    model: Model, params: PyTree, *, rank: int, alpha: float = 1.0, adapted: Callable[[str], bool] = _all_matrices
) -> Model:
    """The model with low-rank adapters as its parameters (Hu et al. 2022, section 4.1): `W + (alpha / rank) A B`.

    Only the adapters are parameters of the new model, so only they are trained, sent, masked and counted in bytes:
    `d = rank * sum (inputs + outputs)`. A starts at random, `N(0, 1 / inputs)`, and B at zero, so training starts at
    `params`, which never change. An array of more than two axes counts as a matrix from its first axis to the others.

    Args:
      model: any.
      params: of the model, trained before; what is not adapted stays as it is.
      rank: of an adapter.
      alpha: step of the adapters relative to the matrix.
      adapted: which arrays of two axes or more have an adapter, from their path, such as `"['Dense_0']['kernel']"`.

    Raises:
      ValueError: an argument is out of range or of another type, or no array is adapted.

    Examples:
      >>> base = mlp((4,), 3, hidden=(5,))
      >>> small = lora(base, base.init(jax.random.key(0)), rank=1)
      >>> num_params(jax.eval_shape(small.init, jax.random.key(1)))  # 4 + 5, and 5 + 3
      17
    """
    _validate.part(Model, "models.mlp((64,), 10)", model=model)
    _validate.integer(rank=rank)
    _validate.positive(alpha=alpha)
    _validate.takes("path", adapted=adapted)
    sizes = {name: w.shape for name, w in _named(params) if w.ndim > 1 and adapted(name)}
    if not sizes:
        raise ValueError("adapted must be true of at least one array of two axes or more in params, got none")

    @jax.jit
    def init(key: Key) -> Adapters:
        keys = jax.random.split(key, len(sizes))
        return {name: _adapter(key, shape, rank) for (name, shape), key in zip(sizes.items(), keys, strict=True)}

    def apply(adapters: Adapters, x: Array) -> Array:
        return model.apply(merge_lora(params, adapters, alpha=alpha), x)

    if (own := model.train) is None:
        return Model(init, apply)
    whole = lambda adapters: merge_lora(params, adapters, alpha=alpha)
    return Model(init, apply, lambda adapters, x, keys: own(whole(adapters), x, keys))


def merge_lora(params: PyTree, adapters: Adapters, *, alpha: float = 1.0) -> PyTree:
    """The parameters of the whole model, `W + (alpha / rank) A B` where there is an adapter.

    Args:
      params: those that `lora` was given.
      adapters: after training.
      alpha: as `lora` was given.

    Raises:
      ValueError: an adapter has the name of no array, or `alpha` is not > 0.

    Examples:
      >>> base = softmax_regression((2,), 3)
      >>> params = base.init(jax.random.key(0))
      >>> adapters = lora(base, params, rank=1).init(jax.random.key(1))  # before training: no change
      >>> jax.tree.all(jax.tree.map(np.array_equal, merge_lora(params, adapters), params))
      True
    """
    alpha = _validate.positive(alpha=alpha)
    paths = {jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(params)}
    if unknown := sorted(adapters.keys() - paths):
        raise ValueError(f"adapters must be of arrays of params, {sorted(paths)}, got {unknown}")

    def merged(path: tuple, w: Array) -> Array:
        adapter = adapters.get(jax.tree_util.keystr(path))
        if adapter is None:
            return w
        down, up = adapter["down"], adapter["up"]
        return w + (alpha / down.shape[1]) * (down @ up).reshape(w.shape)

    return jax.tree.map_with_path(merged, params)


def _named(params: PyTree) -> list[tuple[str, Float[Array, "..."]]]:
    return [(jax.tree_util.keystr(path), jnp.asarray(w)) for path, w in jax.tree.leaves_with_path(params)]


def _adapter(key: Key, shape: tuple[int, ...], rank: int) -> dict[str, Array]:
    inputs, outputs = shape[0], math.prod(shape[1:])
    down = jax.random.normal(key, (inputs, rank)) / jnp.sqrt(jnp.float32(inputs))
    return {"down": down, "up": jnp.zeros((rank, outputs))}
