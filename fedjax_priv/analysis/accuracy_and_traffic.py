"""Accuracy and communication of systems in one figure.

`figure.savefig(path)` needs neither a display nor pyplot; the path may end in `.svg`, `.pdf` or `.png`.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedjax_priv import _validate
from fedjax_priv.analysis import line_styles

# Phases are not systems: other colours, "light" of Paul Tol's notes (SRON/EPS/TN/09-002, issue 3.2).
_LIGHT = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00")
_STEP = 2.8  # from one system's bars to the next, in bars


def learning_curves(results: Mapping[str, xr.Dataset], metric: str = "accuracy") -> Figure:
    """Plots what systems learn, and how many bytes their clients send and receive.

    Args:
      results: name of a system -> its result of `simulate`.
      metric: the variable of the evaluations to show.

    Returns:
      Three panels: the metric by round; the metric by the bytes that a client has sent so far, mean over the cohort;
      the bytes that a client sends and receives per round, by phase, mean over rounds and cohort.

    Raises:
      ValueError: `results` is not a dict with at least one result, or a result is a sweep or has no such metric.
    """
    _validate.named_results(results)
    for data in results.values():
        axes = [str(name) for name in data[metric].dims if name != "evaluation"] if metric in data else []
        if axes and "evaluation" in data[metric].dims:
            raise ValueError(
                f"results must be single runs, as of simulate, got a sweep over {', '.join(axes)}; curves draws those"
            )
        _validate.one_of([str(name) for name in data.data_vars if data[name].dims == ("evaluation",)], metric=metric)
    figure = Figure(figsize=(13, max(4.2, 1 + 0.8 * len(results))), layout="constrained")
    by_round, by_bytes, traffic = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
    sent = {name: _sent(data) for name, data in results.items()}
    size, unit = line_styles.byte_unit(max(float(values.max(initial=0)) for values in sent.values()))
    _curves(by_round, results, metric, {name: data.evaluation.values for name, data in results.items()})
    _curves(by_bytes, results, metric, {name: values / size for name, values in sent.items()})
    by_round.set(xlabel="round", ylabel=metric, title=f"{metric} by round")
    by_bytes.set(xlabel=f"sent by a client so far ({unit})", title=f"{metric} by upload")
    by_bytes.sharey(by_round)
    by_bytes.tick_params(labelleft=False)
    _traffic(traffic, results)
    figure.legend(*by_round.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def _sent(data: xr.Dataset) -> np.ndarray:
    """Bytes that a client has sent before each evaluation, mean over the cohort."""
    of_rounds = data.up_bytes.sum("phase").mean("client").values
    return np.concatenate([[0.0], np.cumsum(of_rounds)])[data.evaluation.values]


def _curves(axes: Axes, results: Mapping[str, xr.Dataset], metric: str, places: Mapping[str, np.ndarray]) -> None:
    for i, (name, data) in enumerate(results.items()):
        failed = int(data.attrs.get("failed_rounds", 0))
        label = f"{name} ({failed} rounds failed)" if failed else name
        axes.plot(places[name], data[metric].values, label=label, **line_styles.line(i))
    line_styles.plain(axes)


def _traffic(axes: Axes, results: Mapping[str, xr.Dataset]) -> None:
    """Draws two bars per system, up and down, stacked by phase, with their sums next to them."""
    phases = _phases(results)
    places = np.array([_STEP * i + way for i in range(len(results)) for way in (0, 1)])
    sent = (data[way] for data in results.values() for way in ("up_bytes", "down_bytes"))
    means = [each.mean(("round", "client")).to_series() for each in sent]
    values = np.array([[mean.get(phase, 0.0) for phase in phases] for mean in means])
    size, unit = line_styles.byte_unit(values.sum(1).max(initial=0))
    left = np.zeros(len(places))
    for k, phase in enumerate(phases):
        axes.barh(places, values[:, k] / size, left=left, height=0.85, color=_LIGHT[k % len(_LIGHT)], label=phase)
        left += values[:, k] / size
    for place, total in zip(places, left, strict=True):
        axes.annotate(
            f"{total:.3g}", (total, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9
        )
    for i, name in enumerate(results):
        axes.annotate(name, (0, _STEP * i - 0.5), xytext=(4, 2), textcoords="offset points", va="bottom", fontsize=10)
    axes.set_yticks(places, ["up", "down"] * len(results))
    axes.set(xlabel=f"a client in a round, mean ({unit})", title="bytes by phase", xmargin=0.12)
    axes.set_ylim(_STEP * len(results) - 0.8, -1.1)
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5, columnspacing=1.0)
    line_styles.plain(axes, grid=False)


def _phases(results: Mapping[str, xr.Dataset]) -> list[str]:
    """The phases in which something is sent, in the order of the system with the most phases."""
    longest_first = sorted(results.values(), key=lambda data: -data.sizes["phase"])
    sent = (data.phase[((data.up_bytes + data.down_bytes) > 0).any(("round", "client"))] for data in longest_first)
    return list(dict.fromkeys(str(phase) for phases in sent for phase in phases.values))
