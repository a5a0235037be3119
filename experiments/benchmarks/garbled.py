"""Layers of secure sums whose messages are garbled on their way, and whether the server takes what comes of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from fedjax_priv.base import Cohort, Layer
from fedjax_priv.crypto import field
from fedjax_priv.crypto.agreement import SIMULATED, KeyAgreement


class Garbled(NamedTuple):
    """What is added, modulo 2**32, to messages of a round of masks between pairs, by client."""

    key: Any = 0  # [n, w], as everybody gets it
    commitment: Any = 0  # [n, w]
    shares: Any = 0  # [n, m, 2 w], as their holders get them


class GarbledAnswers(NamedTuple):
    """What is added, modulo 2**32, to answers of a round whose masks are opened as a sum."""

    sums: Any = 0  # [c, l], of shares, as the server gets them: a share of theirs was garbled, or the answer
    commitment: Any = 0  # [2], to the sum of what is opened


def garbling(layer: Layer, garbled: Garbled, agreement: KeyAgreement = SIMULATED) -> Layer:
    """A layer of masks between pairs, with this key agreement, whose messages are garbled."""

    def advertise(*args: Any, **how: Any) -> tuple:
        private, roster, bits = layer.advertise(*args, **how)
        key, commitment = roster.key + garbled.key, roster.commitment + garbled.commitment
        told = roster._replace(key=key, commitment=commitment, directory=agreement.directory(key))
        return private._replace(shares=field.canonical(private.shares + garbled.shares)), told, bits

    return layer._replace(advertise=advertise)


def garbling_answers(layer: Layer, garbled: GarbledAnswers) -> Layer:
    """A layer of coded or one-shot masks whose answers are garbled, or the commitment."""

    def disclose(*args: Any, **how: Any) -> tuple:
        header, bits = layer.disclose(*args, **how)
        sums = field.canonical(header.sums + garbled.sums)
        return header._replace(sums=sums, commitment=field.canonical(header.commitment + garbled.commitment)), bits

    return layer._replace(disclose=disclose)


def accepted(outcome: dict[str, Any], who: Cohort) -> Bool[Array, " g"]:
    """Whether the server takes the sum of each group of a `layer_round`; a client that sets a bit costs its own."""
    received, sent = outcome["received"], outcome["sent"]
    bits = jnp.where(who.selected, sent.refused | jnp.where(who.byzantine, 0, sent.status), 0)
    refused = jax.ops.segment_max((bits > 0).astype(jnp.int32), who.group, received.count.size) > 0
    failed = jnp.zeros(received.count.size, bool) if isinstance(received.status, tuple) else received.status != 0
    return (received.count > 0) & ~failed & ~refused
