"""One device's training in CDP-FL: its numbers, and their checks."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


class Training(NamedTuple):
    """How one device trains, in the paper's symbols; fields are broadcast, an array gives one result per device.

    A function that takes one raises ValueError for a field outside its range.
    """

    rounds_taken: Numbers  # C >= 0: rounds the device took part in
    local_steps: Numbers  # tau >= 1: of a round
    clip: Numbers  # G > 0: the norm to which each sample's gradient is clipped
    num_selected: Numbers  # r >= 1: devices of a round, whose uploads are summed
    num_samples: Numbers  # m >= 1: training samples of the device
    batch_size: Numbers  # gamma >= 1: what a sum of clipped gradients is divided by, also that of a smaller last batch
    sigma: Numbers | None = None  # > 0: standard deviation of the noise on a coordinate of a batch's mean gradient


class Checked(NamedTuple):
    """A `Training` whose fields are in their ranges, in float64."""

    rounds_taken: np.ndarray
    local_steps: np.ndarray
    clip: np.ndarray
    num_selected: np.ndarray
    num_samples: np.ndarray
    batch_size: np.ndarray
    sigma: np.ndarray

    @property
    def step_rho(self) -> Result:
        """rho_1 = 2 G^2/(gamma^2 sigma^2) of a local step whose batch contains the sample: Delta = 2G/gamma."""
        return (2 * self.clip / self.batch_size / self.sigma) ** 2 / 2

    @property
    def batches(self) -> Result:
        """B = ceil(m/gamma), of a pass over the data; the last one may have fewer samples."""
        return np.ceil(self.num_samples / self.batch_size)


def checked(training: Training) -> Checked:
    """The checked fields; ValueError names a field outside its range."""
    _validate.setting(Training, training=training)
    counts = ("local_steps", "num_selected", "batch_size", "num_samples")
    steps, selected, batch, samples = (_validate.integer(**{name: getattr(training, name)}) for name in counts)
    taken = _validate.integer(at_least=0, rounds_taken=training.rounds_taken)
    clip, sigma = (_validate.real("(0, inf)", **{name: getattr(training, name)}) for name in ("clip", "sigma"))
    return Checked(taken, steps, clip, selected, samples, batch, sigma)


def check_selected(num_selected: Numbers, num_devices: Numbers) -> np.ndarray:
    """r; ValueError unless 1 <= r <= n."""
    r = _validate.integer(num_selected=num_selected)
    if (r > _validate.integer(num_devices=num_devices)).any():
        _validate.fail("num_selected", num_selected, f"at most num_devices = {num_devices}")
    return r
