"""Data sets and their partition over clients."""
