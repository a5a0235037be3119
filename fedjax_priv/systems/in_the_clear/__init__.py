"""Systems whose server sees every update."""
