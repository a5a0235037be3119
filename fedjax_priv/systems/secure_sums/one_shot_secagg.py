"""One-shot private aggregation (Karthikeyan, Polychroniadou 2024): one message a client, opened by a committee."""

from typing import Annotated, Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.crypto.lattice import check_coins, spacing_of
from fedjax_priv.layers import one_shot_masks
from fedjax_priv.systems._arguments import ROUND, HandsOn, fitting_spacing, loss_rate, secure_cohort
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import of_model
from fedjax_priv.systems.secure_sums._one_message import mean_under

COMMITTEE = HandsOn(one_shot_masks, ("committee", "threshold", "fewest", "length", "elide", "prg"))


@of_known_arguments
def one_shot_secagg(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**14,
    coins: int = 21,
    failure: float = 0.0,
    **how: Annotated[Any, COMMITTEE, ROUND],
) -> Algorithm:
    """FedAvg under one-shot aggregation: each client speaks once, and a committee of them twice.

    Each update is scaled by its weight beta_i / (1 - dropout) and by clients / cohort, so that the sum has the mean
    `sum_i beta_i y_i` over draws and dropouts, as in `secagg`.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      num_params: parameters of the model, d.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability theta that an upload is lost.
      leave: probability that a survivor is gone when members of the committee are asked.
      levels: grid points of the quantizer per unit; errors take a part of the field.
      coins: of each sign in an error of a mask, from 0 to 32; 0 is a control that anybody breaks by linear algebra.
      failure: probability per round that errors add up to more than rounding removes, which nobody notices; 0 spends
        the most bits of the field.
      **how: `committee`, `threshold`, `fewest`, `length`, `elide` and `prg` of `layers.one_shot_masks`; `server`,
        `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = one_shot_secagg(local, num_clients=20, num_params=15_010, failure=1e-12, dropout=0.2)
    """
    size, dropout = secure_cohort(num_clients, cohort_size), loss_rate(dropout)
    _validate.integer(num_params=num_params)
    check_coins(coins)
    _validate.known(failure=failure)
    _validate.fraction(below_one=True, failure=failure)
    members, run = COMMITTEE.split(how)
    drawn = "num_clients" if cohort_size is None else "cohort_size"
    given = f"{drawn} = {size}, coins = {coins} and failure = {failure:g}"
    spacing = fitting_spacing(spacing_of(size, coins, num_params, float(failure)), size, given)
    masks = of_model(num_params, one_shot_masks(group_size=size, spacing=spacing, coins=coins, **members))
    return mean_under(
        masks, local, num_clients=num_clients, cohort_size=cohort_size, dropout=dropout, leave=leave,
        levels=levels, spacing=spacing, **run,
    )  # fmt: skip
