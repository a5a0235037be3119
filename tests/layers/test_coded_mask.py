"""LightSecAgg: its sums, and what its code gives away; each with a control that gives away more."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import systems
from fedjax_priv.base import Received
from fedjax_priv.crypto import lagrange
from fedjax_priv.layers import coded_masks
from fedjax_priv.layers.coded_mask import code_of, pieces_of, points
from fedjax_priv.layers.secure_sum.masked_sum import ELIDED
from helpers import Q, cohort_of, of_the_round, refuses, run_layer, same_bits, survivors, uniform

KEY = jax.random.key(4)
N, D = 7, 33
CODE: dict[str, Any] = {"num_values": D, "group_size": N, "colluders": 3, "lost": 2}
LAYER = coded_masks(**CODE)
X = np.random.default_rng(1).integers(0, Q, (N, D), dtype=np.uint32)
WHO = cohort_of(N, round=3)


def played(lost=(), gone=(), who=WHO):
    """A round; all are one program."""
    return run_layer(LAYER, KEY, X, who, survivors(N, lost), survivors(N, [*lost, *gone]))


def rank(rows):
    """Of a matrix over F_q, by elimination in Python integers."""
    rows, found = [[int(a) % Q for a in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        scale = pow(rows[found][column], -1, Q)
        rows[found] = [a * scale % Q for a in rows[found]]
        for i in range(len(rows)):
            if i != found and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [(a - factor * b) % Q for a, b in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


basis = jax.jit(lagrange.basis)


def weights_of(n, u, t, *, overlapping=False):
    """`[n, u]`: what each client's share takes of each piece; or of a code whose two sets of points overlap."""
    alpha, beta = points(code_of(D, n, t, n - u, u))
    return np.asarray(basis(beta, np.arange(1, n + 1, dtype=np.uint32) if overlapping else alpha))


@pytest.mark.parametrize(("n", "u", "t"), [(7, 5, 3), (8, 6, 2)])
def test_shares_of_colluders_hide_a_mask_and_any_others_that_suffice_give_it(n, u, t):
    """The random pieces in any T shares are as good as uniform; any U shares are solvable for all pieces."""
    weights = weights_of(n, u, t)
    hides = lambda weights: [rank(weights[list(some), u - t :]) == t for some in itertools.combinations(range(n), t)]
    assert all(hides(weights)) and len(hides(weights)) == {7: 35, 8: 28}[n]
    assert all(rank(weights[list(some)]) == u for some in itertools.combinations(range(n), u))
    assert not all(hides(weights_of(n, u, t, overlapping=True)))


def test_no_piece_repeats_words_of_another():
    """Random pieces that are words of masks would hide nothing, which the ranks above cannot see."""
    code = code_of(400, N, 3, 2, None)
    seeds = np.random.default_rng(5).integers(0, Q, (3, 2), dtype=np.uint32)
    words = jax.jit(pieces_of, static_argnums=0)(code, seeds, jnp.int32(1))
    assert words.shape == (5, 3, 200) and len(np.unique(words)) == words.size
    alpha, beta = map(np.asarray, points(code))
    assert len({*alpha.tolist(), *beta.tolist()}) == N + 5


def learned(weights, u, t, answers):
    """How many combinations of masks of honest clients are known from colluders' shares and from answers.

    Columns are the pieces of each honest client, those of masks first; a combination of masks is a row of zeros in all
    random pieces.
    """
    n = len(weights)
    honest = range(t, n)  # the first T collude
    empty = [0] * (u * len(honest))
    known = []

    def row(j, of):
        told = empty.copy()
        for i in of:
            told[(i - t) * u : (i - t + 1) * u] = weights[j].tolist()
        return told

    known += [row(j, [i]) for j in range(t) for i in honest]
    known += [row(j, [i for i in alive if i >= t]) for alive in answers for j in alive]
    random = [c for c in range(len(empty)) if c % u >= u - t]
    return rank(known) - rank([[told[c] for c in random] for told in known])


def test_colluders_and_server_learn_the_sum_of_masks_and_no_other_combination():
    """With two answers, for S and S without one client, they learn its mask too."""
    n, u, t = 7, 5, 3
    weights, alive = weights_of(n, u, t), [0, 1, 2, 3, 4, 6]
    assert learned(weights, u, t, []) == 0
    assert learned(weights, u, t, [alive]) == u - t
    assert learned(weights, u, t, [range(n)]) == u - t
    assert learned(weights, u, t, [alive, alive[1:-1]]) == 2 * (u - t)
    assert learned(weights_of(n, u, t, overlapping=True), u, t, []) > 0


@pytest.mark.parametrize(("n", "u", "t"), [(7, 5, 3), (8, 6, 2)])
def test_the_fewest_colluders_whose_shares_tell_of_a_mask_are_those_that_the_layer_states(n, u, t):
    """A combination of their shares without random pieces is one of pieces of the mask, and tells one of the update."""
    weights = weights_of(n, u, t)
    tells = lambda some: rank(weights[list(some)]) > rank(weights[list(some), u - t :])
    telling = [c for c in range(1, n) if any(map(tells, itertools.combinations(range(n), c)))]
    layer = coded_masks(num_values=D, group_size=n, colluders=t, lost=n - u)
    assert telling[0] == layer.sums.opened_by and layer.sums.threshold == u


def test_as_many_colluders_as_decode_read_an_upload_from_their_shares_alone():
    result, code = played(), code_of(**CODE, threshold=None)
    pieces = np.asarray(jax.jit(pieces_of, static_argnums=0)(code, result["private"][4:5], jnp.int32(3)))[:, 0]
    alpha, beta = map(np.asarray, points(code))
    shares = np.asarray(basis(beta, alpha)).astype(object) @ pieces % Q
    back = np.asarray(basis(jnp.asarray(alpha[:5]), jnp.asarray(beta[:2]))).astype(object)
    mask = (back @ shares[:5] % Q).ravel()[:D]
    assert ((np.asarray(result["upload"][4]) - mask) % Q == X[4]).all()


def test_a_client_that_answers_twice_gives_an_update_away():
    """Why it must not: the difference of two sums of shares decodes to the mask of one client."""
    result = played()
    nothing = Received(jnp.zeros((1, D), jnp.uint32), jnp.array([N]))

    @jax.jit
    def without_masks(private, public, alive):
        header, _ = LAYER.disclose(private, public, (), alive, alive)
        return LAYER.decode(header, public, nothing).value[0]

    known = result["private"], result["public"]
    negated = [np.asarray(without_masks(*known, alive)) for alive in (survivors(N), survivors(N, [4]))]
    mask = (negated[1].astype(object) - negated[0]) % Q
    assert ((np.asarray(result["upload"][4]) - mask) % Q == X[4]).all()


def test_uploads_and_answers_are_uniform_whatever_the_update():
    d = 40_000
    layer, x = coded_masks(num_values=d, group_size=3, colluders=1, lost=0), jnp.zeros((3, d), jnp.uint32)
    result = run_layer(layer, KEY, x, cohort_of(3), survivors(3))
    assert all(uniform(row) for row in (*result["upload"], *result["header"].sums))
    assert not uniform(x[0]) and not np.asarray(result["received"].value).any()


def test_bits_of_each_phase():
    """L = 17 words to each of five others that were asked, one sum of as many, and a bit for each on the list."""
    who = WHO._replace(selected=survivors(N, [2]))
    alive = survivors(N, [2, 5])
    result = played([2, 5], who=who)
    bits, share = result["bits"], 32 * 17
    assert bits["advertise"].up.tolist() == [64 if i != 2 else 0 for i in range(N)]
    assert not np.asarray(bits["advertise"].down).any()
    assert bits["share"].up.tolist() == bits["share"].down.tolist() == [5 * share if i != 2 else 0 for i in range(N)]
    assert bits["unmask"].up.tolist() == [share if i not in (2, 5) else 0 for i in range(N)]
    assert bits["unmask"].down.tolist() == [8 if i not in (2, 5) else 0 for i in range(N)]
    assert result["header"].sums.shape[1] == 17 and result["received"].count.tolist() == [5]
    assert (np.asarray(result["received"].value[0]) == X[np.asarray(alive)].astype(object).sum(0) % Q).all()


def test_nobody_answers_for_too_few_and_too_few_answers_open_nothing():
    assert played([0], [1])["received"].count.tolist() == [6]
    assert played([0], [1, 2])["received"].count.tolist() == [0]
    result = played([0, 1, 2])
    assert not np.asarray(result["header"].sums).any() and result["received"].count.tolist() == [0]
    assert not np.asarray(result["bits"]["unmask"].up).any()


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    masked, plain = (
        run_layer(layer, KEY, X, WHO, survivors(N, [3])) for layer in (LAYER, coded_masks(**CODE, elide=True))
    )
    assert same_bits(masked["received"], plain["received"]) and same_bits(masked["bits"], plain["bits"])
    assert (plain["upload"] == X).all() and not (masked["upload"] == X).any()
    assert coded_masks(**CODE, elide=True).caveats == (ELIDED,) and not LAYER.caveats


def made(**change):
    return coded_masks(**CODE | change)


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: made(group_size=1), "group_size must be an integer >= 2, got 1"),
    (lambda: made(num_values=0), "num_values must be an integer >= 1, got 0"),
    (lambda: made(colluders=0), "colluders must be an integer >= 1, got 0"),
    (lambda: made(lost=-1), "lost must be an integer >= 0, got -1"),
    (lambda: made(lost=4), r"colluders \+ lost must be below group_size = 7, got 3 \+ 4"),
    (lambda: made(threshold=6), "threshold must be above colluders = 3 and at most group_size - lost = 5, got 6"),
    (lambda: made(threshold=3), "threshold must be above colluders = 3 and at most group_size - lost = 5, got 3"),
    (
        lambda: made(group_size=30_000, threshold=20_000),
        "group_size must be at most the terms of an exact product = 16384, got 30000",
    ),
    (lambda: made(num_values=2**26), "a message must have fewer than 2\\*\\*32 bits"),
    (
        lambda: run_layer(made(num_values=5), KEY, X, WHO, survivors(N)),
        "num_values must be the numbers in an upload, 33, got 5",
    ),
    (
        lambda: run_layer(made(group_size=6), KEY, X, WHO, survivors(N)),
        "group_size must be at least the size of the cohort, 7, got 6",
    ),
    (
        lambda: run_layer(LAYER, KEY, X[:4], cohort_of(4), survivors(4)),
        "threshold must be at most the size of the cohort, 4, got 5",
    ),
    (
        lambda: systems.lightsecagg(of_the_round(X), num_clients=7, num_params=0),
        "num_params must be an integer >= 1, got 0",
    ),
)
