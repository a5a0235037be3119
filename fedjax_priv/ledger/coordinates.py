"""FedREP: which coordinates a client proposes, and the sums of its buffer."""

from collections.abc import Mapping
from typing import Any

from fedjax_priv.ledger.entry import Entry, Figure, none
from fedjax_priv.ledger.sums import no_noise
from fedjax_priv.theory import fedrep


def entries(terms: Mapping[str, Any]) -> list[Entry]:
    """Theorem 2, of one iteration, and what it does not cover."""
    sizes = terms["num_params"], terms["num_coordinates"], float(terms["alpha"])
    proposal = Entry(
        "the server, of one round's proposal",
        "one of the n coordinates that are largest is another one, the update given",
        _figure(fedrep.coordinate_epsilon_printed(*sizes), "Theorem 2 as printed"),
        _figure(fedrep.coordinate_epsilon(*sizes), "Theorem 2, exact"),
        "eps adds up over rounds; it is not about data: one sample may move many coordinates",
    )
    return [proposal, no_noise("the server, of sums over buffers" if terms["masked"] else "the server, of updates")]


def _figure(epsilon: Any, why: str) -> Figure:
    return Figure(float(epsilon), 0.0, why) if epsilon < float("inf") else none(f"{why}: alpha = 0 hides nothing")
