"""Systems whose server sees sums of updates."""
