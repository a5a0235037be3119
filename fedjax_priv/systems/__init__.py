"""Published systems, each one expression over the parts."""
