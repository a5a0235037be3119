"""The card of noise that is correlated over rounds."""

import jax
import xarray as xr

from experiments.correlated_noise import error
from experiments.correlated_noise.factors import factors
from fedjax_priv.theory.correlated_noise import Schedule


def test_vectors_of_a_factor_are_those_of_its_state():
    made = factors(Schedule(32, 8), bands=4, buffers=2)
    state = {name: jax.tree.leaves(factor.noise.init(100)) for name, factor in made.items()}
    kept = {name: sum(a.size // 100 for a in leaves) for name, leaves in state.items()}
    assert {name: factor.vectors for name, factor in made.items()} == kept
    assert kept["BISR 4"] == 3


CONFIG = error.Config(rounds=16, separation=4, bands=2, buffers=2, coordinates=200)


def made_up():
    """Streams that have the error of their closed forms."""
    made = [factors(of, CONFIG.bands, CONFIG.buffers) for of in CONFIG.schedules.values()]
    exact = lambda of: {one.noise.correlation: one.error for one in of.values()}
    data = xr.concat([error.dataset(of, exact(of)) for of in made], "schedule")
    root = made[0]["square root"].error
    return data.assign_coords(schedule=[*CONFIG.schedules]).assign(sign_error=("round", 3 * root))


def verdict(data):
    return next(claim.verdict for claim in error.claims(CONFIG, data) if claim.id == "streams")


def test_a_stream_of_another_deviation_fails_and_a_control_that_passes_decides_nothing():
    data = made_up()
    assert verdict(data) is True
    assert verdict(data.assign(simulated=data.simulated * 1.5)) is False
    assert verdict(data.assign(sign_error=data.sign_error / 3)) is None
