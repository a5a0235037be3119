"""Many rounds: one run, or a grid of them side by side."""
