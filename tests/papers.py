"""Helpers of the tests of the papers' experiments."""

import jax


def verdicts(claims):
    return [claim.verdict for claim in claims]


def round_shapes(make, params, data, *numbers):
    """The `RoundInfo` of a round of the system `make(*numbers)`, from shapes alone: nothing is computed."""

    def run(key, params, data, *numbers):
        system = make(*numbers)
        state = system.init(key, params, data)
        return state, *system.step(key, state, data)

    key = jax.eval_shape(lambda: jax.random.key(0))
    before, after, info = jax.eval_shape(run, key, params, data, *numbers)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    return info
