"""Which clients take part in a round, and how they train.

- `participation`: draws of a round's cohort. `poisson_draws`, `separated_draws`: draws for private training.
- `schedulers`: a few clients per round, in turns or by the gains of their links.
- `antenna_draws`: all clients, and a server with several antennas.
- `level_draws`: draws with the levels at which users are received over the air.
- `asynchronous_draws`, `capped_draws`: cohorts of the updates that arrive next. `job_times`: how long jobs take.
  `staleness_factors`: the server's weights of stale updates in a secure sum.
- `cohort_rows`: helpers of all draws.
- `bounded_updates`: weighted and clipped updates, bounded for any data of a client.
- `local_training`: local SGD. `step_loop`: its loop over steps. `full_gradients`: FedSGD. `narrowing`: clients that are
  done drop out of a loop.
- `minibatches`: batches of each client's samples. `shuffles`: their order, as far as it is used.
- `batch_gradients`: gradients of a batch, with or without clipping and noise. `random_losses`: losses that draw.
- `local_steps`: what local training states about its steps, for privacy theorems and FedNova.
- `normalized_updates`: FedNova's updates. `control_variates`: SCAFFOLD's training.
- `replays`: clients that refuse to train the same model twice.
- `clipped_gradients`: sums of clipped gradients of single samples. `ghost_norms`: the norms of these gradients.
- `one_step_updates`: norms and sums of the updates of clients that take one step.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.clients.antenna_draws import heard_by_antennas
    from fedjax_priv.clients.asynchronous_draws import buffered
    from fedjax_priv.clients.bounded_updates import bounded, bounded_and_counted
    from fedjax_priv.clients.clipped_gradients import clipped_gradient, gradient_norms, norm_methods
    from fedjax_priv.clients.control_variates import controlled
    from fedjax_priv.clients.full_gradients import fedsgd
    from fedjax_priv.clients.level_draws import at_levels
    from fedjax_priv.clients.local_steps import LocalSteps
    from fedjax_priv.clients.local_training import local_sgd
    from fedjax_priv.clients.normalized_updates import normalized
    from fedjax_priv.clients.participation import (
        bernoulli,
        channel_aware,
        everyone,
        independent,
        only_if,
        sample,
        scheduled,
    )
    from fedjax_priv.clients.poisson_draws import cyclic_poisson, poisson
    from fedjax_priv.clients.replays import once_per_model
    from fedjax_priv.clients.schedulers import best_gains, proportional_fair, round_robin
    from fedjax_priv.clients.separated_draws import separated
    from fedjax_priv.clients.staleness_factors import weighed_by_staleness
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "LocalSteps", "at_levels", "bernoulli", "best_gains", "bounded", "bounded_and_counted", "buffered", "channel_aware",
    "clipped_gradient", "controlled", "cyclic_poisson", "everyone", "fedsgd", "gradient_norms", "heard_by_antennas",
    "independent", "local_sgd", "norm_methods", "normalized", "once_per_model", "only_if", "poisson",
    "proportional_fair", "round_robin", "sample", "scheduled", "separated", "weighed_by_staleness",
]  # fmt: skip
