"""The command fedjax-priv: everything that parses a command line or prints a table. The library imports none of it."""
