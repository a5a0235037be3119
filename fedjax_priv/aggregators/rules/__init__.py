"""Aggregation rules, one a file; two in one file where they differ in a measure only."""
