"""One user's eps if the noise of several users, and of the receiver, hides its gradient."""

import numpy as np

from fedjax_priv.theory import _validate, gaussian
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.rounds import Checked


def sensitivity(one: Checked, senders: Numbers) -> Result:
    """2L/sqrt(senders sigma_min^2 + N0); the noise variance must be positive."""
    variance = _validate.real("(0, inf)", noise_variance=one.noise_variance).min()
    return 2 * one.clip / np.sqrt(senders * variance + one.receiver_noise)


def classical(delta_local: Numbers, relative: Numbers) -> Result:
    """Eps at delta_l in (0, 1] by the 1.25 formula; `relative` is the `sensitivity`."""
    return gaussian.classical_epsilon(_validate.real("(0, 1]", delta_local=delta_local), relative)


def exact(delta_local: Numbers, relative: Numbers) -> Result:
    """Eps at delta_l in (0, 1] by the Gaussian mechanism's exact profile."""
    return gaussian.epsilon(_validate.real("(0, 1]", delta_local=delta_local), relative)
