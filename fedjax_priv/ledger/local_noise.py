"""CDP-FL and its baselines: noise on every local step, seen alone or as a sum."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from fedjax_priv.ledger.entry import Entry, Figure, none, worst
from fedjax_priv.theory import cdp_fl

NEIGHBOURS = "one sample of a client is another one"
ROUNDING = "each upload is rounded before the sum; rows 3 and 4 are for sums of real vectors"


def entries(
    terms: Mapping[str, Any],
    run: xr.Dataset,
    count: np.ndarray,
    *,
    delta: float,
    colluding: int,
    lipschitz: float | None,
) -> list[Entry]:
    """Of the server or an outsider, of the others in the round, and of one that sees every local step."""
    taken, sizes = rounds_taken(run, len(count)), batches(terms, count)
    if isinstance(sizes, str):
        return [Entry("anybody", NEIGHBOURS, none(sizes), none(sizes))]
    training = cdp_fl.Training(
        taken, steps_of(terms, sizes), terms["clip"], terms["num_selected"], *sizes, terms["sigma"]
    )
    claim = _claimed(training, delta, terms)
    rows = [("everybody", "every local step, all other clients colluding", 0)]
    if terms["secure"]:
        rows = [
            ("server", "the server or an outsider, who sees the sum of each round", 0),
            ("device", "a client of the round, which sees the sum and knows its own noise", 0),
            *([("coalition", f"{colluding} clients of the round and the server", colluding)] if colluding else []),
            *rows,
        ]
    dropped = int((run.up_bytes.sel(phase="upload") == 0).sum("client").max())  # in failed rounds too, as if opened

    def proved(name: str, number: int) -> Figure:
        if name != "everybody" and not terms["alike"]:
            return none("step sizes differ between clients, or velocity is carried: noise in a sum is not of one size")
        return _proved(training, delta, name, number, dropped, lipschitz, "num_devices" in terms)

    return [Entry(who, NEIGHBOURS, claim, proved(name, number), ROUNDING, name) for name, who, number in rows]


def rounds_taken(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """`[n]`, rounds each client trained in; of a failed one too, as if its sum had been opened."""
    return np.bincount(run.client_id.values.ravel(), minlength=num_clients)


def batches(terms: Mapping[str, Any], count: np.ndarray) -> tuple[np.ndarray, np.ndarray] | str:
    """Samples and batch size of each client, or why no theorem covers them."""
    size = terms["batch_size"]
    if terms["clip"] is None or not terms["sigma"]:
        return "gradients of samples are not clipped, or no noise is added"
    if (count % size).any():
        return f"clients have {sorted(set(count.tolist()))[:5]} samples, not whole batches of {size}"
    return count, np.full_like(count, size)


def steps_of(terms: Mapping[str, Any], sizes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Local steps of each client in a round."""
    samples, size = sizes
    if terms["num_steps"] is not None:
        return np.full_like(samples, terms["num_steps"])
    return terms["num_epochs"] * samples // size


def _claimed(training: cdp_fl.Training, delta: float, terms: Mapping[str, Any]) -> Figure:
    summed = training if terms["secure"] else training._replace(num_selected=1)
    if "num_devices" in terms:
        devices = terms["num_devices"] if terms["secure"] else 1
        eps = cdp_fl.dp_sgd_epsilon(summed, devices, delta)
        return Figure(eps.printed, delta, f"DP-SGD as printed, n = {devices} for the r that are summed")
    try:
        eps = cdp_fl.epsilon(summed, delta)
    except ValueError as error:
        return none(f"Theorem 1 does not apply: {error}")
    return Figure(eps, delta, "Theorem 1 (eq. 10), false in general" if terms["secure"] else "Theorem 1 with r = 1")


def _proved(
    training: cdp_fl.Training,
    delta: float,
    adversary: str,
    colluding: int,
    dropped: int,
    lipschitz: float | None,
    fresh_batches: bool,
) -> Figure:
    dropped = 0 if adversary == "everybody" else dropped
    try:
        rho = cdp_fl.proved_rho(
            training, adversary=adversary, colluding=colluding, dropped=dropped, lipschitz=lipschitz
        )
    except ValueError as error:
        return none(str(error))
    found = cdp_fl.proved_epsilon(rho, delta)
    rows = ", ".join(map(str, np.unique(found.row)))
    plain = Figure(found.epsilon, delta, f"row {rows}: {'; '.join(found.assumptions)}")
    if not fresh_batches:
        return plain
    known = {"server": 0, "device": 1, "coalition": colluding}
    uploads = 1 if adversary == "everybody" else training.num_selected - known[adversary] - dropped
    return min(
        plain, _amplified(training._replace(num_selected=uploads), delta), key=lambda figure: worst(figure) or 0.0
    )


def _amplified(training: cdp_fl.Training, delta: float) -> Figure:
    fields = ("rounds_taken", "num_samples", "batch_size")
    kinds, which = np.unique(np.stack([getattr(training, name) for name in fields]), axis=1, return_inverse=True)
    one_step = training._replace(local_steps=1, **dict(zip(fields, kinds, strict=True)))
    eps = cdp_fl.amplified_epsilon(one_step, delta)
    why = "batches are secret and drawn afresh each round; only the sum is seen"
    return Figure(np.asarray(eps)[which.ravel()], delta, why)
