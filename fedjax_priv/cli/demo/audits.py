"""What the server can be shown to learn: an audit of every system of the demo, on a smaller model."""

import xarray as xr

from fedjax_priv.audit import Finding, Subject, findings
from fedjax_priv.cli.demo.case_table import Case
from fedjax_priv.cli.demo.common_setting import Setting
from fedjax_priv.keys import named
from fedjax_priv.ledger import ledger

DELTA = 1e-5
"""Of privacy figures."""
CONFIDENCE = 0.95


def audited(case: Case, run: xr.Dataset, small: Setting) -> Finding:
    """Figures of a run, and a lower bound on eps from the first rounds of the same clients with a smaller model.

    No figure of what the server sees depends on the model here, and who sees fewer rounds learns less. Masks,
    which change no sum, are not expanded; of FedREP the mean of all buffers is looked at, which the server can compute.

    Args:
      case: made for the smaller model.
      run: of the system, honest.
      small: the setting with that model.
    """
    system = case.make(small.local(case))
    run = run.drop_vars("mechanism")  # `turned` states no steps; at a factor of 1 it changes none
    at = lambda delta: [each for each in ledger(system, run, small.clients, delta=delta) if each.view == "server"][:1]
    make = lambda local, observe: case.make(local, observe=observe, mesh=None, **case.audited)
    subject = Subject(make, small.local(case), small.loss, small.params, small.clients, system.release)
    (found,) = findings(
        subject, at(DELTA), named(small.key, "audit"), trials=small.size.trials,
        rounds=min(small.size.watched, run.sizes["round"]), delta=DELTA, confidence=CONFIDENCE, at=at,
    )  # fmt: skip
    return found
