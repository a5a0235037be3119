"""Attacks on the values that Byzantine clients send, one a file; `searched` holds those that tune themselves."""
