"""What can be proved about a device's privacy, beside what Theorem 1 claims; per device and per adversary."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate, gaussian, zcdp
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl import rows
from fedjax_priv.theory.cdp_fl.claimed import check_batches, step_rho

Row = np.integer | np.ndarray


class Proved(NamedTuple):
    """The smallest rho that can be proved, and the smallest of a composition of Gaussian mechanisms (rows 1 and 2)."""

    rho: Result
    row: Row  # 1 to 4: which one rho is from; 0 for no rounds
    gaussian_rho: Result
    gaussian_row: Row

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Of the rows that `rho` is from."""
        return _assumptions(self.row)


class ProvedEpsilon(NamedTuple):
    """Eps, and where it is from."""

    epsilon: Result
    rho: Result
    row: Row  # of each round if rounds were added up
    exact: (
        np.bool_ | np.ndarray
    )  # rows 1 and 2 only, by the exact profile of the Gaussian mechanism; else the tight zCDP

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Of the rows that `epsilon` is from."""
        return _assumptions(self.row)


def proved_rho(
    rounds_taken: Numbers,
    local_steps: Numbers,
    clip: Numbers,
    num_selected: Numbers,
    num_samples: Numbers,
    batch_size: Numbers,
    sigma: Numbers,
    *,
    adversary: str = "server",
    colluding: Numbers = 0,
    dropped: Numbers = 0,
    lipschitz: Numbers | None = None,
) -> Proved:
    """The smallest rho of the rows that apply, for rounds that are all alike; arguments are broadcast.

    Rows 3 and 4 are for sums of real vectors: rounding before the sum costs them what the rounding's grid is to the
    noise. Masks from a pseudorandom function make rows 2 to 4 computational.

    Args:
      rounds_taken: C, rounds the device took part in.
      local_steps: tau.
      clip: G, the norm each sample's gradient is clipped to.
      num_selected: r, devices of a round.
      num_samples: m, training samples of the device.
      batch_size: gamma, a divisor of m.
      sigma: standard deviation of the noise on a coordinate of the mean gradient.
      adversary: "everybody" sees all local steps, with all other devices; "server", or an outsider, sees the sum; so
        does a curious "device" among the selected, which knows its own noise, and a "coalition" of some of them.
      colluding: selected devices of the "coalition" whose uploads are in the sum.
      dropped: selected devices whose uploads are not in the sum.
      lipschitz: c of every step theta -> theta - eta g(theta; batch), clipping included (`lipschitz_constant`); if it
        is not known, rows 1 and 2 only.

    Raises:
      ValueError: an argument outside its range, or no upload left whose noise the adversary does not know.
    """
    taken, steps = _validate.integer(at_least=0, rounds_taken=rounds_taken), _validate.integer(local_steps=local_steps)
    batches = check_batches(num_samples, batch_size)
    uploads = _unknown_uploads(taken, num_selected, adversary, colluding, dropped)
    if adversary == "everybody":
        plain = best = rows.every_step(steps, batches)
    else:
        plain = best = rows.summed(uploads, steps, batches)
        if lipschitz is not None:
            best = rows.summed_lipschitz(uploads, steps, batches, _validate.real("[0, inf)", lipschitz=lipschitz))
    charged = taken * step_rho(clip, batch_size, sigma)
    named = [part for cost, row in (best, plain) for part in (charged * cost, np.where(taken > 0, row, 0).astype(int))]
    return Proved(*(part[()] for part in named))


def proved_epsilon(proved: Proved, delta: Numbers, *, axis: int | None = None) -> ProvedEpsilon:
    """The smaller of the exact eps of rows 1 and 2 and the tight conversion of the smallest rho.

    Args:
      proved: from `proved_rho`.
      delta: in (0, 1).
      axis: of `proved` that lists rounds, or kinds of rounds, to be added up; without it each entry is a whole run.

    Raises:
      ValueError: a delta outside its range.
    """
    total, plain = proved.rho, proved.gaussian_rho
    if axis is not None:
        total, plain = zcdp.composition(np.asarray(total), axis), zcdp.composition(np.asarray(plain), axis)
    exact = gaussian.epsilon(_validate.real("(0, 1)", delta=delta), np.sqrt(2 * plain))
    tight = zcdp.epsilon(total, delta, "tight")
    use = exact <= tight
    by_round = use if axis is None else np.expand_dims(use, axis)
    row = np.where(by_round, proved.gaussian_row, proved.row)
    return ProvedEpsilon(np.minimum(exact, tight), np.where(use, plain, total)[()], row[()], use)


def _unknown_uploads(taken, num_selected: Numbers, adversary: str, colluding: Numbers, dropped: Numbers) -> Result:
    """h, at least 1 where the device took part."""
    known = _validate.choice({"everybody": 0, "server": 0, "device": 1, "coalition": colluding}, adversary=adversary)
    known = _validate.integer(at_least=0, colluding=known)
    if adversary != "coalition" and np.any(_validate.integer(at_least=0, colluding=colluding)):
        _validate.fail("colluding", colluding, "0 unless adversary = 'coalition'")
    gone = _validate.integer(at_least=0, dropped=dropped)
    uploads = _validate.integer(num_selected=num_selected) - gone - known
    if np.any((uploads < 1) & (taken > 0)):
        _validate.fail("dropped", dropped, f"below num_selected = {num_selected} less the colluding devices")
    return np.maximum(uploads, 1)


def _assumptions(row: Row) -> tuple[str, ...]:
    return tuple(rows.ASSUMPTIONS[used] for used in np.unique(row) if used > 0)
