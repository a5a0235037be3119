"""Channels: what happens to messages on their way to the server.

- `erasure_channel`: clients that drop out before or after the upload.
- `outage_channel`: uploads at a fixed rate, lost if the gain is too small.
- `analog_channels`: uploads that add up on the air, or one analog link per client, with receiver noise. Phases are
  known or unknown.
- `antenna_channel`, `antenna_fading`: a server with several antennas; clients do not know their complex gains.
- `fading`: the gain of each client's link in each round. `gain_files`: gains from another program's file.
- `knowledge`: what clients know of their gains.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.channels.analog_channels import multiple_access, orthogonal, true_gains, unknown_phases
    from fedjax_priv.channels.antenna_channel import antenna_array
    from fedjax_priv.channels.antenna_fading import AntennaFading, rayleigh_antennas, recorded_antennas
    from fedjax_priv.channels.erasure_channel import erasure
    from fedjax_priv.channels.fading import Fading, constant, rayleigh, recorded, rician
    from fedjax_priv.channels.gain_files import gains_from_file
    from fedjax_priv.channels.knowledge import estimated, turned
    from fedjax_priv.channels.outage_channel import outage
    from fedjax_priv.layers.sum_pilots import SumPilots
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "AntennaFading", "Fading", "SumPilots", "antenna_array", "constant", "erasure", "estimated", "gains_from_file",
    "multiple_access", "orthogonal", "outage", "rayleigh", "rayleigh_antennas", "recorded", "recorded_antennas",
    "rician", "true_gains", "turned", "unknown_phases",
]  # fmt: skip
