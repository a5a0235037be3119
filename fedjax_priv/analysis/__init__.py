"""Reading results: plots, modelled time and traffic, how far attacks take a rule, links of a wireless run."""

from fedjax_priv.analysis.plots import learning_curves
from fedjax_priv.analysis.rule_robustness import Robustness, robustness
from fedjax_priv.analysis.wall_clock import Traffic, round_bytes, round_seconds, run_bytes, run_seconds
from fedjax_priv.analysis.wireless_links import link_measures
from fedjax_priv.analysis.worst_attack import worst_case

__all__ = [
    "Robustness", "Traffic", "learning_curves", "link_measures", "robustness", "round_bytes", "round_seconds",
    "run_bytes", "run_seconds", "worst_case",
]  # fmt: skip
