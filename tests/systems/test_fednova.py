"""FedNova: rounds in float64 loops, what FedAvg does instead, and the minimum that small steps go to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import ClientData, Local
from fedjax_priv.clients import bounded, bounded_and_counted, fedsgd, local_sgd, normalized
from fedjax_priv.clients.normalized_updates import effective_steps
from fedjax_priv.systems import fedavg, fednova

KEY, BATCH, EPOCHS, RATE = jax.random.key(3), 4, 2, 0.05
COUNT = np.array([3, 20, 0, 7, 12])
CENTRES = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
DATA = ClientData(np.repeat(CENTRES[:, None], 20, 1), COUNT.astype(np.int32))
START = np.full(6, 0.5, np.float32)
CURVES = np.array([1.0, 0.2, 1.0, 3.0, 0.5, 2.0])


def loss(params, x):
    """All samples of a client are one point, so its batches are alike."""
    return 0.5 * (jnp.square(params[None] - x) @ CURVES.astype(np.float32))


def trained(momentum=0.0, rate=RATE, **how):
    return local_sgd(loss, learning_rate=rate, batch_size=BATCH, num_epochs=EPOCHS, momentum=momentum, **how)


def numpy_round(w, momentum, counted):
    """Every client's gradients one by one, each with how often it counts: equations 4, 5 and 8 of the paper."""
    pulls, lengths, weights = [], [], []
    for centre, count in zip(CENTRES[counted].astype(float), COUNT[counted], strict=True):
        steps = EPOCHS * -(-count // BATCH)
        at, velocity, gradients = w.copy(), np.zeros_like(w), []
        for _ in range(steps):
            gradients.append(CURVES * (at - centre))
            velocity = momentum * velocity + gradients[-1]
            at -= RATE * velocity
        a = np.array([sum(momentum**k for k in range(steps - s)) for s in range(steps)])
        pull = a @ np.array(gradients).reshape(steps, w.size)
        np.testing.assert_allclose(w - at, RATE * pull, atol=1e-12)
        pulls.append(pull / max(a.sum(), 1))
        lengths.append(a.sum())
        weights.append(count)
    p = np.array(weights) / sum(weights)
    return w - (p @ lengths) * RATE * (p @ np.array(pulls))


def rounds_of(system, number):
    state, step = system.init(KEY, jnp.asarray(START), DATA), jax.jit(system.step)
    for _ in range(number):
        state, info = step(KEY, state, DATA)
        assert info.status == 0
    return np.asarray(state.params), info


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rounds_are_those_of_loops_in_float64(momentum):
    found, _ = rounds_of(fednova(trained(momentum), mesh=None), 2)
    every = np.arange(5)
    want = numpy_round(numpy_round(START.astype(float), momentum, every), momentum, every)
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-6)
    plain, _ = rounds_of(fedavg(trained(momentum), mesh=None), 2)
    assert abs(plain - want).max() > 0.01, "the control: it is not FedAvg"


def test_weights_and_steps_are_those_of_the_clients_that_arrive():
    found, info = rounds_of(fednova(trained(0.9), dropout=0.4, cohort_size=4, mesh=None), 1)
    arrived = np.asarray(info.client)[np.asarray(info.counted)]
    assert 1 < len(arrived) < 4
    np.testing.assert_allclose(found, numpy_round(START.astype(float), 0.9, arrived), rtol=2e-5, atol=1e-6)


def test_equal_numbers_of_steps_are_fedavg():
    local = local_sgd(loss, learning_rate=RATE, batch_size=BATCH, num_steps=3, momentum=0.5)
    found, plain = (rounds_of(system(local, mesh=None), 2)[0] for system in (fednova, fedavg))
    np.testing.assert_allclose(found, plain, rtol=1e-5)
    one = [rounds_of(system(fedsgd(loss), mesh=None), 1)[0] for system in (fednova, fedavg)]
    np.testing.assert_allclose(*one, rtol=1e-6)


def test_small_steps_go_to_the_minimum_of_all_samples():
    """The weighted mean of the centres; FedAvg goes to the mean that weighs a client by its steps, too."""
    share, steps = COUNT / COUNT.sum(), -(-COUNT // BATCH)
    minimum, pulled = share @ CENTRES, (share * steps) @ CENTRES / (share @ steps)
    small = trained(rate=0.002)
    jumps = lambda system: np.asarray(jax.jit(lambda: walked(system(small, mesh=None)))())
    assert abs(jumps(fednova) - minimum).max() < 0.02 < 0.1 < abs(pulled - minimum).max()
    assert abs(jumps(fedavg) - pulled).max() < 0.02


def walked(system):
    step = lambda state, _: (system.step(KEY, state, DATA)[0], None)
    return jax.lax.scan(step, system.init(KEY, jnp.asarray(START), DATA), length=3000)[0].params


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99, 0.999, 0.9999, 1 - 2.0**-24])
def test_how_far_steps_go_with_momentum(momentum):
    """As the sum in float64, with the momentum that float32 has; traced or not."""
    taken = np.array([0, 1, 2, 5, 7, 50, 99, 100, 101, 600, 20_000])
    once = np.cumsum(np.float64(np.float32(momentum)) ** np.arange(20_000))  # sum_{k < s} rho^k
    want = np.append(0, np.cumsum(once))[taken]
    for apply in (effective_steps, jax.jit(effective_steps)):
        np.testing.assert_allclose(apply(jnp.asarray(taken, jnp.float32), momentum), want, rtol=2e-6)


@pytest.mark.parametrize(
    ("local", "said"),
    [
        (trained(0.9, carry_momentum=True), "local must have a constant learning_rate, proximal 0 and carry_momentum"),
        (trained(rate=lambda rounds: 0.1 / (1 + rounds)), "local must have a constant learning_rate"),
        (trained(proximal=0.1), "local must have a constant learning_rate"),
        (bounded(trained(), clip=1.0), r"local must be .* whose updates are sums of gradients, got .* bounded\("),
        (bounded_and_counted(trained(), bit=0.5), "local must be .* whose updates are sums of gradients, got"),
        (Local(lambda n, params: (), lambda *rest: rest), "local must be clients.local_sgd.*, got another$"),
    ],
)
def test_training_that_cannot_be_divided_is_refused(local, said):
    with pytest.raises(ValueError, match=said):
        normalized(local)
