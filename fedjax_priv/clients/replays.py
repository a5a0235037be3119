"""Clients that refuse to train the same model twice."""

from fedjax_priv import _validate
from fedjax_priv.base import Local, Stated
from fedjax_priv.clients.local_steps import of_changed_training
from fedjax_priv.crypto.digest import model_digest


def once_per_model(local: Local) -> Local:
    """The same training, by clients that remember which model they trained last and refuse to train it again.

    Two sums of one round, over S and over S without i, reveal the update of client i, if training is deterministic.
    Clients cannot distinguish a server that tries this from one whose round failed. So each client keeps the digest of
    the model that it trained last, whether or not its upload was accepted, and takes no part until it gets another
    model. Then the sums that are opened in several attempts with one model are over disjoint sets of clients. Runs
    measure `sat_out`: who was drawn and refused.

    The cost: after a failed round, its clients take no part until the model changes. If everybody takes part in every
    round, training stops at the first failed round; `theory.lying_server.expected_successes` computes the cost if
    cohorts are drawn. The limits: clients do not refuse a model again after another one, or a model in which one
    parameter differs by the least step of a float. Nor do they refuse an equivalent model with permuted hidden units,
    which gives the same update exactly. Noise of the clients bounds what a server learns; the ledger counts every
    attempt.

    Args:
      local: training of a client.

    Raises:
      ValueError: `local` is not a `Local`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = once_per_model(local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1))
    """
    _validate.part(Local, "clients.local_sgd(...)", local=local)
    # Whether a client sits out depends on earlier rounds: theorems for clients that keep no state do not apply.
    about = of_changed_training(local.steps, "remembering")
    return local._replace(apply=Stated(local.apply, about, local.updates, in_place=local.in_place), digest=model_digest)
