"""SparseSecAgg and SecAgg(+) as whole systems: what the server is given, whatever is expanded or elided."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems.same_parts import alike, parts_of

from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.status import Status
from fedjax_priv.systems import secagg, sparse_secagg
from helpers import one_round, refuses, remembering, targets, towards_target

N, D = 8, 200
KEY = jax.random.key(9)
DATA = targets(N, D)
LEVELS = 2.0**16


SYSTEMS = {
    "secagg": lambda **how: secagg(remembering(), num_clients=N, dropout=0.25, leave=0.1, levels=LEVELS, **how),
    "sparse_secagg": lambda **how: sparse_secagg(
        remembering(), num_clients=N, alpha=0.4, neighbours=4, threshold=2, dropout=0.15, leave=0.05, **how
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_elided_masks_change_nothing_but_the_innermost_layer(name):
    """Which has the same sums, as layers/test_mask.py and layers/test_sparse_mask.py say."""
    masked, elided = (parts_of(SYSTEMS[name](elide=elide, mesh=None)) for elide in (False, True))
    assert alike(masked._replace(layers=None), elided._replace(layers=None))
    each = [dict(parts.layers.encode.__self__.layers) for parts in (masked, elided)]
    assert not alike(*(layers.pop("mask") for layers in each))
    assert each[0] and alike(*each)
    assert SYSTEMS[name](elide=True).caveats and not SYSTEMS[name]().caveats


def selected(observed):
    return np.asarray(jax.vmap(lambda row: bitmap.unpack(row, D))(observed.clear["mask"]))


@pytest.mark.parametrize(
    ("how", "peers", "factor"),
    [
        ({"dropout": 0.2, "neighbours": 4, "threshold": 2, "expand": "dense"}, 4, 1 / 0.8),
        ({"cohort_size": 6}, 5, 8 / 6),
    ],
)
def test_the_server_is_given_the_weighted_sum_of_what_survivors_select(how, peers, factor):
    """Eqs. 16 and 23: beta_i / (p (1 - theta)) y_i at l in U_i, over survivors, within the quantizer's steps."""
    alpha = 0.6
    system = sparse_secagg(
        towards_target(), num_clients=N, alpha=alpha, levels=LEVELS, observe=lambda view: view, elide=True, mesh=None,
        **how,
    )  # fmt: skip
    _, after, info = one_round(system, DATA, D, seed=9)
    assert int(info.status) == 0
    p = 1 - (1 - alpha / peers) ** peers
    mine, counted = np.asarray(info.client), np.asarray(info.counted)
    weight = (np.asarray(DATA.count) / np.asarray(DATA.count).sum())[mine]
    update = -np.asarray(DATA.examples, np.float64)[mine]
    sent = selected(info.observed) & counted[:, None]
    expected = (weight[:, None] * update * sent).sum(0) * factor / p
    np.testing.assert_allclose(info.direction, expected, atol=counted.sum() / LEVELS + 1e-5)
    np.testing.assert_allclose(after.params, -expected, atol=counted.sum() / LEVELS + 1e-5)
    bits = np.where(counted, 32 * sent.sum(1) + D, 0)
    assert info.bits["upload"].up.tolist() == bits.tolist()
    assert set(info.bits) == {"model", "advertise", "share", "upload", "unmask"}


def test_by_survivors_the_sum_is_divided_by_their_weight():
    system = sparse_secagg(
        towards_target(), num_clients=N, alpha=0.6, dropout=0.3, threshold=2, normalize="survivors", levels=LEVELS,
        elide=True, observe=lambda view: view, mesh=None,
    )  # fmt: skip
    _, _, info = one_round(system, DATA, D, seed=9)
    counted = np.asarray(info.counted)
    assert int(info.status) == 0 and 2 <= counted.sum() < N
    weight, update = np.asarray(DATA.count)[:, None], -np.asarray(DATA.examples, np.float64)
    expected = (weight * update * (selected(info.observed) & counted[:, None])).sum(0) / weight[counted].sum()
    np.testing.assert_allclose(info.direction, expected / (1 - (1 - 0.6 / 7) ** 7), atol=1e-3)
    assert info.bits["advertise"].up.tolist() == [128 + 32] * N


@jax.jit
def directions(keys, alpha):
    """Of many rounds from one model; nobody's secrets need more than two survivors."""

    def one(key):
        system = sparse_secagg(
            towards_target(), num_clients=5, alpha=alpha, dropout=0.1, threshold=2, expand="dense", levels=2.0**12,
            elide=True, block=5, mesh=None,
        )  # fmt: skip
        data = targets(5, 20)
        _, info = system.step(key, system.init(key, jnp.zeros(20), data), data)
        return info.direction, info.status

    return jax.lax.map(one, keys)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_sum_is_unbiased_and_with_alpha_in_place_of_p_it_is_not(alpha):
    """Lemma 1: the mean over masks, dropouts and rounding is sum_i beta_i y_i, within 5 standard errors."""
    data, p = targets(5, 20), 1 - (1 - alpha / 4) ** 4
    weight = np.asarray(data.count) / np.asarray(data.count).sum()
    expected = -(np.asarray(data.examples, np.float64) * weight[:, None]).sum(0)
    drawn, status = directions(jax.random.split(KEY, 3000), jnp.float32(alpha))
    assert not np.asarray(status).any()
    drawn = np.asarray(drawn, np.float64)
    error = drawn.std(0, ddof=1) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - expected) < 5 * error).all()
    along = drawn @ (expected / error**2)  # all coordinates together, the precise ones first
    score = lambda scale: (
        (scale * along.mean() - expected @ (expected / error**2)) / (along.std() / np.sqrt(len(along)))
    )
    assert abs(score(1)) < 5
    assert score(p / alpha) < -5, "scaled by 1 / alpha it falls short"


def test_a_traced_alpha_out_of_range_fails_the_round():
    keys = jax.random.split(KEY, 3000)
    assert all((directions(keys, jnp.float32(alpha))[1] & int(Status.NOT_FINITE)).all() for alpha in (0.0, -0.5, 1.5))


test_bad_arguments = refuses(
    lambda how: sparse_secagg(towards_target(), **{"num_clients": N, "mesh": None, **how}),
    ({"alpha": 0.0}, r"alpha must be a number in \(0, 1\], got 0.0"),
    ({"cohort_size": 9}, "cohort_size must be at most num_clients = 8, got 9"),
    ({"num_clients": 1}, "num_clients must be an integer >= 2, got 1"),
    ({"dropout": 1.0}, "dropout must be a number in"),
    ({"neighbours": 8}, "neighbours must be 'all' or an even integer >= 2 and below group_size = 8, got 8"),
)
