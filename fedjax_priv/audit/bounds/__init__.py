"""From what an adversary saw to a lower bound on epsilon at a stated confidence.

A bound holds whatever the score: a poor one only makes it small. Where it exceeds a claim, the claim is false, up to
the confidence.

- `guessing`: a test that guesses the input from a score: chosen on half of the runs, its errors counted on the others.
- `one_event`: eps from the error rates of many runs on each of two adjacent inputs.
- `right_guesses`: eps from one run with many canaries.
"""

from fedjax_priv.audit.bounds.one_event import LowerBound, two_worlds
from fedjax_priv.audit.bounds.right_guesses import one_run, one_run_p_value

__all__ = ["LowerBound", "one_run", "one_run_p_value", "two_worlds"]
