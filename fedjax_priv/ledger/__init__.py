"""What every adversary learns of a client, as the papers claim it and as far as it can be proved.

A system states what it releases (`Algorithm.release`), the run what happened; the accountants of `theory` turn both
into figures. A system without a valid guarantee gets "none" and the reason, never a number by default.

- `entry`: the types. `by_release`: which module answers for which release. `made_by`: whether a system made the run.
  `printed`: the table on the terminal.
- `sums`: systems without noise; `sums_of_one_model`: what several sums tell together. `distributed_noise`: Skellam
  noise in sums. `local_noise`: noise in every local step.
- `central_noise`: noise that the server adds; `correlated_noise`: where it is correlated over rounds; `noisy_buffers`:
  on the sums of asynchronous rounds.
- `noisy_uploads`, `sketched_uploads`: noise in uploads that are seen one by one.
- `over_the_air`: noise on a wireless channel; `estimated_gains`, `blind_uploads`: where clients know it badly or not
  at all; `votes`: where they send signs. `receiver_noise`: what the receiver's own noise hides. `coins`: whose coins
  decide who sends.
- `coordinates`: coordinates that FedREP's clients propose.
- `gaussian_uploads`: one Gaussian mechanism in each upload; `by_client`: what clients spend over rounds;
  `sampled_rounds`: rounds whose clients come by chance; `prefixes`: eps after each round.
- `by_round`: eps of the rounds so far; `of_sweep`: of every run of a sweep; `run_alone`: a point of a sweep as a run.
- `budget`: noise for an eps, and rounds within one, before a run.
- `lying_server`: what is left if the server does not follow the protocol.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.ledger.budget import against, noise_for, planned, rounds_within
    from fedjax_priv.ledger.by_release import ledger
    from fedjax_priv.ledger.by_round import epsilon_by_round
    from fedjax_priv.ledger.entry import Entry, Figure, worst
    from fedjax_priv.ledger.of_sweep import epsilon_of_sweep
    from fedjax_priv.ledger.printed import show
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Entry", "Figure", "against", "epsilon_by_round", "epsilon_of_sweep", "ledger", "noise_for", "planned",
    "rounds_within", "show", "worst",
]  # fmt: skip
