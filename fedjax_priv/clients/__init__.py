"""Who takes part, and how clients train."""
