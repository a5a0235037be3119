"""The panels of Fig. 4 with Table II and of Fig. 5 with Table III: what is run, and what is printed."""

from typing import NamedTuple

from experiments.wireless.printed import UNIFORM, USERS, Printed
from experiments.wireless.training import Setting

AWARE = "channel-aware"
CHOSEN = 2500
"""T of Table III, which the paper does not print: that of Table II(b)."""


class Panel(NamedTuple):
    """One of the two of a figure, and what its table prints."""

    clip: float
    rounds: int  # T; 0 until `config` sets it
    printed: Printed
    papers_rounds: int | None = None  # T of the paper, if it gives one


PANELS = {
    "II": (0.1, {
        "a": Panel(1.0, 0, Printed(("3.675", "5.124", "2.46"), ("4.535", "5.61", "3.132"),
                                   ("85.27", "83.98", "86.42")), 400),
        "b": Panel(0.1, 0, Printed(("0.3677", "0.5124", "0.2460"), ("0.3642", "0.2258", "0.2317"),
                                   ("84.33", "81.76", "86.25")), 2500),
    }),
    "III": (0.8, {
        "a": Panel(1.0, 0, Printed(("1.390", "2.084", "0.8953"), ("1.991", "1.653", "1.487"),
                                   ("88.72", "87.10", "90.28"))),
        "b": Panel(0.2, 0, Printed(("0.2795", "0.4169", "0.1791"), ("0.2620", "0.1505", "0.1633"),
                                   ("75.89", "66.33", "83.68"))),
    }),
}  # fmt: skip
"""By table: sigma^2, and the panels."""


class Config(NamedTuple):
    """One figure and its table at one scale."""

    setting: Setting
    panels: dict[str, Panel]
    noise_variance: float
    uniform: tuple[float, float] = UNIFORM
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        """The ways to sample users."""
        return [AWARE, *(f"uniform p = {p:g}" for p in self.uniform)]

    @property
    def is_papers(self) -> bool:
        """Whether users and data are the paper's."""
        return self.setting.num_users == USERS and self.setting.task.dataset == "mnist"


def config(table: str, setting: Setting, *rounds: int) -> Config:
    """A table's panels, run for so many rounds each."""
    noise, panels = PANELS[table]
    lengths = zip(panels.items(), rounds, strict=True)
    return Config(setting, {name: panel._replace(rounds=t) for (name, panel), t in lengths}, noise)
