"""Settings by scale that the figures share."""

from experiments.wireless.training import Setting

ONE_LAYER = Setting()
TWO_LAYERS = Setting(hidden=(16,), repeats=3)
FEW = {"dataset": "digits", "groups": (14, 13, 13), "learning_rate": 0.02, "evaluations": 4, "repeats": 1}
"""Scale quick."""
AGAIN = {"evaluations": 10, "repeats": 3}
"""Scale cpu."""
