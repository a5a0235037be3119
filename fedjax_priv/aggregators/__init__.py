"""Robust and plain aggregation rules, one a file."""
