"""Draws `docs/round.svg`, the picture of a round: `python docs/round_picture.py`."""

import pathlib

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

CLIENTS, SERVER = 2.6, 9.3
WIDTH, HEIGHT, STEP = 3.5, 0.6, 0.95
BLUE, GREEN, GREY, YELLOW = "#dbe8f6", "#ddf0e0", "#eeeeee", "#fbf0cf"
LAYERS = [
    ("attack, clip, noise", ""),
    ("sparsify", "densify"),
    ("weigh", "divide by the weights"),
    ("quantize to the field", "back to real numbers"),
    ("mask", "remove masks"),
]
"""Client half and server half of each layer, from the first to the last."""


def picture() -> Figure:
    """Clients encode on the left, downwards; the server decodes on the right, upwards."""
    figure = Figure(figsize=(10, 7.6), layout="constrained")
    axes = figure.add_subplot(xlim=(0, 12.2), ylim=(-1.2, 9.1))
    axes.axis("off")
    opening(axes)
    layers(axes)
    closing(axes)
    return figure


def opening(axes: Axes) -> None:
    """Who takes part, and what everyone is told."""
    for x, name in ((CLIENTS, "clients"), (SERVER, "server")):
        axes.text(x, 8.85, name, size=13, weight="bold", ha="center")
    box(axes, 5.95, 8.3, "cohort: who takes part", GREY, width=10.2)
    box(axes, CLIENTS, 7.4, "advertise: keys, shares", BLUE)
    arrow(axes, (CLIENTS + WIDTH / 2, 7.4), (SERVER - WIDTH / 2, 7.4))
    box(axes, SERVER, 7.4, "public: everyone is told", GREY)


def layers(axes: Axes) -> None:
    """The stack, with the two halves of a layer next to each other."""
    top = 6.25
    box(axes, CLIENTS, top, "local training", BLUE)
    box(axes, SERVER, top, "aggregate, optimize, commit", GREEN)
    axes.add_patch(Rectangle((0.5, 1.05), 4.2, 5.65, fill=False, linestyle="--", edgecolor="#5b7ba3"))
    axes.text(0.3, 3.9, "in blocks of clients, over devices", rotation=90, va="center", ha="center", color="#5b7ba3")
    for row, (client, server) in enumerate(LAYERS, 1):
        y = top - STEP * row
        box(axes, CLIENTS, y, client, BLUE)
        arrow(axes, (CLIENTS, y + STEP - HEIGHT / 2), (CLIENTS, y + HEIGHT / 2))
        if server:
            box(axes, SERVER, y, server, GREEN)
            above = top if row == 2 else y + STEP
            arrow(axes, (SERVER, y + HEIGHT / 2), (SERVER, above - HEIGHT / 2))


def closing(axes: Axes) -> None:
    """The channel, and what survivors disclose."""
    last = 6.25 - STEP * len(LAYERS)
    box(axes, 5.45, 0.2, "channel: uploads are lost, or add on the air", YELLOW, width=5.1)
    box(axes, SERVER, 0.2, "exact sum, g rows", GREEN, width=2.3)
    arrow(axes, (CLIENTS, last - HEIGHT / 2), (3.4, 0.5))
    arrow(axes, (8.0, 0.2), (SERVER - 1.15, 0.2))
    arrow(axes, (SERVER, 0.5), (SERVER, last - HEIGHT / 2))
    box(axes, CLIENTS, -0.75, "disclose, once survivors are known", BLUE, width=4.1)
    arrow(axes, (CLIENTS + 2.05, -0.75), (SERVER - WIDTH / 2, -0.75))
    box(axes, SERVER, -0.75, "header: survivors' shares", GREY)
    arrow(axes, (SERVER + WIDTH / 2, -0.75), (SERVER + WIDTH / 2, last), bend=0.45)


def box(axes: Axes, x: float, y: float, text: str, colour: str, width: float = WIDTH) -> None:
    """A step with its centre at (x, y)."""
    corner = (x - width / 2, y - HEIGHT / 2)
    axes.add_patch(FancyBboxPatch(corner, width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.12", facecolor=colour))
    axes.text(x, y, text, ha="center", va="center", size=10.5)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0) -> None:
    """What one step passes to the next."""
    style = {"connectionstyle": f"arc3,rad={bend}", "arrowstyle": "-|>", "mutation_scale": 12}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=1, shrinkB=1, color="black", **style))


if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "round"
    picture().savefig(pathlib.Path(__file__).with_name("round.svg"), metadata={"Date": None})
