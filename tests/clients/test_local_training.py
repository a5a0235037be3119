import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv import losses, models
from fedjax_priv.base import ClientData, Stated
from fedjax_priv.clients import fedsgd, local_sgd, local_training
from helpers import cohort_of, refuses

N, M, B, FEATURES, CLASSES = 4, 8, 3, 5, 3
CLIENT = np.array([7, 2, 9, 4])
COUNT = np.array([8, 5, 0, 2])
KEY = jax.random.key(3)
MODEL = models.softmax_regression((FEATURES,), CLASSES)
LOSS = losses.softmax_cross_entropy(MODEL)


def cohort(client):
    return cohort_of(len(client))._replace(client=jnp.asarray(client, jnp.int32))


def classification():
    """Gaussian samples whose padding is NaN, and parameters that are not zero."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, M, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, (N, M)).astype(np.int32)
    x[np.arange(M)[None, :] >= COUNT[:, None]] = np.nan
    params = jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape), jnp.float32), MODEL.init(KEY))
    return ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.asarray(COUNT, jnp.int32)), params


DATA, PARAMS = classification()


def numpy_gradient(w, bias, x, y):
    """Mean cross entropy of softmax regression and its gradient by hand, float64; losses `[k]`."""
    logits = x @ w + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    error = (p - np.eye(CLASSES)[y]) / len(y)
    return -np.log(p[np.arange(len(y)), y]), x.T @ error, error.sum(0)


def numpy_order(client, epoch, count):
    """The shuffle as documented: rows by 32 random bits of the client's and the epoch's key."""
    key = jax.random.fold_in(jax.random.fold_in(KEY, int(client)), epoch)
    return np.argsort(np.asarray(jax.random.bits(key, (M,), jnp.uint32))[:count], kind="stable")


def numpy_sgd(params, x, y, client, rule, velocity=None):
    """Plain loops over one client's batches: update, velocity (flat: bias, kernel) and mean loss."""
    rate, momentum, epochs, steps, proximal = rule
    w, bias = np.asarray(params["Dense_0"]["kernel"], float), np.asarray(params["Dense_0"]["bias"], float)
    start = np.concatenate([bias, w.ravel()])
    velocity = np.zeros(start.size) if velocity is None else np.asarray(velocity, float)
    length, seen = -(-len(y) // B), []
    for t in range(steps or epochs * length):
        rows = numpy_order(client, t // length, len(y))[t % length * B : (t % length + 1) * B]
        loss, by_w, by_bias = numpy_gradient(w, bias, x[rows].astype(float), y[rows])
        seen.extend(loss)
        pull = proximal * (np.concatenate([bias, w.ravel()]) - start)  # FedProx, eq. 2
        velocity = momentum * velocity + np.concatenate([by_bias, by_w.ravel()]) + pull
        bias, w = bias - rate * velocity[:CLASSES], w - rate * velocity[CLASSES:].reshape(w.shape)
    return start - np.concatenate([bias, w.ravel()]), velocity, np.mean(seen)


RULES = {  # learning rate, momentum, epochs, steps, proximal
    "epochs": (0.3, 0.0, 2, None, 0.0),
    "epochs with momentum": (0.3, 0.9, 2, None, 0.0),
    "steps with momentum, FedProx": (0.2, 0.5, None, 5, 0.7),
}


@pytest.mark.parametrize("name", RULES)
def test_training_is_that_of_plain_loops_for_uneven_clients_with_nan_in_the_padding(name):
    rule = RULES[name]
    rate, momentum, epochs, steps, proximal = rule
    carry = momentum > 0
    local = local_sgd(
        LOSS, learning_rate=rate, batch_size=B, num_epochs=epochs, num_steps=steps, momentum=momentum,
        carry_momentum=carry, proximal=proximal,
    )  # fmt: skip
    apply, memory = jax.jit(local.apply), local.init(N, PARAMS)
    update, memory, loss = apply(KEY, memory, PARAMS, DATA, cohort(CLIENT))
    second, _, _ = apply(KEY, memory, PARAMS, DATA, cohort(CLIENT))
    assert update.dtype == jnp.float32
    for i, count in enumerate(COUNT):
        if not count:
            assert not np.any(update[i])
            assert loss[i] == 0
            continue
        x, y = (np.asarray(leaf[i, :count]) for leaf in DATA.examples)
        want, velocity, mean = numpy_sgd(PARAMS, x, y, CLIENT[i], rule)
        np.testing.assert_allclose(update[i], want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(loss[i], mean, rtol=1e-5)
        carried = numpy_sgd(PARAMS, x, y, CLIENT[i], rule, velocity if carry else None)[0]
        np.testing.assert_allclose(second[i], carried, rtol=1e-4, atol=1e-5)


def test_momentum_restarts_unless_it_is_carried():
    local = local_sgd(LOSS, learning_rate=0.1, batch_size=B, num_steps=2, momentum=0.9)
    assert local.init(N, PARAMS) == ()
    assert jax.eval_shape(local.apply, KEY, (), PARAMS, DATA, cohort(CLIENT))[1] == ()


def linear(params, examples):
    """A loss whose gradient is the sample itself."""
    return examples @ params


def one_hot_update(count, *, client=(0,), **options):
    """The weight of each sample in the update: sample j is the j-th unit vector, and the learning rate is 1."""
    count = jnp.atleast_1d(jnp.asarray(count, jnp.int32))
    examples = jnp.broadcast_to(jnp.eye(6), (count.size, 6, 6))
    local = local_sgd(linear, learning_rate=1.0, **options)
    return np.asarray(jax.jit(local.apply)(KEY, (), jnp.zeros(6), ClientData(examples, count), cohort(client))[0])


@pytest.mark.parametrize("epochs", [1, 3])
def test_each_valid_sample_is_used_once_an_epoch(epochs):
    update = one_hot_update([6, 4, 2], client=(0, 1, 2), batch_size=2, num_epochs=epochs)
    want = np.zeros((3, 6))
    for row, count in enumerate((6, 4, 2)):
        want[row, :count] = epochs / 2
    np.testing.assert_array_equal(update, want)


def test_a_partial_batch_is_the_mean_of_what_it_has():
    (update,) = one_hot_update(5, batch_size=2, num_epochs=1)
    assert sorted(update) == [0, 0.5, 0.5, 0.5, 0.5, 1]


def test_steps_run_on_through_reshuffled_epochs():
    (update,) = one_hot_update(4, batch_size=2, num_steps=5)
    assert sorted(update) == [0, 0, 1, 1, 1.5, 1.5]


def test_an_update_depends_neither_on_the_block_nor_on_the_order_of_clients():
    local = local_sgd(LOSS, learning_rate=0.3, batch_size=B, num_epochs=2)
    apply = jax.jit(local.apply)

    def run(rows):
        rows = np.asarray(rows)
        return np.asarray(apply(KEY, (), PARAMS, jax.tree.map(lambda a: a[rows], DATA), cohort(CLIENT[rows]))[0])

    whole = run([0, 1, 2, 3])
    assert np.abs(whole[[0, 1, 3]]).max(1).min() > 0.1
    for block in ([0], [3], [1, 2], [3, 0]):
        np.testing.assert_allclose(run(block), whole[block], rtol=1e-5, atol=1e-6)


def test_batches_are_the_same_bits_in_any_block_and_another_client_has_others():
    options = {"batch_size": 2, "num_steps": 2}  # two thirds of the samples: which, is the shuffle's choice
    clients = np.arange(8)
    whole = one_hot_update([6] * 8, client=clients, **options)
    for block in ([5], [2, 3], [7, 1, 4]):
        np.testing.assert_array_equal(one_hot_update([6] * len(block), client=clients[block], **options), whole[block])
    assert len({tuple(row) for row in whole}) > 3


def test_a_sweep_of_learning_rates_and_momenta_is_a_vmap():

    def update(rate, momentum):
        local = local_sgd(LOSS, learning_rate=rate, batch_size=B, num_steps=3, momentum=momentum)
        return local.apply(KEY, (), PARAMS, DATA, cohort(CLIENT))[0]

    rates, momenta = jnp.array([0.1, 0.3, 0.3]), jnp.array([0.0, 0.0, 0.9])
    swept, alone = jax.jit(jax.vmap(update))(rates, momenta), jax.jit(update)
    for i, (rate, momentum) in enumerate(((0.1, 0.0), (0.3, 0.0), (0.3, 0.9))):
        np.testing.assert_allclose(swept[i], alone(rate, momentum), rtol=1e-5, atol=1e-6)


def test_one_trace_for_many_rounds():
    local, traces = local_sgd(LOSS, learning_rate=0.1, batch_size=B, num_epochs=1), []

    @jax.jit
    def apply(key, data, who):
        traces.append(key)
        return local.apply(key, (), PARAMS, data, who)

    for t in range(3):
        apply(jax.random.key(t), DATA._replace(count=jnp.full(N, t + 1, jnp.int32)), cohort(CLIENT + t))
    assert len(traces) == 1


def test_fedsgd_is_the_gradient_of_the_mean_loss_of_all_valid_samples():
    update, memory, loss = jax.jit(fedsgd(LOSS).apply)(KEY, (), PARAMS, DATA, cohort(CLIENT))
    w, bias = (np.asarray(PARAMS["Dense_0"][name], float) for name in ("kernel", "bias"))
    assert memory == ()
    for i, count in enumerate(COUNT):
        x, y = (np.asarray(leaf[i, :count]) for leaf in DATA.examples)
        if not count:
            assert not np.any(update[i])
            assert loss[i] == 0
            continue
        losses_, by_w, by_bias = numpy_gradient(w, bias, x.astype(float), y)
        np.testing.assert_allclose(update[i], np.concatenate([by_bias, by_w.ravel()]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(loss[i], losses_.mean(), rtol=1e-5)


def test_a_batch_larger_than_the_data_is_an_error():
    local = local_sgd(LOSS, learning_rate=0.1, batch_size=9, num_steps=1)
    with pytest.raises(ValueError, match="batch_size must be at most 8, the samples a client has room for, got 9"):
        jax.eval_shape(local.apply, KEY, (), PARAMS, DATA, cohort(CLIENT))


@pytest.mark.parametrize("steps", [2**28, 2**40])
@pytest.mark.parametrize("name", ["num_epochs", "num_steps"])
def test_more_steps_than_int32_counts_are_refused(name, steps):
    local = local_sgd(LOSS, learning_rate=0.1, batch_size=8, **{name: steps})
    said = f"^{name} must give a client fewer than 2[*][*]31 samples a round, got {steps} steps of batch_size = 8"
    with pytest.raises(ValueError, match=said):
        jax.eval_shape(local.apply, KEY, (), PARAMS, DATA, cohort(CLIENT))


test_bad_arguments_are_errors_that_name_them = refuses(
    lambda options: local_sgd(LOSS, **({"learning_rate": 0.1, "batch_size": 2, "num_steps": 1} | options)),
    ({"learning_rate": float("nan")}, "learning_rate must be a finite number > 0, got nan"),
    ({"learning_rate": 0.0}, "learning_rate must be"),
    ({"learning_rate": float("inf")}, "learning_rate must be"),
    ({"learning_rate": np.array([0.1, 0.2])}, r"learning_rate must be a number > 0, or a schedule .*, got array\("),
    ({"learning_rate": lambda: 0.1}, r"learning_rate must be a function of \(rounds\), got one of \(\)"),
    ({"momentum": 1.0}, r"momentum must be a number in \[0, 1\), got 1.0"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
    ({"num_steps": 0}, "num_steps must be an integer >= 1, got 0"),
    ({"num_steps": None, "num_epochs": -1}, "num_epochs must be an integer >= 1, got -1"),
    ({"num_epochs": 1}, "exactly one of num_epochs and num_steps must be given, got 1 and 1"),
    ({"num_steps": None}, "exactly one of num_epochs and num_steps"),
)


def test_a_schedule_of_another_shape_is_an_error():
    local = local_sgd(LOSS, learning_rate=lambda rounds: jnp.ones(3), batch_size=B, num_steps=1)
    with pytest.raises(ValueError, match=r"^learning_rate must return one number, shape \(\), got \(3,\)"):
        jax.eval_shape(local.apply, KEY, local.init(len(CLIENT), PARAMS), PARAMS, DATA, cohort(CLIENT))


@pytest.mark.parametrize("shape", [lambda each: each.mean(), lambda each: each[:, None]])
@pytest.mark.parametrize("make", [lambda loss: local_sgd(loss, learning_rate=0.1, batch_size=B, num_steps=1), fedsgd])
def test_a_loss_must_be_one_value_an_example(make, shape):
    local = make(lambda params, examples: shape(LOSS(params, examples)))
    with pytest.raises(ValueError, match="loss must return one value per example, shape"):
        jax.eval_shape(local.apply, KEY, (), PARAMS, DATA, cohort(CLIENT))


@pytest.mark.parametrize("dtype", [jnp.int32, bool])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_loss_without_gradients_is_refused(dtype, clip):
    """They would be 0, and nothing would be trained."""
    loss = lambda params, examples: LOSS(params, examples).astype(dtype)
    local = local_sgd(loss, learning_rate=0.1, batch_size=B, num_steps=1, sample_clip=clip)
    with pytest.raises(ValueError, match=f"loss must return floating-point numbers.*got {jnp.dtype(dtype)}"):
        jax.eval_shape(local.apply, KEY, (), PARAMS, DATA, cohort(CLIENT))


@pytest.mark.parametrize("how", [{"learning_rate": -0.1}, {"momentum": 1.0}, {"proximal": -0.1}])
def test_traced_settings_out_of_range_give_nan(how):
    how = {"learning_rate": 0.1, "momentum": 0.5} | how

    def update(settings):
        return local_sgd(LOSS, batch_size=B, num_steps=2, **settings).apply(KEY, (), PARAMS, DATA, cohort(CLIENT))[0]

    assert jnp.isnan(jax.jit(update)(how)[COUNT > 0]).all()


@pytest.mark.parametrize("zero", [np.float32(0), np.int64(0), jnp.float32(0)], ids=("float32", "int64", "JAX"))
def test_zero_of_any_kind_is_zero(zero):
    settings = dict(momentum=zero, proximal=zero, gradient_noise=zero, carry_momentum=True)
    local = inspect.unwrap(local_sgd)(LOSS, learning_rate=0.1, batch_size=B, num_steps=1, **settings)
    plain = local_sgd(LOSS, learning_rate=0.1, batch_size=B, num_steps=1)
    assert isinstance(local.apply, Stated) and isinstance(plain.apply, Stated)
    assert local.apply.steps == plain.apply.steps and local.apply.updates is not None
    assert jax.tree.leaves(local.init(N, PARAMS)) == []


def drop_at(rate, last):
    return lambda rounds: jnp.where(rounds < 1, rate, last)


@pytest.mark.parametrize("carry_momentum", [False, True])
def test_a_schedule_is_the_step_size_of_each_round_a_client_trained_in(carry_momentum):
    """Equal to constant step sizes, round by round; a client that missed the first round is one round behind."""
    made = lambda rate: local_sgd(
        LOSS, learning_rate=rate, batch_size=B, num_steps=2, momentum=0.5, carry_momentum=carry_momentum
    )
    scheduled, first, second = made(drop_at(0.3, 0.03)), made(0.3), made(0.03)
    start = scheduled.init(N, PARAMS)
    assert start.rounds.dtype == jnp.int32 and start.rounds.shape == (N,)
    apply = jax.jit(scheduled.apply)
    update, memory, _ = apply(KEY, start, PARAMS, DATA, cohort(CLIENT))
    want, velocity, _ = jax.jit(first.apply)(KEY, first.init(N, PARAMS), PARAMS, DATA, cohort(CLIENT))
    np.testing.assert_array_equal(update, want)
    missed = memory._replace(rounds=memory.rounds.at[1].set(0))
    update, memory, _ = apply(KEY, missed, PARAMS, DATA, cohort(CLIENT))
    late = jax.jit(second.apply)(KEY, velocity, PARAMS, DATA, cohort(CLIENT))[0]
    early = jax.jit(first.apply)(KEY, velocity, PARAMS, DATA, cohort(CLIENT))[0]
    np.testing.assert_array_equal(update, np.where(np.arange(N)[:, None] == 1, early, late))
    np.testing.assert_array_equal(memory.rounds, [2, 1, 2, 2])
    assert not np.array_equal(early[1], late[1])


def test_the_schedules_of_optax_will_do_and_one_below_zero_is_nan():
    schedule = optax.piecewise_constant_schedule(0.3, {1: 0.1})
    local = local_sgd(LOSS, learning_rate=schedule, batch_size=B, num_steps=2)
    memory = local.init(N, PARAMS)._replace(rounds=jnp.array([0, 1, 0, 2], jnp.int32))
    apply = lambda local, memory: jax.jit(local.apply)(KEY, memory, PARAMS, DATA, cohort(CLIENT))[0]
    got = apply(local, memory)
    for rate, rows in ((0.3, [0, 2]), (0.03, [1, 3])):
        constant = local_sgd(LOSS, learning_rate=rate, batch_size=B, num_steps=2)
        want = apply(constant, constant.init(N, PARAMS))
        np.testing.assert_allclose(got[jnp.array(rows)], want[jnp.array(rows)], rtol=1e-5, atol=1e-7)
    negative = local_sgd(LOSS, learning_rate=drop_at(0.3, -1.0), batch_size=B, num_steps=2)
    wrong = apply(negative, memory)
    assert np.isfinite(wrong[0]).all() and np.isnan(wrong[1]).all()


@pytest.mark.parametrize("rounds", [[0, 15], [0, 15, 30], [0, 15, 30, 45, 60]])
def test_schedules_that_interpolate_between_points_are_those_of_each_client(rounds):
    """Whatever the number of clients at once; given all their rounds, optax would mix clients, or fail."""
    schedule = optax.linear_onecycle_schedule(100, 1.0)
    with jax.numpy_dtype_promotion("standard"):  # inside optax
        rates = local_training._rate(schedule)(jnp.array(rounds, jnp.int32))
        np.testing.assert_allclose(rates, [schedule(jnp.float32(r)) for r in rounds], rtol=1e-6)
    assert len(np.unique(rates)) == len(rounds)


def test_proximal_steps_shrink_towards_the_minimum_of_the_sum():
    """Of `h/2 ||w - c||^2 + mu/2 ||w - w_0||^2`: s steps go `1 - (1 - eta (h + mu))^s` of the way there."""
    h, mu, rate, steps, c, w_0 = 3.0, 1.5, 0.05, 7, np.array([4.0, -2.0]), np.array([1.0, 1.0])
    data = ClientData(jnp.asarray(np.tile(c, (1, B, 1)), jnp.float32), jnp.array([B]))
    loss = lambda params, x: 0.5 * h * jnp.square(params[None] - x).sum(1)
    local = local_sgd(loss, learning_rate=rate, batch_size=B, num_steps=steps, proximal=mu)
    start = jnp.asarray(w_0, jnp.float32)
    update = jax.jit(local.apply)(KEY, (), start, data, cohort(np.array([0])))[0]
    way = 1 - (1 - rate * (h + mu)) ** steps
    np.testing.assert_allclose(
        w_0 - np.asarray(update[0]), w_0 + way * ((h * c + mu * w_0) / (h + mu) - w_0), rtol=1e-5
    )
