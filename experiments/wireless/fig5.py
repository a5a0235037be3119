"""Fig. 5 and Table III: channel-aware and uniform sampling, a network with a hidden layer, sigma^2 = 0.8."""

from experiments.wireless.scales import AGAIN, FEW, TWO_LAYERS
from experiments.wireless.tables import Config, Panel


def panels(rounds: int) -> dict[str, Panel]:
    """The paper does not give T."""
    return {"a": Panel(1.0, rounds, (88.7, 87.1, 90.3)), "b": Panel(0.2, rounds, (75.9, 66.3, 83.7))}


NOISE = 0.8
SCALES = {
    "quick": Config(TWO_LAYERS._replace(**FEW), panels(60), NOISE),
    "cpu": Config(TWO_LAYERS._replace(**AGAIN | {"repeats": 1}), panels(500), NOISE),
    "paper": Config(TWO_LAYERS, panels(1000), NOISE),
}
