"""Independent noise of the server: standard normal, fresh in every round, and without state."""

import jax
import numpy as np

from fedjax_priv.server_noise import independent

KEY = jax.random.key(3)


def test_noise_is_standard_normal_and_of_its_round():
    noise = independent()
    first, state = noise.draw(KEY, noise.init(4000), 4000)
    second, _ = noise.draw(jax.random.fold_in(KEY, 1), state, 4000)
    assert state == () and noise.correlation is None
    assert abs(float(first.mean())) < 5 / np.sqrt(4000) and abs(float(first.var()) - 1) < 5 * np.sqrt(2 / 4000)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(4000)
    assert np.corrcoef(first, noise.draw(KEY, state, 4000)[0])[0, 1] > 0.99  # control: one key, one row
