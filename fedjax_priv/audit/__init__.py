"""Audits: lower bounds on epsilon from what an adversary sees. They can contradict a claim and never prove one.

- `canaries`, `sample_canaries`, `crafted_canaries`: pairs of adjacent inputs. `canary_families`: which of them are
  one program.
- `worlds`: runs the same rounds on both inputs, many times. `crowds`: many canaries in one run.
- `adversaries`, `coalitions`: what the server, an outsider or colluding clients read of a round.
- `readings`: scores of a reading by coordinate, block and round. `over_rounds`: the best score of noise that is
  correlated over rounds. `learned_score`: the best linear combination of scores.
- `who_came`: selects the trials in which the canary's client took part. `who_sent`: refuses trials that can show
  nothing of it, or whose figures are of other runs.
- `whole_uploads`: puts uploads back on all coordinates of the model.
- `looks`: chooses the canaries and readings for an entry of a ledger.
- `masked_uploads`: compares masked uploads with random words.
- `bounds`: turns scores into a lower bound on epsilon at a stated confidence.
- `public_gains`: gives trials over the air the gains of the run that a figure is about.
- `ledger_entries`: audits every entry of a ledger; `by_release` says how, `verdicts` states the result.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.audit.adversaries import coalition, on_the_air, outsider, proposal, server, uploads
    from fedjax_priv.audit.bounds import Comparison, LowerBound, compare, one_run, one_run_p_value, two_worlds
    from fedjax_priv.audit.by_release import Subject
    from fedjax_priv.audit.canaries import direction_canary, proposal_canary, sending
    from fedjax_priv.audit.crowds import Crowd, client_crowd, crowd_scores, label_crowd
    from fedjax_priv.audit.ledger_entries import findings
    from fedjax_priv.audit.masked_uploads import upload_finding
    from fedjax_priv.audit.public_gains import gains_of_run, of_first_client
    from fedjax_priv.audit.sample_canaries import label_canary, sample_canary
    from fedjax_priv.audit.verdicts import Finding, verdict
    from fedjax_priv.audit.worlds import Canary, Look, Seen, Worlds, scores
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Canary", "Comparison", "Crowd", "Finding", "Look", "LowerBound", "Seen", "Subject", "Worlds", "client_crowd",
    "coalition", "compare", "crowd_scores", "direction_canary", "findings", "gains_of_run", "label_canary",
    "label_crowd", "of_first_client", "on_the_air", "one_run", "one_run_p_value", "outsider", "proposal",
    "proposal_canary", "sample_canary", "scores", "sending", "server", "two_worlds", "upload_finding", "uploads",
    "verdict",
]  # fmt: skip
