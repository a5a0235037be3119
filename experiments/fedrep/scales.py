"""Settings by scale that the figures share."""

from experiments.fedrep.training import Setting

QUICK = Setting(
    "digits", samples=1400, model="mlp16", num_clients=8, epochs=9, evaluations=6, rates=(1.0,), repeats=1, at_once=8
)
CPU = Setting(
    "mnist",
    samples=16_000,
    pool=2,
    model="mlp16",
    epochs=15,
    evaluations=10,
    rates=(0.2, 0.5, 1.0),
    repeats=2,
    at_once=8,
)
PAPER = Setting()
FEW = 1
"""Byzantine clients at scale quick, of 8."""
