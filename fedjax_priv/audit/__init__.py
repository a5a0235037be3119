"""Audits: lower bounds on epsilon from what an adversary sees, which can contradict a claim and never prove one.

- `canaries`, `sample_canaries`, `crafted_canaries`: adjacent inputs. `worlds`: the same rounds on both, many times.
- `crowds`: many canaries in one run.
- `adversaries`, `coalitions`: what the server, an outsider or colluding clients have of a round. `readings`: scores of
  it by coordinate, block and round; `over_rounds`: of rounds whose noise is correlated; `learned_score`: the best
  one of them together; `who_came`: of which trials. `whole_uploads`: uploads put back on all coordinates.
- `looks`: which canaries and which readings belong to an entry of a ledger.
- `masked_uploads`: masked uploads against random words.
- `bounds`: from that to a lower bound on epsilon at a stated confidence.
- `public_gains`: trials over the air with the gains of the run that a figure is about.
- `ledger_entries`: audits every entry of a ledger; `by_release` says how each is audited, `verdicts` what came out.
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
