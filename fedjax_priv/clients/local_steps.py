"""What local training states about its steps: theorems rely on nothing else."""

from typing import Literal, NamedTuple, get_args

from jax.typing import ArrayLike
from jaxtyping import Array

Form = Literal["plain", "momentum from zero", "forgetting", "remembering"]
"""How an update is computed from noisy gradients `g_s = (sum of clipped sample gradients) / batch_size + noise`.

- "plain": `w <- w - eta g_s`, with one eta for all clients, rounds and steps; nothing is kept from round to round.
- "momentum from zero": `v <- mu v + g_s`, `w <- w - eta v` from v = 0 in every round, with one eta and one mu; nothing
  is kept from round to round.
- "forgetting": any function of the noisy gradients of this round, and of what is public.
- "remembering": any function of the noisy gradients of this round and earlier ones, and of what is public.

In all of them batches are cut from a uniform shuffle of the client's samples, a new one in each round and whenever all
samples are used, so a sample is in one batch of an epoch. Batches drawn with replacement or by independent coins have
no form here.
"""


class LocalSteps(NamedTuple):
    """The steps of a client in a round. Local training that states nothing has no guarantee.

    Steps of any other kind, such as another optimizer's or gradients clipped by another norm, need another form,
    and a theorem that names it (`ledger.local_noise`).
    """

    form: Form
    clip: float | Array | None  # G, largest Euclidean norm of a sample's gradient; None: not clipped
    sigma: float | Array  # standard deviation of the fresh noise on a coordinate of g_s; 0: no noise
    batch_size: int | None  # gamma, by which a batch's sum of gradients is divided; None: all samples
    num_steps: int | None  # tau, of every client in a round; None: `num_epochs` passes
    num_epochs: int | None
    momentum: ArrayLike = 0.0  # mu of `v <- mu v + g_s`
    learning_rate: ArrayLike | None = None  # eta of "plain" and "momentum from zero"; None in other forms
    num_devices: int | None = None  # n of DP-SGD's printed figure, for one step per round; set by `systems.dp_sgd`


def of_changed_training(steps: LocalSteps | None, form: Literal["forgetting", "remembering"]) -> LocalSteps | None:
    """The statement of training that computes its updates from those of other training, whose `steps` are given.

    `form` says if it also uses what clients remember, or only what is public. A form that no theorem knows is kept.
    """
    if steps is None or steps.form == "remembering" or steps.form not in get_args(Form):
        return steps
    return steps._replace(form=form, learning_rate=None)
