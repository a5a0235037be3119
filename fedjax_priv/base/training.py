"""A model, and its training by a block of clients."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Array, Float, PyTree

from fedjax_priv.base.stated import Stated


class Model(NamedTuple):
    """A model as pure functions."""

    init: Callable[..., PyTree]  # (key) -> params
    apply: Callable[..., Array]  # (params, x [b, ...]) -> logits [b, classes]
    train: Callable[..., Array] | None = None  # (params, x, keys [b]) -> logits in training that draws; None: `apply`


class Updates(NamedTuple):
    """Updates of a block of clients, known by their norms and sums; no client has a row."""

    loss: Float[Array, " b"]  # mean training loss
    norm: Float[Array, " b"]  # Euclidean
    weighted_sum: Callable[..., Array]  # (factors [b], counted [b]) -> the sum of those counted, times factors, [d]


class Local(NamedTuple):
    """Local training of a block of clients that all start from the same parameters.

    A client that is not selected is given a count of 0, so that it need not train: its update, memory and loss are not
    used. Where clients train models of earlier rounds, each is a block alone, under `vmap`.
    """

    init: Callable[..., PyTree]  # (n, params) -> memory [n, ...]
    apply: Callable[..., tuple]  # (key, memory, params, ClientData, cohort), [b] -> (update [b, d], memory, loss [b])
    digest: Callable[[PyTree], Array] | None = None  # of params; clients train no model twice, `clients.once_per_model`

    @property
    def steps(self) -> Any:
        """What `apply` states of its steps, a `clients.LocalSteps`; None: nothing is known."""
        return self._stated.steps

    @property
    def in_place(self) -> bool:
        """Whether `apply`, `updates` and `corrected` take `Rows` as examples, so that no samples need be copied."""
        return self._stated.in_place

    @property
    def updates(self) -> Callable[..., Updates] | None:
        """`(key, params, ClientData [b], cohort [b]) -> Updates [b]`, the same training; None: it makes rows."""
        return self._stated.updates

    @property
    def corrected(self) -> Callable[..., tuple] | None:
        """The same training, in which each local step goes along its gradient, or velocity, plus a constant vector.

        `(key, memory, params, ClientData, cohort, added [b, d]) -> (update [b, d], memory, loss [b], length [b])`;
        `length` is the number of steps times their size, 0 of a client that takes none. None: it cannot be done.
        """
        return self._stated.corrected

    @property
    def _stated(self) -> Stated:
        return self.apply if isinstance(self.apply, Stated) else Stated(self.apply)


class Told(NamedTuple):
    """What a client gets when a round opens, where the aggregator tells it more than the model."""

    params: PyTree
    numbers: Mapping[str, PyTree]  # name -> float32 of any shape, or a tree of these
