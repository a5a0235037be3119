"""Aggregation rules, one a file."""
