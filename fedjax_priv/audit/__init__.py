"""Audits: lower bounds on epsilon from what an adversary sees, which can contradict a claim and never prove one."""

from fedjax_priv.audit.bounds import LowerBound, one_run, one_run_p_value, two_worlds
from fedjax_priv.audit.worlds import Worlds, direction_canary, scores, sending

__all__ = ["LowerBound", "Worlds", "direction_canary", "one_run", "one_run_p_value", "scores", "sending", "two_worlds"]
