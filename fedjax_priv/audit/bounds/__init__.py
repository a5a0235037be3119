"""Lower bounds on epsilon, at a stated confidence, from an adversary's scores.

A bound holds for any score; a poor score only makes it small. If the bound exceeds a claim, the claim is false, up to
the confidence.

- `guessing`: a test that guesses the input from a score. Half of the runs choose the test, the others count its errors.
- `one_event`, `gaussian_curve`: what error rates imply for any mechanism, and for a Gaussian one.
- `many_runs`: many runs on each of two adjacent inputs. `right_guesses`: one run with many canaries.
- `curve_guesses`: what right guesses in one run imply for a trade-off curve.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.audit.bounds.many_runs import Comparison, LowerBound, compare, two_worlds
    from fedjax_priv.audit.bounds.right_guesses import one_run, one_run_p_value
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Comparison", "LowerBound", "compare", "one_run", "one_run_p_value", "two_worlds"]
