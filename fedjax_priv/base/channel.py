"""What happens to messages on their way to the server."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jaxtyping import Array

from fedjax_priv.base.cohorts import Cohort
from fedjax_priv.base.messages import Received
from fedjax_priv.base.stated import without_rows
from fedjax_priv.keys import Key


def everyone_responds(key: Key, alive: Array, cohort: Cohort) -> Array:
    """Every client whose upload arrived is still there at disclosure.

    Examples:
      >>> key = jax.random.key(0)
      >>> cohort, _ = fedjax_priv.clients.everyone().apply(key, (), jnp.int32(0), jnp.array([30, 20]))
      >>> everyone_responds(key, jnp.array([True, False]), cohort).tolist()
      [True, False]
    """
    del key, cohort
    return alive


class Channel(NamedTuple):
    """What happens to messages on their way to the server."""

    transmit: Callable[..., tuple]  # (key, y [b], cohort [b]) -> (y, alive [b]); alive implies selected
    receive: Callable[..., Received]  # (key, Received) -> Received, once a round
    respond: Callable[..., Array] = everyone_responds  # (key, alive [n], cohort) -> online [n], a subset of alive
    superposes: bool = False  # uploads add on the way: the server gets only their sum, not who sent
    hides_count: bool = False  # nor how many sent: a row counts as one upload
    turns: bool = False  # uploads meet the true gain, see `Cohort.coefficient`
    antennas: str | None = None  # they are heard by several: what of these is received, see `layers.blind_combining`
    measure: Callable[..., Mapping[str, Array]] | None = None  # (x, y, cohort, measured by layers) -> name -> [b]

    @property
    def arrivals(self) -> Callable[..., Array] | None:
        """`(key, cohort [b]) -> alive [b]` of a channel that changes no upload; None: `transmit` needs the uploads."""
        return without_rows(self.transmit)
