"""The folder of a run: who asked for what, how far it is, and what came out."""
