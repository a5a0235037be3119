"""The systems that the FedREP paper compares, and their attacks, chosen by a number that may be traced."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedjax_priv import aggregators, attacks
from fedjax_priv.attacks import Attack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.layers.consensus_sparsification import CoordinateAttack
from fedjax_priv.systems import f2ed, fedrep, rcgd_ef, share, sparse_secagg
from fedjax_priv.theory.fedrep import sparse_secagg_alpha

ALIE = ("ALIE (Baruch)", "ALIE (1.5)")
ATTACKS: dict[str, Attack] = {
    "none": lambda key, updates, honest, byzantine: updates,
    "bit-flip": attacks.sign_flip(),
    ALIE[0]: attacks.alie(),
    ALIE[1]: attacks.alie(1.5),
    "FoE": attacks.foe(),
    "bit-flip (30)": attacks.sign_flip(30.0),
}
"""The paper's, with ALIE at the two values of z that it could mean: Baruch's quantile, and 1.5 as in his code. The
last one is ours."""
PAPERS = tuple(ATTACKS)[1:5]

AGGREGATES: dict[str, Aggregator] = {
    "mean": aggregators.mean()._replace(most_byzantine=None),  # defends against nothing: a control
    "CClip": aggregators.centered_clipping(),
    "geoMed": aggregators.weiszfeld(steps=5),
    "TMean": aggregators.trimmed_mean(fraction=7 / 16),
}
COORDINATES: dict[str, CoordinateAttack | None] = {
    "noAtk": None,
    "minAtk": attacks.smallest(),
    "randAtk": attacks.random_set(),
    "sameAtk": attacks.same_set(),
}


class Method(NamedTuple):
    """A system and its parts; a system ignores the fields that it does not use."""

    system: str = "FedREP"  # or "SHARE", "F2ed-Learning", "RCGD-EF", "SparseSecAgg"
    ratio: float = 0.05  # K / d; the fraction of coordinates a user of SparseSecAgg sends
    buffer_size: int = 2
    aggregate: str = "CClip"
    local_steps: int = 1
    num_byzantine: int = 7
    coordinates: str = "noAtk"
    sigma: float = 0.05  # of F2ed-Learning, in units of the rate
    rates: tuple[float, ...] = ()  # those of the setting if there are none

    @property
    def sends_values_alone(self) -> bool:
        """Whether uploads hold values only, without the places they belong to."""
        return self.system not in ("RCGD-EF", "SparseSecAgg")


def attacked(local: Local, attack: Attack, num_byzantine: int) -> Local:
    """Training that replaces the first clients' updates by an attack's, for systems without an attack layer.

    The attack sees all updates, so that the cohort must be one block.
    """

    def apply(key: Any, memory: Any, params: Any, data: Any, cohort: Any) -> tuple:
        update, memory, loss = local.apply(key, memory, params, data, cohort)
        honest = cohort.client >= num_byzantine
        return jnp.where(honest[:, None], update, attack(key, update, honest, ~honest)), memory, loss

    return Local(local.init, apply)


def system_of(
    method: Method,
    local: Local,
    m: int,
    d: int,
    alpha: Any,
    attack: Any,
    rate: Any,
    *,
    elide: bool,
    observe: Any,
    dropout: float = 0.0,
) -> Algorithm:
    """A method for m clients and d parameters, on one device.

    Args:
      method: which.
      local: training of a client.
      m: clients.
      d: parameters.
      alpha: confounding of FedREP's proposals.
      attack: number of an attack.
      rate: the learning rate, a unit for `sigma`.
      elide: expand no masks.
      observe: as in `federated_round`.
      dropout: probability that a client is lost.
    """
    f = method.num_byzantine
    how: dict[str, Any] = dict(num_clients=m, block=m, mesh=None, observe=observe, dropout=dropout)
    forge = attacks.one_of(attack, list(ATTACKS.values()))
    if method.system == "SparseSecAgg":
        part = float(sparse_secagg_alpha(method.ratio, m))
        return sparse_secagg(attacked(local, forge, f), alpha=part, elide=elide, **how)
    how |= dict(num_byzantine=f, attack=forge if f else None)
    if method.system == "RCGD-EF":
        return rcgd_ef(local, num_params=d, ratio=method.ratio, **how)
    how |= dict(buffer_size=method.buffer_size, elide=elide)
    if method.system == "F2ed-Learning":
        return f2ed(local, sigma=method.sigma * rate, **how)
    if method.system == "SHARE":
        return share(local, aggregate=AGGREGATES[method.aggregate], **how)
    return fedrep(
        local, num_params=d, ratio=method.ratio, alpha=alpha, aggregate=AGGREGATES[method.aggregate],
        coordinate_attack=COORDINATES[method.coordinates] if f else None, **how,
    )  # fmt: skip
