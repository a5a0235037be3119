"""How many survivors open a secure sum, if nobody knows how many clients will come.

A majority of the most clients that may come is more than most rounds have where few are expected: of 100 clients at
rate 0.1 as many as 40 may come, and 21 do in one round of a thousand.
"""

from typing import Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.layers.mask import secagg_protocol
from fedjax_priv.systems.central_noise.sampling import Sampling

LATE = 1e-6
"""Probability that fewer than the threshold survive, if that is no minority of the clients expected.

Rounds in which one client more would have opened the sum cost privacy: what it sends hides behind no other round.
"""


def with_threshold(
    masks: dict[str, Any], sampled: Sampling, num_clients: int, dropout: float | Array, leave: float | Array
) -> dict[str, Any]:
    """Options of masks, with a threshold where none is given and clients come by coins.

    It is the `LATE` quantile of the number of survivors, but more than half of the clients expected, and at most the
    majority of holders that is the default elsewhere. The check of `consistency` needs that majority.

    Raises:
      ValueError: `dropout` or `leave` is traced; or as `secagg_protocol`.
    """
    majority = secagg_protocol(group_size=sampled.most, **masks).quorum.threshold
    sampling, rate, separation, _ = sampled.participation
    by_coins = sampling in ("poisson", "cyclic_poisson")
    if not by_coins or masks.get("threshold") is not None or masks.get("consistency"):
        return masks
    from scipy.stats import binom  # slow to import

    _validate.known(dropout=dropout, leave=leave)
    stays = (1 - float(dropout)) * (1 - float(leave))
    reached = int(binom.ppf(LATE, num_clients // separation, rate * stays))
    return masks | {"threshold": min(majority, max(2, int(sampled.expected / 2) + 1, reached))}
