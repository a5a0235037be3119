"""The card of noise that is correlated over rounds."""

import jax

from experiments.correlated_noise.factors import factors
from fedjax_priv.theory.correlated_noise import Schedule


def test_vectors_of_a_factor_are_those_of_its_state():
    made = factors(Schedule(32, 8), bands=4, buffers=2)
    state = {name: jax.tree.leaves(factor.noise.init(100)) for name, factor in made.items()}
    kept = {name: sum(a.size // 100 for a in leaves) for name, leaves in state.items()}
    assert {name: factor.vectors for name, factor in made.items()} == kept
    assert kept["BISR 4"] == 3
