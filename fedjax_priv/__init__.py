"""Private, communication-efficient and Byzantine-robust federated learning: a whole round is one jitted function.

The rooms of the package. A file imports from its own room and from lines above it, never from below:

    base keys status losses                    types, random keys, failure bits, what is minimised
    theory                                     closed forms and privacy accountants of the papers, in NumPy
    engine                                     one round on devices; how many rows are computed side by side
    crypto                                     field, pseudorandom words, secret sharing
    data models metrics interchange            samples of clients | networks | what is measured | parameters in and out
    layers aggregators server_noise            what happens to an update on its way | robust rules | noise of the server
    channels                                   what happens to messages
    attacks clients                            what Byzantine clients do | who takes part, and how clients train
    systems runs                               published systems, one expression each | many rounds, and their records
    analysis leakage ledger testing            plots | what a view reveals | privacy figures | laws of a layer
    audit                                      attempts to contradict a privacy figure
    cli                                        everything that parses a command line or prints a table
"""

from typing import TYPE_CHECKING

from fedjax_priv import _interrupt

_interrupt.until_the_command_runs()  # before JAX is imported

from fedjax_priv._devices import one_cpu_device_per_core  # noqa: E402
from fedjax_priv._lazy import lazy_names  # noqa: E402

if TYPE_CHECKING:
    from fedjax_priv import (
        aggregators,
        analysis,
        attacks,
        audit,
        base,
        channels,
        clients,
        crypto,
        data,
        interchange,
        keys,
        layers,
        leakage,
        ledger,
        losses,
        metrics,
        models,
        server_noise,
        systems,
        testing,
        theory,
    )  # fmt: skip
    from fedjax_priv.base import Algorithm, ClientData, Cohort, RoundInfo, RoundState
    from fedjax_priv.engine.mesh import clients_mesh
    from fedjax_priv.engine.round import federated_round
    from fedjax_priv.runs.records.run_writer import Keep
    from fedjax_priv.runs.simulation import simulate
    from fedjax_priv.runs.sweep import sweep
    from fedjax_priv.status import Status, describe
else:
    __getattr__, __dir__ = lazy_names(__name__)

one_cpu_device_per_core()

__version__ = "0.1.0"
__all__ = [
    "Algorithm", "ClientData", "Cohort", "Keep", "RoundInfo", "RoundState", "Status",
    "aggregators", "analysis", "attacks", "audit", "base", "channels", "clients", "clients_mesh", "crypto", "data",
    "describe", "federated_round", "interchange", "keys", "layers", "leakage", "ledger", "losses", "metrics", "models",
    "server_noise", "simulate", "sweep", "systems", "testing", "theory",
]  # fmt: skip
