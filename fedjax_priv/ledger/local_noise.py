"""CDP-FL and its baselines: noise on every local step, seen alone or as a sum."""

from collections.abc import Set

import numpy as np
import xarray as xr

from fedjax_priv.clients import NoisySteps
from fedjax_priv.ledger.entry import Entry, Figure, Question, no_guarantee, none, worst
from fedjax_priv.systems.releases import LocalNoise
from fedjax_priv.theory import cdp_fl

ADJACENT = "one sample of a client is replaced"
ROUNDING = "each upload is rounded before the sum; rows 3 and 4 are for sums of real vectors"
_BEYOND_IN_A_SUM = {"momentum"}
"""Row 2 joins the last noises of all clients, which have one size if velocity starts from zero at one learning rate."""
_BEYOND_SEEN = {"momentum", "carried velocity", "schedule"}
"""Row 1 charges the noisy gradients themselves, whatever a client makes of them."""


def entries(release: LocalNoise, question: Question) -> list[Entry]:
    """Entries for the server or an outsider, for other devices of the round, and for one that sees every local step."""
    run, steps, colluding = question.run, release.steps, question.colluding
    if steps is None:
        return [no_guarantee("anybody", ADJACENT, "nothing is known of the noise in local training")]
    taken, sizes = rounds_taken(run, question.count.size), batches(steps, question.count)
    if isinstance(sizes, str):
        return [no_guarantee("anybody", ADJACENT, sizes)]
    clip, sigma = np.asarray(steps.clip), np.asarray(steps.sigma)
    training = cdp_fl.Training(taken, steps_of(steps, sizes), clip, run.sizes["client"], *sizes, sigma)
    claim = _claimed(training, question.delta, release.secure, steps)
    elsewhere = none("the paper's eps is about the sum, seen by one who knows nobody's noise")
    rows = [("everybody", "every local step, all other clients colluding", 0)]
    if release.secure:
        rows = [
            ("server", "the server or an outsider, who sees the sum of each round", 0),
            ("device", "a client of the round, which sees the sum and knows its own noise", 0),
            *([("coalition", f"{colluding} clients of the round and the server", colluding)] if colluding else []),
            *rows,
        ]
    dropped = int((run.up_bytes.sel(phase="upload") == 0).sum("client").max())  # in failed rounds too, as if opened
    lipschitz = None if steps.beyond else question.lipschitz  # of rows 3 and 4, which are for plain steps

    def proved(name: str, number: int) -> Figure:
        if why := uncovered(steps, _BEYOND_SEEN if name == "everybody" else _BEYOND_IN_A_SUM):
            return none(why if name == "everybody" else f"{why}: noise in a sum is not of one size")
        return _proved(training, question.delta, name, number, dropped, lipschitz, steps.num_devices is not None)

    claims = [claim, *[elsewhere] * (len(rows) - 1)]  # the first view is the one that is claimed about
    whole = bool((sizes[0] == sizes[1]).all())
    gaussian = lambda name: whole and (name == "everybody" or bool((training.local_steps == 1).all()))
    return [
        Entry(who, ADJACENT, said, proved(name, number), ROUNDING, name, gaussian(name))
        for said, (name, who, number) in zip(claims, rows, strict=True)
    ]


def uncovered(steps: NoisySteps, covered: Set[str]) -> str:
    """Why a theorem that covers plain steps and the given extras does not cover these steps; "" if it does."""
    foreign = ", ".join(sorted(steps.beyond - covered))
    return f"no theorem covers local steps with {foreign}" if foreign else ""


def rounds_taken(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """`[n]`, rounds each client trained in; a failed round counts like one whose sum was opened."""
    return np.bincount(run.client_id.values.ravel(), minlength=num_clients)


def batches(steps: NoisySteps, count: np.ndarray) -> tuple[np.ndarray, np.ndarray] | str:
    """Samples and batch size of each client, or why no theorem covers them."""
    if steps.clip is None or not steps.sigma:
        return "gradients of samples are not clipped, or no noise is added"
    size = steps.batch_size
    if (count % size).any():
        return f"clients have {sorted(set(count.tolist()))[:5]} samples, not whole batches of {size}"
    return count, np.full_like(count, size)


def steps_of(steps: NoisySteps, sizes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Local steps of each client in a round."""
    samples, size = sizes
    if steps.num_epochs is None:
        return np.full_like(samples, steps.num_steps)
    return steps.num_epochs * samples // size


def _claimed(training: cdp_fl.Training, delta: float, secure: bool, how: NoisySteps) -> Figure:
    if why := uncovered(how, frozenset()):
        return none(why)
    summed = training if secure else training._replace(num_selected=1)
    if how.num_devices is not None:
        devices = how.num_devices if secure else 1
        eps = cdp_fl.dp_sgd_epsilon(summed, devices, delta)
        return Figure(eps.printed, delta, f"DP-SGD as printed, n = {devices} for the r that are summed")
    try:
        eps = cdp_fl.epsilon(summed, delta)
    except ValueError as error:
        return none(f"Theorem 1 does not apply: {error}")
    return Figure(eps, delta, "Theorem 1 (eq. 10), false in general" if secure else "Theorem 1 with r = 1")


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
