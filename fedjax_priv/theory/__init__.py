"""What the papers prove, in float64 NumPy and SciPy: no JAX; neither this nor the simulation imports the other."""
