"""What users' functions return in a round: other arrays than promised are named; who takes no part is not counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import aggregators, base, channels, clients, layers
from helpers import engine, refuses, targets, towards_target

N, D = 7, 3
KEY, PARAMS, DATA = jax.random.key(0), jnp.zeros(D), targets(N, D)


def traced(**parts):
    """Traces a round in which some parts are a user's own, in blocks of at most three of seven clients."""
    system = engine(**parts)
    jax.eval_shape(lambda key: system.step(key, system.init(key, PARAMS, DATA), DATA), KEY)


def trains(*, memory=lambda update: update, rows=N):
    def apply(key, old, params, data, who):
        update = params[None, :] - data.examples
        return update[:rows], memory(update), update.mean(1)

    return {"local": base.Local(lambda n, params: jnp.zeros((n, D)), apply)}


def encodes(state, shape=(D,)):
    def encode(key, private, public, x, cohort):
        return x, state(x), base.Sent()

    own = layers.stateless()._replace(
        init=lambda key, n: jnp.zeros((n, *shape)), advertise=lambda key, state, cohort: (state, (), {}), encode=encode
    )
    return {"layers": layers.stack(mine=own, send=layers.plain())}


def sends(transmit=lambda key, y, cohort: (y, cohort.selected), receive=lambda key, received: received, **halves):
    return {"channel": base.Channel(transmit, receive, **halves)}


def deep(x):
    return jnp.stack([x, x], 2)


def mark(x):
    return base.Kept(counted=x, lost=jnp.zeros_like(x))


@pytest.mark.parametrize("parts", [trains(), encodes(lambda x: x), encodes(mark), encodes(deep, (D, 2)), sends()])
def test_what_fits_is_taken(parts):
    traced(**parts)


GIVEN = r"(?m)of the arrays it was given, float32\[3, 3\], got"
MADE = r"(?m)^mine.encode must return a state of the arrays of its init, for 3 clients float32\[3, 3\], got"

test_other_arrays_are_named = refuses(
    lambda parts: traced(**parts),
    (
        trains(rows=2),
        r"(?m)^local.apply must return updates \[b, d\] with b = 3, got an array of shape \(2, 3\)$",
    ),
    (trains(memory=lambda u: u[:, :1]), rf"{GIVEN} float32\[3, 1\]$"),
    (trains(memory=lambda u: u[:1]), rf"{GIVEN} float32\[1, 3\]$"),
    (trains(memory=lambda u: u.astype(jnp.int32)), rf"{GIVEN} int32\[3, 3\]$"),
    (trains(memory=lambda u: (u, u)), rf"{GIVEN} \('float32"),
    (encodes(lambda x: x[:, :1]), rf"{MADE} float32\[3, 1\]$"),
    (encodes(lambda x: x[:, :2]), rf"{MADE} float32\[3, 2\]$"),
    (encodes(lambda x: deep(x)[..., :1], (D, 2)), r"for 3 clients float32\[3, 3, 2\], got float32\[3, 3, 1\]"),
    (encodes(lambda x: x[0]), rf"{MADE} float32\[3\]$"),
    (encodes(lambda x: x.astype(jnp.int32)), rf"{MADE} int32\[3, 3\]$"),
    (encodes(lambda x: mark(x[:, :1])), rf"{MADE} float32\[3, 1\]$"),
    (encodes(lambda x: mark(x)._replace(lost=x[:1])), rf"{MADE} float32\[1, 3\]$"),
    (encodes(lambda x: mark(x)._replace(unsound=x[:, 0])), rf"{MADE} float32\[3\]$"),
    (sends(lambda key, y, cohort: y), r"^channel.transmit must return \(y \[b, ...\], alive \[b\]\), got an array of"),
    (sends(lambda key, y, cohort: (y[:1], cohort.selected)), r"^channel.transmit must return a row for each of the 3 "),
    (
        sends(lambda key, y, cohort: (y, cohort.selected.astype(jnp.float32))),
        r"(?m)^channel.transmit must return alive as bool\[3\], got float32\[3\]$",
    ),
    (sends(lambda key, y, cohort: (y, jnp.ones(1, bool))), r"(?m)alive as bool\[3\], got bool\[1\]$"),
    (sends(lambda key, y, cohort: (y, True)), r"(?m)alive as bool\[3\], got bool$"),
    (
        sends(receive=lambda key, received: received.value),
        r"^channel.receive must return a Received, such as .*, got an",
    ),
    (
        sends(respond=lambda key, alive, cohort: alive.sum()),
        r"(?m)^channel.respond must return online as bool\[7\], got int32\[\]$",
    ),
)


def test_a_state_of_layers_that_are_no_stack_is_named_too():
    bare = layers.plain()._replace(init=lambda key, n: jnp.zeros(n))
    with pytest.raises(ValueError, match=r"(?m)^layers.encode must return a state .* float32\[3\], got \(\)$"):
        traced(layers=bare)


def broken(x, *rest):
    raise TypeError("wrong")


@pytest.mark.parametrize("half", ["transmit", "receive", "respond"])
def test_an_error_inside_a_channel_says_where(half):
    with pytest.raises(TypeError, match="wrong") as caught:
        traced(**sends(**{half: lambda key, a, *cohort: broken(a)}))
    assert any(note.startswith(f"in channel.{half}, called with ") for note in caught.value.__notes__)


@pytest.mark.parametrize("local", [towards_target(), trains()["local"]])
def test_who_takes_no_part_is_not_counted_whatever_the_channel_says(local):
    everyone_alive = sends(
        lambda key, y, cohort: (y, jnp.ones(cohort.client.shape, bool)),
        respond=lambda key, alive, cohort: ~alive | alive,
    )
    parts = dict(
        cohort=clients.bernoulli(0.5), local=local, layers=layers.stack(mean=layers.average(), send=layers.plain())
    )
    outcomes = []
    for channel in (everyone_alive["channel"], channels.erasure(0.0)):
        system = engine(channel=channel, **parts)
        state, info = jax.jit(system.step)(KEY, system.init(KEY, PARAMS, DATA), DATA)
        outcomes.append((state.params, state.memory, info.counted, info.direction, info.bits))
    assert 0 < int(outcomes[1][2].sum()) < N
    jax.tree.map(np.testing.assert_array_equal, *outcomes)


def test_only_whose_upload_arrived_may_answer():
    tells = layers.stateless()._replace(disclose=lambda private, public, clear, alive, online: ((alive, online), {}))
    everyone = sends(respond=lambda key, alive, cohort: jnp.ones_like(alive))["channel"]
    lossy = everyone._replace(transmit=channels.erasure(0.5).transmit)
    stack = layers.stack(mine=tells, send=layers.plain())
    system = engine(channel=lossy, layers=stack, observe=lambda view: view.header["mine"])
    _, info = jax.jit(system.step)(KEY, system.init(KEY, PARAMS, DATA), DATA)
    alive, online = info.observed
    np.testing.assert_array_equal(online, alive)
    assert 0 < int(alive.sum()) < N


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_updates_of_another_type_become_float32(dtype):
    """In fixed point float16 would overflow: it was 6.7e7 for 0.1. Norms of float16 rows are an error in JAX."""
    local, wide = towards_target(), []

    def apply(key, memory, params, data, cohort):
        update, *more = local.apply(key, memory, params, data, cohort)
        return update.astype(dtype), *more

    narrow = base.Local(local.init, apply)
    for trains_in in (local, narrow):
        groups = dict(
            cohort=clients.everyone(2),
            layers=layers.stack(clip=layers.clip(9.0), mean=layers.average(), send=layers.plain(2)),
        )
        system = engine(local=trains_in, aggregate=aggregators.coordinate_median(), **groups)
        wide.append(jax.jit(system.step)(KEY, system.init(KEY, PARAMS, DATA), DATA)[1].direction)
    np.testing.assert_allclose(wide[1], wide[0], rtol=0.02, atol=0.02)
    assert abs(np.asarray(wide[0])).max() > 0.1
