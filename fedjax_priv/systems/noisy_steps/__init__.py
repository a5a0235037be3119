"""Systems with noise in every local step."""
