import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.base import View
from fedjax_priv.engine.side_by_side import traced_for
from fedjax_priv.layers.secure_sum import bitmap, committee
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.leakage import (
    honest_clients,
    observe_overlap,
    observe_privacy,
    overlap,
    revealed_fraction,
    selection_measures,
    selections,
    sparse_selections,
)
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import sparse_fedavg, sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory
from helpers import targets, towards_target

KEY = jax.random.key(4)
N, D = 9, 1003
HONEST = jnp.arange(N) < 6


def traced_on(platform, function, *args):
    with traced_for(platform):
        return jax.jit(lambda *args: function(*args), static_argnums=2)(*args)


@pytest.mark.parametrize("platform", ["cpu", "accelerator"])
@pytest.mark.parametrize("d", [5, 64, 70])
def test_measures_are_their_definitions(d, platform):
    rng = np.random.default_rng(d)
    chosen, honest = rng.random((N, d)) < 0.4, rng.random(N) < 0.6
    sets = jax.vmap(bitmap.pack)(jnp.asarray(chosen))
    count = chosen[honest].sum(0)
    mean, least = traced_on(platform, honest_clients, sets, jnp.asarray(honest), d)
    assert mean == pytest.approx(count.mean(), rel=1e-6) and least == count.min()
    revealed = traced_on(platform, revealed_fraction, sets, jnp.asarray(honest), d)
    assert revealed == pytest.approx((count == 1).mean(), rel=1e-6)
    members = np.flatnonzero(honest)
    pairs = [(chosen[i] & chosen[j]).sum() for i in members for j in members if i < j]
    pairs = np.array(pairs) / chosen[members].sum(1).mean()
    found = traced_on(platform, overlap, sets, jnp.asarray(honest))
    np.testing.assert_allclose(found, [pairs.mean(), pairs.std()], rtol=1e-5)


@pytest.mark.usefixtures("any_platform")
@pytest.mark.parametrize(("platform", "loops"), [("cpu", (1, 1, 1, 1)), ("cuda", (0, 0, 0, 1)), ("tpu", (0, 0, 0, 1))])
def test_accelerators_take_no_client_after_another(platform, loops):
    """Pairs of 1,000 clients do not fit memory at once: 200 clients at a time are in pairs with all."""
    d, n = 159_010, 1_000
    sets, members = jax.ShapeDtypeStruct((n, -(-d // 32)), jnp.uint32), jax.ShapeDtypeStruct((n,), bool)
    sent = Sparse(*(jax.ShapeDtypeStruct((n, 1_590), dtype) for dtype in (jnp.float32, jnp.int32)))
    view = seen(sent, mask=())
    sparse = jax.jit(lambda sent: sparse_selections(view._replace(uploads=sent), d)).trace(sent)
    by_client = [jax.jit(of, static_argnums=2).trace(sets, members, d) for of in (honest_clients, revealed_fraction)]
    lowered = [
        t.lower(lowering_platforms=(platform,)) for t in (sparse, *by_client, jax.jit(overlap).trace(sets, members))
    ]
    assert tuple(each.as_text().count("stablehlo.while") for each in lowered) == loops
    if platform != "cpu":
        assert "tensor<5x200x1000xf32>" in lowered[-1].as_text()


TEN = jnp.zeros((3, 1), jnp.uint32)
"""Sets of ten coordinates of three clients."""

test_bad_arguments = refused(
    *(
        (
            functools.partial(inspect.unwrap(of), TEN, jnp.ones(3, bool), num),
            f"num_params must be an integer >= 1, got {num}",
        )
        for of in (honest_clients, revealed_fraction)
        for num in (-1, 0)
    ),
    (
        lambda: inspect.unwrap(selection_measures._check_members)(TEN.astype(float)),
        "sets must be bitmaps of uint32 words, got float32",
    ),
    (lambda: honest_clients(TEN, jnp.ones(3, bool), 33), "sets must have 2 words each, for num_params = 33, got 1$"),
    *(
        (
            functools.partial(inspect.unwrap(of), TEN, wrong, *d),
            name + r" must be bool of shape \(3,\), one per set, got",
        )
        for of, name, d in (
            (honest_clients, "honest", [10]),
            (revealed_fraction, "honest", [10]),
            (overlap, "members", []),
        )
        for wrong in (jnp.ones(2, bool), jnp.ones(3))
    ),
)


def test_every_coordinate_counts_in_the_least():
    """Words are padded to 32 coordinates; the padding is nobody's."""
    full = jax.vmap(bitmap.pack)(jnp.ones((3, 33), bool))
    assert jax.jit(lambda: honest_clients(full, jnp.ones(3, bool), 33))() == (3.0, 3)
    assert jax.jit(lambda: revealed_fraction(full, jnp.arange(3) == 1, 33))() == 1.0


def test_a_run_of_sparse_secagg_records_the_papers_measures():
    """Against theory, with the error of independent coordinates; users are the same ones at all of a round's."""
    d, alpha = 30_000, 0.5
    observe = lambda view: observe_privacy(HONEST)(view) | observe_overlap()(view) | {"who": view.alive}
    system = sparse_secagg(
        towards_target(), num_clients=N, alpha=alpha, dropout=0.2, observe=observe, elide=True, mesh=None
    )
    result = simulate(system, KEY, jnp.zeros(d), targets(N, d), rounds=3)
    p = theory.selection_probability(N, alpha)
    survivors = result.who.values[:, :6].sum(1)
    assert len(set(survivors.tolist())) > 1
    error = np.sqrt(survivors * p / d)  # X(l) has a variance below h p
    assert (np.abs(result.honest_mean - p * survivors) < 6 * error).all()
    expected = theory.revealed_fraction(N, 3, alpha)
    assert (np.abs(result.revealed_all - expected) < 5 * np.sqrt(expected / d)).all()
    assert (result.revealed.values[survivors < 6] > result.revealed_all.values[survivors < 6]).all()
    shared = theory.both_selected_probability(N, alpha) / p
    assert (np.abs(result.overlap_mean - shared) < 5 / np.sqrt(d)).all()
    assert (result.honest_min == 0).all()


def seen(uploads, **clear):
    """A view, as far as the measures read it."""
    public = {"mask": committee.Roster((), (), (), ()), "q": ()}
    return View(uploads, {"q": ()} | clear, jnp.arange(N) != 2, public, {}, unsent=clear)


@pytest.mark.parametrize("layer", ["q", "vote", "no"])
def test_layers_that_select_nothing_are_refused(layer):
    proposed = seen(jnp.zeros((N, D), jnp.uint32), mask=(), vote=jnp.zeros((N, 3), jnp.int32))
    with pytest.raises(ValueError, match=f"^layer must be one of 'mask', got '{layer}'"):
        selections(proposed, layer)


def test_secagg_sums_all_honest_survivors_everywhere():
    measured = lambda observe: jax.jit(lambda: observe(seen(jnp.zeros((N, D), jnp.uint32), mask=())))()
    assert measured(observe_privacy(HONEST)) == {
        "honest_mean": 5.0,
        "honest_min": 5,
        "revealed": 0.0,
        "revealed_all": 0.0,
    }
    assert measured(observe_overlap()) == {"overlap_mean": 1, "overlap_std": 0}


@pytest.mark.parametrize("sparsifier", ["rand_k", "top_k"])
def test_overlap_of_sparsifiers(sparsifier):
    """Random coordinates share K/d of K; the largest ones of like updates are the same ones."""
    observe = observe_overlap(lambda view: sparse_selections(view, D))
    system = sparse_fedavg(towards_target(), num_params=D, k=100, sparsifier=sparsifier, observe=observe)
    alike = jax.tree.map(lambda a: jnp.broadcast_to(a[:1], a.shape), targets(N, D))
    result = simulate(system, KEY, jnp.zeros(D), alike._replace(count=targets(N, D).count), rounds=3)
    if sparsifier == "rand_k":
        assert (np.abs(result.overlap_mean - 0.1) < 5 * 0.03 / 6).all()  # 36 pairs, std sqrt(0.1 * 0.9 * 0.9 / 100)
        assert ((result.overlap_std > 0.015) & (result.overlap_std < 0.045)).all()
    else:
        np.testing.assert_allclose(result.overlap_mean[:1], 1.0)
        np.testing.assert_allclose(result.overlap_std[:1], 0.0, atol=1e-7)


def test_bad_views():
    view = seen(jnp.zeros((N, D), jnp.uint32), weigh=(), mask=())
    with pytest.raises(ValueError, match="layer must be one of 'mask', got 'masks'"):
        selections(view, "masks")
    with pytest.raises(ValueError, match="uploads must be a Sparse, got "):
        sparse_selections(view, D)
