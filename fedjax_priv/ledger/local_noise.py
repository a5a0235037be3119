"""CDP-FL and its baselines: noise on every local step, seen alone or as a sum.

Which rows of `theory.cdp_fl` hold for which form of local steps (`clients.LocalSteps.form`), and why:

- Row 1, every form. Fix the shuffles. A noisy gradient is a Gaussian mechanism at parameters that are a function of
  earlier noisy gradients and of what is public, and so is whatever a client makes of all of them.
- Row 2, "plain" and "momentum from zero". Let the adversary see the noisy gradients of the client but the last one, and
  fix everything else but the clients' last noises. The last velocity is `v = mu v' + g + b`, and v' is known, so the
  update is known but for `eta (g + b)`: the last noise b enters with the factor eta, momentum or not, and those of the
  h - 1 other clients do as well. The sum is a Gaussian mechanism of sensitivity 2 eta G / gamma and variance
  h eta^2 sigma^2. No later upload depends on b but through the sum, since velocities start from zero. With carried
  velocity one does, and under a schedule the factors differ between clients.
- Rows 3 and 4, "plain". They follow the distance of two runs that differ in a sample, step by step; with momentum a
  step depends on the velocity too, and `lipschitz` says nothing of that. At momentum 0.9 row 4 can be 3.4 times too
  low. Theorem 1 of the paper is for these steps as well.

A form that is not listed here has no figure. Clients may have any numbers of samples: a pass has ceil(m/gamma) batches,
each sample is in one of them, and the sum of a smaller last batch is divided by gamma too, so that a sample moves it as
far.

Each upload is rounded at random to a grid before the sum. With the last noise of deviation s in grid points, a rounded
number has the characteristic function `sum_j e^{-i m u} phi(u)`, u = t + 2 pi j, of a Gaussian of mean m and the hat
function. If all h clients had the same j in a product, the sum would be the sum of real numbers rounded at random, by
the B-spline of order 2 h: post-processing, which rows 2 to 4 allow. Other products are below
`e^{-2 pi^2 s^2 (1 - 1/h)}`: nothing from s = 3 on. On a coarse grid there is no figure, and rows 2 to 4 would be false:
with s near 0 all that is left of a client's noise is a coin for rounding up. The same holds for float32, in which an
update is the difference of two models: its spacing is below `2**-23` of a parameter.

On a grid that is too fine only row 1 holds. A client whose update is so long that a sum of as long ones would wrap
fails the round, which tells of its update with its noise alone. The gradient and the noise of step s move a coordinate
by w_s = eta (1 + mu + ... + mu^{tau-s}) times as much, together by at most `G sum_s w_s + 12 sigma sqrt(sum_s w_s^2)`,
but for a probability below `2**-100`. This must have room.
"""

from collections.abc import Mapping, Set
from types import MappingProxyType

import numpy as np
import xarray as xr

from fedjax_priv.clients import LocalSteps
from fedjax_priv.layers.quantization import largest_summand
from fedjax_priv.ledger.by_client import came, who_sent
from fedjax_priv.ledger.entry import Entry, Figure, Question, no_guarantee, none
from fedjax_priv.systems.releases import LocalNoise
from fedjax_priv.theory import cdp_fl
from fedjax_priv.theory.cdp_fl.proved import Adversary

ADJACENT = "one sample of a client is replaced, and losses and gradients stay finite"
ROUNDING = (
    "rounding before the sum costs less than 2**-100 at a number, on a grid this fine, if parameters are below 2**21 "
    "times the learning rate times sigma, so that float32 keeps the noise; clients that do not collude are taken to "
    "add their noise"
)
FINE = 3.0
"""Least deviation of the noise of a step in an upload, in grid points, with which noise of clients adds up."""
FAR = 12.0
"""Deviations that noise exceeds with a probability below 2**-100."""
EVERYBODY: tuple[Adversary, str] = "everybody", "every local step, all other clients colluding"
PLAIN, MOMENTUM, FORGETS, REMEMBERING = "plain", "momentum from zero", "forgetting", "remembering"
COVERED: Mapping[str, Set[str]] = MappingProxyType({
    "Theorem 1": {PLAIN}, "row 1": {PLAIN, MOMENTUM, FORGETS, REMEMBERING}, "row 2": {PLAIN, MOMENTUM},
    "rows 3 and 4": {PLAIN},
})  # fmt: skip
"""The forms of local steps that each theorem is proved for, as the module says."""


def entries(release: LocalNoise, question: Question) -> list[Entry]:
    """Entries for the server or an outsider, for other devices of the round, and for one that sees every local step."""
    known, colluding = trainings(question), question.colluding
    if isinstance(known, str):
        return [no_guarantee("anybody", ADJACENT, known)]
    training, steps = known
    claim = _claimed(training, question.delta, release.secure, steps)
    elsewhere = none("the paper's eps is about the sum, seen by one who knows nobody's noise")
    rows: list[tuple[Adversary, str, int]] = [(*EVERYBODY, 0)]
    if release.secure:
        rows = [
            ("server", "the server or an outsider, who sees the sum of each round", 0),
            ("device", "a client of the round, which sees the sum and knows its own noise", 0),
            *([("coalition", f"{colluding} clients of the round and the server", colluding)] if colluding else []),
            *rows,
        ]
    lonely = uncovered(steps, "row 2") or too_coarse(release, steps)
    seen = "" if lonely else too_fine(release, steps, int(np.max(training.local_steps)))

    def proved(name: Adversary, number: int) -> Figure:
        if why := uncovered(steps, "row 1") if name == "everybody" else lonely:
            return none(why)
        fresh = steps.num_devices is not None
        if seen or name == "everybody":
            return _proved(training, question.delta, fresh_batches=fresh)
        lipschitz = None if uncovered(steps, "rows 3 and 4") else question.lipschitz
        sums = _in_sums(training, question, {"server": 0, "device": 1, "coalition": number}[name])
        return _proved(sums, question.delta, fresh_batches=fresh, summed=True, lipschitz=lipschitz)

    claims = [claim, *[elsewhere] * (len(rows) - 1)]  # the first view is the one that is claimed about
    once = bool(np.equal(training.local_steps, 1).all()) and not (lonely or seen)
    gaussian = lambda name: _whole(training) and (name == "everybody" or once)
    note = "" if lonely else seen or ROUNDING
    return [
        Entry(who, ADJACENT, said, proved(name, number), note, name, gaussian(name))
        for said, (name, who, number) in zip(claims, rows, strict=True)
    ]


def every_step(question: Question) -> list[Entry]:
    """The entry of any system whose clients state noise in their local steps: row 1, whatever is made of them after."""
    steps, (view, who) = question.steps, EVERYBODY
    if steps is None or not steps.sigma:
        return []
    claim = none("no paper adds noise to the local steps of this system")
    note = "whatever the system does with the updates"
    known = uncovered(steps, "row 1") or trainings(question)
    if isinstance(known, str):
        return [Entry(who, ADJACENT, claim, none(known), note, view)]
    training, _ = known
    proved = _proved(training, question.delta, fresh_batches=False)
    return [Entry(who, ADJACENT, claim, proved, note, view, _whole(training))]


def trainings(question: Question) -> tuple[cdp_fl.Training, LocalSteps] | str:
    """What the theorems need of each client, and the steps; or why none covers them."""
    run, steps = question.run, question.steps
    if steps is None:
        return "nothing is known of the noise in local training"
    if steps.num_devices is not None and steps.num_steps != 1:
        return f"figures of DP-SGD are for one step a round, num_steps=1, not {steps.num_steps}"
    sizes = batches(steps, question.count)
    if isinstance(sizes, str):
        return sizes
    taken, clip, sigma = rounds_taken(run, question.count.size), np.asarray(steps.clip), np.asarray(steps.sigma)
    return cdp_fl.Training(taken, steps_of(steps, sizes), clip, run.sizes["client"], *sizes, sigma), steps


def uncovered(steps: LocalSteps, theorem: str) -> str:
    """Why a theorem of `COVERED` is not for these steps; "" if it is."""
    known = COVERED[theorem]
    if steps.form in known:
        return ""
    return f"no theorem covers these local steps: {theorem} is for {' or '.join(sorted(known))}, these are {steps.form}"


def too_coarse(release: LocalNoise, steps: LocalSteps) -> str:
    """Why the noise of clients does not add up in a sum of rounded uploads; "" if it does."""
    if steps.learning_rate is None:
        return "the learning rate is not stated"
    points = float(np.asarray(release.levels)) * float(np.asarray(steps.learning_rate)) * float(np.asarray(steps.sigma))
    if points >= FINE:
        return ""
    return (
        f"uploads are rounded to a grid on which noise of a step has deviation {points:.3g}, below {FINE:g} points: it "
        "does not add up in the sum; give more levels"
    )


def too_fine(release: LocalNoise, steps: LocalSteps, number: int) -> str:
    """Why figures count the noise of one client: its update of so many steps may fail the round; "" if it cannot."""
    clip, sigma, momentum, rate = (
        float(np.asarray(each)) for each in (steps.clip, steps.sigma, steps.momentum, steps.learning_rate)
    )
    moves = rate * np.cumsum(momentum ** np.arange(number))
    longest = float(clip * moves.sum() + FAR * sigma * np.linalg.norm(moves))
    room = float(largest_summand(float(np.asarray(release.levels)), release.max_terms))
    if longest <= room:
        return ""
    return (
        f"a coordinate of an update may be {longest:.3g}, beyond {room:.3g}, and then fails the round, which tells of "
        "it alone: the noise of one client counts; give fewer levels"
    )


def rounds_taken(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """`[n]`, rounds each client trained in; a failed round counts like one whose sum was opened."""
    return np.bincount(run.client_id.values[trained(run)], minlength=num_clients)


def trained(run: xr.Dataset) -> np.ndarray:
    """`[rounds, places]`: who trained. A place that nobody took has a client, too, of whom nothing is used.

    Of a run that does not say it, all.
    """
    return run.trains.values if "trains" in run else np.ones(run.client_id.shape, bool)


def sent(run: xr.Dataset) -> np.ndarray:
    """`[rounds, places]`: who trained and whose upload arrived, in failed rounds too."""
    return trained(run) & came(run)


def batches(steps: LocalSteps, count: np.ndarray) -> tuple[np.ndarray, np.ndarray] | str:
    """Samples and batch size of each client, or why no theorem covers them."""
    size = steps.batch_size
    if steps.clip is None or size is None or not steps.sigma:
        return "gradients of samples are not clipped, or no noise is added"
    if not count.all():
        return "a client has no samples, so it adds no noise"
    return count, np.full_like(count, size)


def steps_of(steps: LocalSteps, sizes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Local steps of each client in a round."""
    samples, size = sizes
    if steps.num_epochs is None:
        return np.full_like(samples, steps.num_steps)
    return steps.num_epochs * -(-samples // size)


def _whole(training: cdp_fl.Training) -> bool:
    """Whether every batch holds all samples of its client."""
    return bool(np.less_equal(training.num_samples, training.batch_size).all())


def _claimed(training: cdp_fl.Training, delta: float, secure: bool, how: LocalSteps) -> Figure:
    if why := uncovered(how, "Theorem 1"):
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


def _in_sums(training: cdp_fl.Training, question: Question, known: int) -> cdp_fl.Training:
    """Of sums alone, `[kinds, n]`: rounds in which each client's upload arrived, by the uploads whose noise is unknown.

    A failed round counts like one whose sum was opened. Where all others are known, a client's own noise is left.
    """
    arrived = who_sent(question.run, question.count.size)
    unknown, kind = np.unique(np.maximum(arrived.sum(1) - known, 1).astype(int), return_inverse=True)
    taken = np.zeros((unknown.size, arrived.shape[1]), int)
    np.add.at(taken, kind, arrived.astype(int))
    return training._replace(rounds_taken=taken, num_selected=unknown[:, None])


def _proved(
    training: cdp_fl.Training,
    delta: float,
    *,
    fresh_batches: bool,
    summed: bool = False,
    lipschitz: float | None = None,
) -> Figure:
    """Of every local step; or of sums, one row for each number of uploads, as `_in_sums`."""
    seen_as: Adversary = "server" if summed else "everybody"
    rho = cdp_fl.proved_rho(training, adversary=seen_as, lipschitz=lipschitz)
    found = cdp_fl.proved_epsilon(rho, delta, axis=0 if summed else None)
    rows = ", ".join(map(str, np.unique(found.row)))
    plain = Figure(found.epsilon, delta, f"row {rows}: {'; '.join(found.assumptions)}")
    if not fresh_batches:
        return plain
    amplified = _amplified(_with_least_noise(training) if summed else training._replace(num_selected=1), delta)
    if np.less_equal(found.epsilon, amplified).all():
        return plain
    seen = "only the sum is seen" if summed else "every upload is seen"
    why = f"batches are secret and drawn afresh each round; {seen}"
    return Figure(np.minimum(found.epsilon, amplified), delta, why)


def _with_least_noise(sums: cdp_fl.Training) -> cdp_fl.Training:
    """All rounds as if of the fewest uploads that arrived in one."""
    taken, uploads = np.asarray(sums.rounds_taken), np.asarray(sums.num_selected)
    fewest = uploads.min(where=taken.any(1, keepdims=True), initial=uploads.max())
    return sums._replace(rounds_taken=taken.sum(0), num_selected=int(fewest))


def _amplified(training: cdp_fl.Training, delta: float) -> np.ndarray:
    """`cdp_fl.amplified_epsilon` of each client, `[n]`, computed once for clients that are alike."""
    fields = ("rounds_taken", "num_samples", "batch_size")
    kinds, which = np.unique(np.stack([getattr(training, name) for name in fields]), axis=1, return_inverse=True)
    one_step = training._replace(local_steps=1, **dict(zip(fields, kinds, strict=True)))
    return np.asarray(cdp_fl.amplified_epsilon(one_step, delta))[which.ravel()]
