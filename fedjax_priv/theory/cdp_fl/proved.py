"""What can be proved about a device's privacy, in contrast to Theorem 1; per device and adversary."""

from typing import Literal, NamedTuple

import numpy as np

from fedjax_priv.theory import _validate, gaussian, zcdp
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl import round_costs
from fedjax_priv.theory.cdp_fl.training import Training, checked

Row = np.integer | np.ndarray
Adversary = Literal["everybody", "server", "device", "coalition"]


class Proved(NamedTuple):
    """The smallest rho that can be proved, and the smallest one from Gaussian mechanisms alone (rows 1 and 2)."""

    rho: Result
    row: Row  # 1 to 4: the row that gives rho; 0 for no rounds
    gaussian_rho: Result
    gaussian_row: Row

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the rows that give `rho`."""
        return _assumptions(self.row)


class ProvedEpsilon(NamedTuple):
    """Eps, and how it was found."""

    epsilon: Result
    rho: Result
    row: Row  # one per round if rounds were added up
    exact: np.bool_ | np.ndarray  # True: rows 1 and 2 and the Gaussian mechanism's exact profile; False: tight zCDP

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the rows that give `epsilon`."""
        return _assumptions(self.row)


def proved_rho(
    training: Training,
    *,
    adversary: Adversary = "server",
    colluding: Numbers = 0,
    dropped: Numbers = 0,
    lipschitz: Numbers | None = None,
) -> Proved:
    """Which rho can be proved? The smallest rho of the rows that apply, for rounds that are all alike.

    Rows 3 and 4 are for sums of real vectors; they ignore rounding before the sum, whose grid must be small compared
    with the noise. With masks from a pseudorandom function, rows 2 to 4 hold against bounded computation only.
    Each pass over the data has B = ceil(m/gamma) batches, of which the last may be smaller, and each sample is in one.
    Arguments are broadcast.

    Args:
      training: of one device, or of several as arrays.
      adversary: "everybody": the server and all other devices, who see all local steps. "server", or an outsider: sees
        the sum. "device": a selected device, which sees the sum and knows its own noise. "coalition": several of these.
      colluding: number of devices in the "coalition" whose uploads are in the sum.
      dropped: number of selected devices whose uploads are not in the sum.
      lipschitz: c of every step theta -> theta - eta g(theta; batch), clipping included (`lipschitz_constant`). If not
        given, only rows 1 and 2 are used.

    Raises:
      ValueError: the adversary knows the noise of all uploads in the sum.

    Examples:
      >>> training = Training(30, 10, clip=1.0, num_selected=10, num_samples=1000, batch_size=100, sigma=0.5)
      >>> print(proved_rho(training).rho.round(3), proved_rho(training, lipschitz=1.0).rho.round(3))
      0.024 0.002
    """
    one = checked(training)
    taken, steps, batches = one.rounds_taken, one.local_steps, one.batches
    uploads = _unknown_uploads(training, adversary, colluding, dropped)
    if adversary == "everybody":
        plain = best = round_costs.every_step(steps, batches)
    else:
        plain = best = round_costs.summed(uploads, steps, batches)
        if lipschitz is not None:
            c = _validate.real("[0, inf)", lipschitz=lipschitz)
            best = round_costs.summed_lipschitz(uploads, steps, batches, c)
    charged = taken * one.step_rho
    named = [part for cost, row in (best, plain) for part in (charged * cost, np.where(taken > 0, row, 0).astype(int))]
    return Proved(*(part[()] for part in named))


def proved_epsilon(proved: Proved, delta: Numbers, *, axis: int | None = None) -> ProvedEpsilon:
    """Which eps can be proved? The smaller of the exact eps of rows 1 and 2 and the tight conversion of the least rho.

    Args:
      proved: from `proved_rho`.
      delta: in (0, 1).
      axis: the axis of `proved` along which rounds, or kinds of rounds, are added up. None: each entry is a whole run.

    Examples:
      >>> training = Training(30, 10, clip=1.0, num_selected=10, num_samples=1000, batch_size=100, sigma=0.5)
      >>> print(proved_epsilon(proved_rho(training), 1e-5).epsilon.round(2))
      0.8
    """
    total, plain = _validate.setting(Proved, proved=proved).rho, proved.gaussian_rho
    if axis is not None:
        total, plain = zcdp.composition(np.asarray(total), axis), zcdp.composition(np.asarray(plain), axis)
    exact = gaussian.epsilon(_validate.real("(0, 1)", delta=delta), np.sqrt(2 * plain))
    tight = zcdp.epsilon(total, delta, "tight")
    use = exact <= tight
    by_round = use if axis is None else np.expand_dims(use, axis)
    row = np.where(by_round, proved.gaussian_row, proved.row)
    return ProvedEpsilon(np.minimum(exact, tight), np.where(use, plain, total)[()], row[()], use)


def _unknown_uploads(training: Training, adversary: str, colluding: Numbers, dropped: Numbers) -> Result:
    """h, at least 1 if the device took part."""
    known = _validate.choice({"everybody": 0, "server": 0, "device": 1, "coalition": colluding}, adversary=adversary)
    known = _validate.integer(at_least=0, colluding=known)
    if adversary != "coalition" and np.any(_validate.integer(at_least=0, colluding=colluding)):
        _validate.fail("colluding", colluding, "0 unless adversary = 'coalition'")
    gone = _validate.integer(at_least=0, dropped=dropped)
    uploads = np.asarray(training.num_selected, np.float64) - gone - known
    if np.any((uploads < 1) & (np.asarray(training.rounds_taken) > 0)):
        _validate.fail("dropped", dropped, f"below num_selected = {training.num_selected} less the colluding devices")
    return np.maximum(uploads, 1)


def _assumptions(row: Row) -> tuple[str, ...]:
    return tuple(round_costs.ASSUMPTIONS[used] for used in np.unique(row) if used > 0)
