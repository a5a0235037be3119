"""The demo: systems of four papers on the same clients, in one table."""
