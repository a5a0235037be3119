"""Aggregation rules made from other rules, or from a function on the host."""
