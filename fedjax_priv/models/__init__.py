"""Models as (init, apply) pairs."""
