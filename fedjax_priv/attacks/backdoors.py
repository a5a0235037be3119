"""Backdoors: Byzantine clients teach the model to answer a trigger with a label of their choice (Bagdasaryan et al.
2020).

A backdoor has up to three parts: samples with a trigger in the attackers' data (`plant_backdoor`), updates long enough
to outweigh those of the others (`model_replacement`), and the measure `metrics.attack_success`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.attacks.on_labels import fits_labels, labelled
from fedjax_priv.base import ClientData, Key
from fedjax_priv.base.byzantine_clients import Byzantine, byzantine_mask
from fedjax_priv.engine.rounded_fractions import part_of
from fedjax_priv.engine.row_norms import norms


class PixelTrigger(NamedTuple):
    """A square of `size` x `size` bright pixels in the last corner of an image.

    Called on images `[..., height, width, channels]`, it returns them with the square; a NumPy array stays one.
    """

    size: int = 3
    value: float | None = None  # of these pixels; if not given the brightest, 1 or the largest unsigned integer

    def __call__(self, x: ArrayLike) -> Array | np.ndarray:
        """The images with the square; ValueError if they are smaller, or have no pixel of this value."""
        _validate.integer(size=self.size)
        shape = np.shape(x)
        if len(shape) < 3 or min(shape[-3:-1]) < self.size:
            raise ValueError(f"x must be images [..., h, w, c] of {self.size} pixels or more each way, got {shape}")
        inside = [np.arange(n) >= n - self.size for n in shape[-3:-1]]
        square = (inside[0][:, None] & inside[1][None, :])[:, :, None]
        where = np.where if isinstance(x, np.ndarray) else jnp.where
        return where(square, _pixel(self.value, jnp.result_type(x)), x)


def _pixel(value: float | None, dtype: np.dtype) -> Array:
    """The value of a pixel of such images, a fraction in no image of integers; the brightest if none is given."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(1.0 if value is None else _validate.finite(value=value), dtype)
    low, high = (int(end) for end in (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max))
    if value is None and low == 0:
        return jnp.asarray(high, dtype)
    if value is None or not (low <= value <= high and value == round(value)):
        raise ValueError(f"value must be an integer from {low} to {high} for {dtype} images, got {value}")
    return jnp.asarray(value, dtype)


CORNER = PixelTrigger()
"""9 of the brightest pixels."""
Trigger = Callable[[ArrayLike], Array | np.ndarray]


def plant_backdoor(
    data: ClientData,
    byzantine: Byzantine,
    *,
    target: int,
    fraction: float = 0.3,
    trigger: Trigger = CORNER,
) -> ClientData:
    """A fraction of the samples of Byzantine clients gets the trigger and the label `target`; a NumPy array stays one.

    Of every run of a client's samples the same fraction is changed, `floor(fraction m)` of the first m.

    Args:
      data: examples are a pair (x, y) of images `[n, m, h, w, c]` and integer labels `[n, m]`.
      byzantine: how many clients, counted from client 0, or a mask, bool `[n]`.
      target: the label, >= 0.
      fraction: in (0, 1].
      trigger: what is stamped on them.

    Raises:
      ValueError: an argument is out of range, or `data` has another form.

    Examples:
      >>> samples = (np.zeros((4, 8, 8, 1), np.float32), np.array([1, 2, 3, 4]))
      >>> data = fedjax_priv.data.stack_clients(samples, [np.array([0, 1]), np.array([2, 3])])
      >>> print(plant_backdoor(data, byzantine=1, target=7, fraction=0.5).examples[1])
      [[1 7]
       [3 4]]
    """
    _validate.integer(at_least=0, target=target)
    _validate.fraction(above_zero=True, fraction=fraction)
    _validate.takes("images", trigger=trigger)
    x, y = labelled(data)
    if np.ndim(x) != 5 or np.shape(x)[:2] != np.shape(y):
        raise ValueError(
            f"data.examples must be images [n, m, h, w, c] and labels [n, m], got {np.shape(x)} and {np.shape(y)}"
        )
    fits_labels(y, target=target)
    changed = np.diff([part_of(fraction, places) for places in range(y.shape[1] + 1)]) > 0
    where = np.where if isinstance(y, np.ndarray) else jnp.where
    stamped = byzantine_mask(len(y), byzantine=byzantine)[:, None] & changed[None, :]
    images = where(stamped[:, :, None, None, None], trigger(x), x)
    return data._replace(examples=(images, where(stamped, np.asarray(target, y.dtype), y)))


def model_replacement(server_rate: float | Array = 1.0, *, largest_norm: float | Array | None = None) -> Attack:
    """`m / (f server_rate)` times the client's own update, so that the mean over m clients of whom f are Byzantine ends
    at the attackers' own model, if the updates of the others cancel (Bagdasaryan et al. 2020, Sun et al. 2019).

    The attackers may train on any data, such as data with a backdoor. m and f count the clients that take part. A mean
    weighted by samples ends at `m W / f` times that update, where W is the attackers' fraction of all weights, which
    they do not know.

    Args:
      server_rate: eta, > 0, the server's learning rate; may be traced.
      largest_norm: > 0; a longer update is scaled down to this Euclidean norm, so that a server that compares norms
        does not notice it; no limit if not given; may be traced.

    Raises:
      ValueError: an argument is not a finite number > 0; a traced one is sent as NaN.

    Examples:
      >>> updates, honest = jnp.ones((4, 2)), jnp.array([True, True, True, False])
      >>> print(jax.jit(model_replacement())(jax.random.key(0), updates, honest, ~honest)[3])  # four times its own
      [4. 4.]
    """
    rate = _validate.positive(server_rate=server_rate)
    most = None if largest_norm is None else _validate.positive(largest_norm=largest_norm)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "n d"]:
        del key
        boost = (honest | byzantine).sum() / jnp.maximum(byzantine.sum(), 1) / rate
        sent = boost.astype(updates.dtype) * updates
        if most is None:
            return sent
        return sent * jnp.minimum(1, most / jnp.maximum(norms(sent), 1e-30))[:, None]

    return attack
