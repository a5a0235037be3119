"""Algorithm 1 against NumPy, and its parts in place."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from systems.same_parts import alike, parts_of

from fedjax_priv import losses, models
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd, sample, scheduled
from fedjax_priv.layers import plain_field
from fedjax_priv.status import Status
from fedjax_priv.systems import cdp_fl, dp_sgd
from helpers import refuses, targets, towards_target

KEY = jax.random.key(15)
N, R, M, FEATURES, CLASSES = 5, 3, 6, 4, 3
RATE, CLIP = 0.7, 0.4
RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(N, M, FEATURES)), RNG.integers(0, CLASSES, (N, M))
DATA = ClientData((jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.int32)), jnp.full(N, M, jnp.int32))
MODEL = models.softmax_regression((FEATURES,), CLASSES)
SCHEDULE = np.array([[0, 2, 3], [1, 2, 4]])
CLEAR = plain_field()


def local(**how):
    usual = dict(learning_rate=RATE, batch_size=M, num_steps=2, sample_clip=CLIP)
    return local_sgd(losses.softmax_cross_entropy(MODEL), **{**usual, **how})


def system(training, **how):
    usual = dict(num_clients=N, cohort_size=R, cohort=scheduled(SCHEDULE), levels=2.0**22, block=2, mesh=None)
    return cdp_fl(training, **{**usual, **how})


@functools.cache
def one():
    """`(clip, sigma) -> (params, infos)` of so many rounds, added in the clear."""

    def run(clip, sigma):
        algorithm = system(local(sample_clip=clip, gradient_noise=sigma), secure_sum=CLEAR)

        def body(state, _):
            state, info = algorithm.step(KEY, state, DATA)
            return state, (state.params, info)

        return jax.lax.scan(body, algorithm.init(KEY, MODEL.init(KEY), DATA), length=400)[1]

    return jax.jit(run)


def by_numpy(rounds):
    """Batches of all samples, so that no shuffle matters."""
    params = jax.tree.map(lambda p: np.asarray(p, np.float64), MODEL.init(KEY))["Dense_0"]
    kernel, bias = params["kernel"], params["bias"]
    for t in range(rounds):
        moved = [np.zeros_like(kernel), np.zeros_like(bias)]
        for i in SCHEDULE[t % 2]:
            w, b = kernel, bias
            for _ in range(2):
                scores = X[i] @ w + b
                chance = np.exp(scores - scores.max(1, keepdims=True))
                error = chance / chance.sum(1, keepdims=True) - np.eye(CLASSES)[Y[i]]
                norm = np.linalg.norm(error, axis=1) * np.sqrt(1 + (X[i] ** 2).sum(1))
                error = error * np.minimum(1, CLIP / norm)[:, None]
                w, b = w - RATE * X[i].T @ error / M, b - RATE * error.sum(0) / M
            moved = [moved[0] + (kernel - w) / R, moved[1] + (bias - b) / R]
        kernel, bias = kernel - moved[0], bias - moved[1]
    return kernel, bias


def test_rounds_without_noise_are_those_of_the_algorithm():
    params, info = one()(CLIP, 0.0)
    kernel, bias = by_numpy(3)
    assert (info.status == 0).all()
    assert info.client[:3].tolist() == SCHEDULE[[0, 1, 0]].tolist()
    np.testing.assert_allclose(params["Dense_0"]["kernel"][2], kernel, atol=2e-6)
    np.testing.assert_allclose(params["Dense_0"]["bias"][2], bias, atol=2e-6)


def test_noise_of_a_round_is_that_of_r_devices_and_tau_steps():
    """With next to nothing of the gradients left the mean of r models has variance tau (eta sigma)^2 / r."""
    sigma = 0.5
    noise = np.asarray(one()(1e-7, sigma)[1].direction, np.float64)
    assert abs(noise.var() * R / (2 * (RATE * sigma) ** 2) - 1) < 5 * np.sqrt(2 / noise.size)


@functools.cache
def elided():
    """`(examples, lost, levels) -> statuses` of twenty rounds."""

    def run(examples, lost, levels):
        algorithm = cdp_fl(
            towards_target(), num_clients=N, dropout=lost, leave=lost, levels=levels, elide=True, mesh=None
        )
        data = ClientData(examples, jnp.ones(N, jnp.int32))
        state = algorithm.init(KEY, jnp.zeros(4), data)
        return jax.lax.scan(lambda state, _: algorithm.step(KEY, state, data), state, length=20)[1].status

    return jax.jit(run)


def test_a_survivor_that_leaves_fails_the_round():
    assert 0 < (elided()(targets(N, 4).examples, 0.3, 2.0**20) != 0).sum() < 20


def test_a_sum_that_could_wrap_is_refused():
    """Of N uploads of a share of the field each."""
    status = elided()(np.full((N, 4), 2.0**31 / N, np.float32), 0.0, 1.0)
    assert status[0] == Status.FIELD_OVERFLOW


def test_dp_sgd_is_one_step_of_it():
    """The same parts, and so the same program; training is said to be of so many devices."""
    once = local(num_steps=1, gradient_noise=0.1)
    how = dict(num_clients=N, cohort_size=R, cohort=scheduled(SCHEDULE), levels=2.0**22, block=2, mesh=None)
    theirs, ours, other = map(parts_of, (dp_sgd(once, **how), cdp_fl(once, **how), cdp_fl(once, **how | {"block": 1})))
    rest = lambda parts: (parts._replace(local=None), parts.local._replace(apply=None))
    assert alike(rest(theirs), rest(ours)) and not alike(rest(theirs), rest(other))
    assert theirs.local.apply.function is ours.local.apply
    assert theirs.local.steps == ours.local.steps._replace(num_devices=N)


def started(algorithm):
    return jax.eval_shape(lambda: algorithm.step(KEY, algorithm.init(KEY, MODEL.init(KEY), DATA), DATA))


INCREASE = "members must be a table of integers >= 0 that increase along its rows, got"


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: scheduled(np.array([0, 1])), INCREASE),
    (lambda: scheduled(np.array([[1, 1]])), INCREASE),
    (lambda: scheduled(np.array([[2, 1, 0]], np.uint32)), INCREASE),
    (lambda: scheduled(np.zeros((2, 0), int)), INCREASE),
    (lambda: system(local(), secure_sum=plain_field(), elide=True), "^elide must not be given with secure_sum, got"),
    (lambda: system(local(), secure_sum=CLEAR, threshold=2), "^threshold must not be given with secure_sum, got 2$"),
    (
        lambda: system(local(), secure_sum=CLEAR, leave=0.1),
        r"^leave must be 0 with a secure_sum in the clear, such as layers.plain_field\(\), got 0.1: nobody",
    ),
    (
        lambda: started(system(local(), cohort=scheduled(np.array([[3, 5]])))),
        "members must be below the number of clients, 5",
    ),
    (
        lambda: system(local(), cohort=sample(R, num_byzantine=np.arange(N) == 2)),
        "^cohort must have no Byzantine clients, got 1: figures count the noise of all who send$",
    ),
    (
        lambda: dp_sgd(local(num_steps=1), num_clients=1),
        "^num_clients must be an integer >= 2, got 1: a secure sum of one client is",
    ),
    (
        lambda: system(local(), num_clients=3, cohort_size=1),
        "^cohort_size must be an integer >= 2, got 1: a secure sum",
    ),
    (lambda: dp_sgd(local(), num_clients=N), "local must take one step a round, num_steps=1, got num_steps=2"),
    (lambda: started(system(local(), cohort_size=2)), "group_size must be at least the size of the cohort, 3, got 2"),
)
