"""Random rounds of secure sums, thousands side by side: what is accepted is the plain sum, whatever went wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers import coded_masks, pairwise_masks, sparse_masks
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.status import Status
from fedjax_priv.testing import layer_round
from helpers import QUICK, Garbled, Q, accepted, cohort_of, garbling

D = 3
TABLE = {  # layer, clients, holders of shares, rounds
    "complete": (pairwise_masks(group_size=5, threshold=3), 5, 5, 5000),
    "k-regular": (pairwise_masks(group_size=8, neighbours=4, threshold=2), 8, 5, 5000),
    "sparse": (sparse_masks(alpha=0.6, group_size=5, threshold=2, expand="dense"), 5, 5, 1000),
    "coded": (coded_masks(num_values=D, group_size=5, colluders=1, lost=2), 5, None, 1000),
}


def drawn(n, holders, rounds):
    """Updates, who is selected, uploads, answers, and in half of the rounds a garbled word somewhere."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, Q, (rounds, n, D), dtype=np.uint32)
    rate = rng.random((2, rounds, 1)) ** 2  # rounds in which few are lost, and rounds in which many are
    selected = rng.random((rounds, n)) < 0.9
    alive = selected & (rng.random((rounds, n)) > rate[0])
    online = alive & (rng.random((rounds, n)) > rate[1])
    wrong = {"key": (n, 2), "commitment": (n, 2), "shares": (n, holders or 1, 4)}
    wrong = {name: np.zeros((rounds, *shape), np.uint32) for name, shape in wrong.items()}
    for round in np.flatnonzero(rng.random(rounds) < 0.5):
        words = wrong[rng.choice([*wrong])][round].reshape(-1)
        words[rng.integers(words.size)] = rng.integers(1, Q)
    return x, selected, alive, online, Garbled(**wrong)


def play(name):
    layer, n, holders, rounds = TABLE[name]
    x, selected, alive, online, garbled = drawn(n, holders, rounds)

    @jax.jit
    def one(key, x, selected, alive, online, garbled):
        who = cohort_of(n)._replace(selected=selected)
        outcome = layer_round(garbling(layer, garbled) if holders else layer, key, x, who, alive, online)
        clear = outcome["sent"].clear
        chosen = jax.vmap(lambda words: bitmap.unpack(words, D))(clear) if name == "sparse" else jnp.ones((n, D), bool)
        received = outcome["received"]
        return accepted(outcome, who)[0], received.value[0], received.status, chosen

    keys = jax.random.split(jax.random.key(5), rounds)
    every = jax.jit(jax.vmap(one), compiler_options=QUICK)
    found = every(keys, x, selected, alive, online, garbled)
    return jax.tree.map(np.asarray, found), x, alive, garbled


@pytest.mark.parametrize("name", TABLE)
def test_what_is_accepted_is_the_plain_sum(name):
    (taken, value, status, chosen), x, alive, garbled = play(name)
    plain = np.where(alive[:, :, None] & chosen, x, 0).astype(object).sum(1) % Q
    right, rounds = (value == plain).all(1), len(taken)
    assert right[taken].all(), "0 wrong"
    assert 0.25 * rounds < taken.sum() < 0.95 * rounds
    if TABLE[name][2]:  # controls: sums that are not accepted are mostly garbage, and garbled messages are found
        touched = np.any([words.reshape(rounds, -1).any(1) for words in garbled], 0)
        found = (status[:, 0] & Status.WRONG_SHARES) > 0
        assert right[alive.any(1) & ~taken].mean() < 0.2
        assert found[touched].mean() > 0.1 and not found[~touched].any()
        assert taken[touched].mean() < taken[~touched].mean()
