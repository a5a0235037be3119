"""Robust and plain aggregation rules, one a file."""

from fedjax_priv.aggregators.mean import mean

__all__ = ["mean"]
