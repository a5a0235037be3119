import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers import common_coordinates, plain, plain_field, stack
from fedjax_priv.status import Status
from fedjax_priv.systems import common_secagg
from fedjax_priv.testing import cohort_of, run_layer, survivors, wire
from helpers import of_the_round, refuses, rounds_of, same_bits, targets, towards_target

KEY = jax.random.key(13)
N, D, K = 6, 13, 4
GROUP = np.array([0, 1, 0, 1, 1, 0])
UNSCALED = stack(it=common_coordinates(D, K, error_feedback=True), send=plain())


def updates(seed=0):
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def ran(layer, x, key=KEY, alive=None, groups=1):
    who = cohort_of(N, group=GROUP if groups == 2 else None)
    alive = survivors(N) if alive is None else alive
    return run_layer(stack(it=layer, send=plain(groups)), key, jnp.asarray(x), who, alive)


def coordinates_of(key):
    """The round's, read off what clients send of an update that says where each value stands."""
    x = jnp.tile(jnp.arange(D, dtype=jnp.float32), (N, 1))
    result = run_layer(UNSCALED, key, x, cohort_of(N), survivors(N))
    sent = np.asarray(result["upload"]).astype(int)
    assert (sent == sent[0]).all()
    return sent[0]


@pytest.mark.parametrize("error_feedback", [False, True])
def test_all_send_the_same_coordinates_and_the_server_puts_them_back(error_feedback):
    """Against NumPy's gather and scatter, for two groups that share the coordinates, with two clients lost."""
    x, alive, factor = updates(), np.asarray(survivors(N, [1, 2])), 1 if error_feedback else D / K
    position = coordinates_of(KEY)
    assert len(set(position)) == K
    result = ran(common_coordinates(D, K, error_feedback=error_feedback), x, alive=jnp.asarray(alive), groups=2)
    np.testing.assert_allclose(result["upload"], factor * x[:, position], rtol=1e-6)
    for g in range(2):
        expected = np.zeros(D)
        expected[position] = factor * x[alive & (g == GROUP)][:, position].astype(np.float64).sum(0)
        np.testing.assert_allclose(result["received"].value[g], expected, rtol=1e-6, atol=1e-7)
    kept = x.copy()
    kept[:, position] = 0
    memory = result["state"]["it"]
    assert same_bits(memory, jnp.asarray(kept)) if error_feedback else memory == ()


def test_unbiased_over_seeds_without_memory():
    """5 standard errors; what is sent with a memory is not scaled, and fails the same test."""
    x = updates()

    def away(layer):
        draw = jax.jit(jax.vmap(lambda key: ran(layer, x, key)["received"].value[0]))
        sums = np.asarray(draw(jax.random.split(KEY, 2000)), np.float64)
        error = sums.std(0, ddof=1) / np.sqrt(len(sums))
        return np.abs(sums.mean(0) - x.astype(np.float64).sum(0)) / error

    assert away(common_coordinates(D, K)).max() < 5
    assert (away(common_coordinates(D, K, error_feedback=True)) > 5).mean() > 0.5


def test_what_is_announced_is_a_seed():
    """64 bits down to those who take part, nothing up; the server half needs nothing else."""
    who = cohort_of(N)._replace(selected=survivors(N, [4]))
    layer = common_coordinates(D, K)
    private, seed, bits = layer.advertise(KEY, layer.init(KEY, N), who)
    assert private == () and bits.keys() == {"coordinates"}
    assert bits["coordinates"].up.tolist() == [0] * N
    assert bits["coordinates"].down.tolist() == [wire(seed[None]) if i != 4 else 0 for i in range(N)]
    assert bits["coordinates"].up.dtype == bits["coordinates"].down.dtype == jnp.uint32
    assert wire(seed[None]) == 64


def test_another_round_has_other_coordinates():
    drawn = {tuple(sorted(coordinates_of(jax.random.key(seed)))) for seed in range(5)}
    assert len(drawn) == 5


def test_what_is_not_finite_is_told_whether_it_is_sent_or_not():
    x = updates()
    x[2], x[4, 1:] = np.where(np.arange(D) == coordinates_of(KEY)[0], x[2], np.nan), -np.inf
    status = ran(common_coordinates(D, K), x)["sent"].status.tolist()
    assert status == [0, 0, Status.NOT_FINITE, 0, Status.NOT_FINITE, 0]


def test_what_was_sent_and_what_is_kept_are_the_updates_that_counted():
    """Through dropouts: an update that did not arrive is gone, the memory of its client is not."""
    rounds, data, levels = 12, targets(N, D), 2.0**18
    vectors = np.random.default_rng(2).normal(size=(N, rounds, D)).astype(np.float32)
    system = common_secagg(
        of_the_round(jnp.asarray(vectors)), num_clients=N, num_params=D, alpha=0.3, error_feedback=True, dropout=0.25,
        levels=levels, secure_sum=plain_field(), block=4, mesh=None,
    )  # fmt: skip
    states, infos = rounds_of(system, KEY, jnp.zeros(D), data, rounds)
    memory = np.concatenate([np.zeros((1, N, D)), np.asarray(states.layers["common"])])
    counted = np.asarray(infos.counted)
    assert (infos.status == 0).all() and 0 < (~counted).sum() < N * rounds
    assert (memory[1:][~counted] == memory[:-1][~counted]).all()
    assert ((memory[1:] == 0).sum(2)[counted] >= int(0.3 * D)).all()
    assert set(np.asarray(infos.bits["upload"].up).ravel()) == {0, 32 * int(0.3 * D)}
    moved = np.asarray(infos.direction != 0).sum(1)
    assert (moved <= int(0.3 * D)).all() and moved.max() > 0
    weight = np.asarray(data.count) / np.asarray(data.count).sum() / 0.75
    given = (counted[..., None] * weight[:, None] * vectors.swapaxes(0, 1)).sum(1).cumsum(0)
    sent = np.asarray(infos.direction, np.float64).cumsum(0)
    np.testing.assert_allclose(sent + memory[1:].sum(1), given, atol=rounds * N / levels)


def test_the_mean_over_seeds_dropouts_and_rounding_is_the_weighted_mean():
    data = targets(N, D)
    system = common_secagg(
        of_the_round(data.examples[:, None]), num_clients=N, num_params=D, alpha=0.5, dropout=0.2,
        secure_sum=plain_field(), mesh=None,
    )  # fmt: skip
    state = system.init(KEY, jnp.zeros(D), data)
    draw = jax.jit(jax.vmap(lambda key: system.step(key, state, data)[1].direction))
    sums = np.asarray(draw(jax.random.split(KEY, 2000)), np.float64)
    weight = np.asarray(data.count) / np.asarray(data.count).sum()
    mean, error = (np.asarray(data.examples) * weight[:, None]).sum(0), sums.std(0, ddof=1) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(0) - mean) < 5 * error).all()
    assert (np.abs(0.8 * sums.mean(0) - mean) > 5 * error).any()  # without 1 / (1 - dropout)


test_bad_arguments = refuses(
    lambda change: common_secagg(towards_target(), **{"num_clients": N, "num_params": D, "alpha": 0.5, **change}),
    ({"alpha": 0.0}, "alpha must be a number in (0, 1], got 0.0"),
    ({"alpha": 1.5}, "alpha must be a number in (0, 1], got 1.5"),
    ({"num_params": 0}, "num_params must be an integer >= 1, got 0"),
    (
        {"num_clients": 1},
        "num_clients must be an integer >= 2, got 1: a secure sum of one client is its update, which systems.fedavg "
        "sends in the clear",
    ),
    ({"dropout": 1.0}, "dropout must be a number in [0, 1), got 1.0"),
    ({"secure_sum": plain_field(), "elide": True}, "elide must not be given with secure_sum, got True"),
    (
        {"secure_sum": plain_field(), "leave": 0.1},
        "leave must be 0 with a secure_sum in the clear, such as layers.plain_field(), got 0.1: nobody is asked for "
        "shares",
    ),
    whole=True,
)


def test_a_share_that_is_traced_is_refused():
    run = lambda alpha: common_secagg(towards_target(), num_clients=N, num_params=D, alpha=alpha).block
    with pytest.raises(ValueError, match="^alpha must be known when the program is compiled"):
        jax.jit(run)(0.5)


def test_there_is_at_least_one_coordinate():
    system = common_secagg(towards_target(), num_clients=N, num_params=D, alpha=1e-6, mesh=None)
    data = targets(N, D)
    _, info = jax.eval_shape(system.step, KEY, jax.eval_shape(system.init, KEY, jnp.zeros(D), data), data)
    assert info.direction.shape == (D,)
