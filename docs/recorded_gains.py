"""Makes `docs/recorded_gains.npz`, gains of seven users of a base station: `python docs/recorded_gains.py`.

A stand-in for a ray tracer, so that the example needs none: users walk along a street, and each is heard by one direct
and five scattered rays, whose phases turn with the length of the way at 2.4 GHz. Four antennas stand in a line, half a
wavelength apart. The mean power of each user is 1.
"""

import pathlib

import numpy as np

ROUNDS, USERS, ANTENNAS, RAYS = 20, 7, 4, 6
WAVELENGTH, STEP, RICIAN = 0.125, 0.7, 3.0
"""In metres; of a walk between rounds; power of the direct ray over that of the others."""


def gains() -> np.ndarray:
    """Complex gains `[rounds, users, antennas]`."""
    rng = np.random.default_rng(7)
    user = np.stack([rng.uniform(-100, 100, USERS), rng.uniform(20, 60, USERS)], axis=1)
    walk = np.array([STEP, 0.0]) * np.arange(ROUNDS)[:, None, None]
    scatterer = rng.uniform(-60, 60, (USERS, RAYS - 1, 2)) + np.array([0, 60])
    antenna = np.stack([np.arange(ANTENNAS) * WAVELENGTH / 2, np.zeros(ANTENNAS)], axis=1)
    place = user + walk  # [rounds, users, 2]
    far = lambda a, b: np.linalg.norm(a - b, axis=-1)
    direct = far(place[:, :, None, None], antenna)  # [rounds, users, 1, antennas]
    scattered = far(place[:, :, None], scatterer)[..., None] + far(scatterer[:, :, None], antenna)
    length = np.concatenate([direct, scattered], axis=2)
    power = np.concatenate([[RICIAN], np.full(RAYS - 1, 1 / (RAYS - 1))])
    rays = np.sqrt(power / power.sum())[:, None] * np.exp(-2j * np.pi * length / WAVELENGTH)
    return rays.sum(2).astype(np.complex64)


if __name__ == "__main__":
    np.savez(pathlib.Path(__file__).with_suffix(".npz"), gains=gains())
