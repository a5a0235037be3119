"""Plots and summaries of results.

- `band_plots`: one variable against another, with intervals over seeds; `curve_bands` computes the numbers.
- `live_plots`: a curve that grows during a run. `accuracy_and_traffic`: of systems, in three panels.
  `heat_maps`: two axes of a sweep. `line_styles`: how lines look in every picture.
- `wall_clock`: modelled time and traffic of rounds.
- `wireless_links`: measures of a wireless run's links. `on_air`: channel uses, seconds and joules of a run over the
  air. `downlink`: the same for a model that the server broadcasts.
- `rule_robustness`: how far an attack moves a rule. `worst_attack`: accuracy under the worst attack.
- `worst_rows`: searches for the rows on which a rule is worst. `rows_of_rounds`: how good a rule is on a run's rows.
- `byzantine_rounds`: rounds with more Byzantine clients than the rule tolerates.
- `intervals`: confidence intervals of means over few runs.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.analysis.accuracy_and_traffic import learning_curves
    from fedjax_priv.analysis.band_plots import curves
    from fedjax_priv.analysis.byzantine_rounds import uncovered_rounds
    from fedjax_priv.analysis.curve_bands import Band, bands
    from fedjax_priv.analysis.downlink import Broadcast
    from fedjax_priv.analysis.heat_maps import heat_map
    from fedjax_priv.analysis.intervals import half_width
    from fedjax_priv.analysis.live_plots import LiveCurve, live_curve
    from fedjax_priv.analysis.on_air import OnAir, air_resources
    from fedjax_priv.analysis.rows_of_rounds import kappa_run
    from fedjax_priv.analysis.rule_robustness import Robustness, robustness
    from fedjax_priv.analysis.wall_clock import Traffic, round_bytes, round_seconds, run_bytes, run_seconds
    from fedjax_priv.analysis.wireless_links import link_measures
    from fedjax_priv.analysis.worst_attack import worst_case
    from fedjax_priv.analysis.worst_rows import Worst, kappa_of, kappa_search
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Band", "Broadcast", "LiveCurve", "OnAir", "Robustness", "Traffic", "Worst", "air_resources", "bands", "curves",
    "half_width", "heat_map", "kappa_of", "kappa_run", "kappa_search", "learning_curves", "link_measures", "live_curve",
    "robustness", "round_bytes", "round_seconds", "run_bytes", "run_seconds", "uncovered_rounds", "worst_case",
]  # fmt: skip
