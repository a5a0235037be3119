"""`check_system` finds what it is for: each law has a system that breaks it, and the message names the law."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import channels
from fedjax_priv.base import Link, Local
from fedjax_priv.clients import poisson, sample
from fedjax_priv.status import Status
from fedjax_priv.testing import check_system
from helpers import engine, mesh_of, remembering, targets

N, D = 4, 3
KEY = jax.random.key(7)


def system(step=lambda state, info: (state, info), init=lambda state: state, mesh=None):
    """A system of which rounds, or the first state, are changed."""
    made = engine(local=remembering(), mesh=mesh)
    return made._replace(init=lambda *args: init(made.init(*args)), step=lambda *args: step(*made.step(*args)))


def first_only(up):
    """The bits of the first upload that arrived alone."""
    return jnp.where(jnp.arange(up.size) == jnp.argmax(up > 0), up, 0)


def told(**lies):
    """A system that selects some clients and loses some uploads, whose rounds tell something else."""
    made = engine(cohort=poisson(0.5), local=remembering(), channel=channels.erasure(0.2))

    def step(*args):
        state, info = made.step(*args)
        return state, info._replace(**{name: lie(getattr(info, name)) for name, lie in lies.items()})

    return made._replace(step=step)


def with_replacement():
    """A system that draws two clients, and after the first round one of them twice."""
    draw = sample(2)

    def apply(key, state, round, count):
        who, state = draw.apply(key, state, round, count)
        return who._replace(client=jnp.where(round > 0, who.client[:1], who.client)), state

    return engine(cohort=draw._replace(apply=apply), local=remembering())


def when_it_succeeds(change):
    """A system whose rounds return `change(before, after, info, data)` if they succeed."""
    made = engine(cohort=poisson(0.5), local=remembering())

    def step(key, before, data):
        after, info = made.step(key, before, data)
        state, told = change(before, after, info, data)
        return jax.tree.map(lambda new, old: jnp.where(info.status == 0, new, old), (state, told), (after, info))

    return made._replace(step=step)


def undone(before, after):
    """What a round that fails leaves."""
    return before._replace(round=after.round, draw=after.draw)


def failed(info, status):
    return info._replace(status=jnp.int32(status), counted=info.counted & False, direction=0 * info.direction)


BROKEN = [
    (lambda before, after, info, data: (undone(before, after), failed(info, Status.NOT_FINITE)),
     "law 8 .*: a round of sound data must not fail but for the uploads that arrive, got: a value that is not finite"),
    (lambda before, after, info, data: (undone(before, after), failed(info, Status.NOT_RECOVERED)),
     "law 8 .*: of the first 3 rounds one must succeed"),
    (lambda before, after, info, data: (after, failed(info, Status.NOT_RECOVERED)),
     "law 8 .*: a round that failed must change nothing"),
    (lambda before, after, info, data: (undone(before, after), info._replace(status=jnp.int32(1))),
     "law 8 .*: a round that failed must accept no"),
    (lambda before, after, info, data: (after, info._replace(group_status=info.group_status | 8)),
     "law 8 .*: no upload of a group that is left out"),
    (lambda before, after, info, data: (after._replace(params=after.params + data.examples.mean(0)), info),
     "law 16 .*: what a client that is not selected holds must reach nobody"),
    (lambda before, after, info, data: (after, info._replace(loss=jnp.where(data.examples.sum(1) > 1e9, 1, info.loss))),
     "law 16 .*: what a client that is not selected holds must reach nobody"),
    (lambda before, after, info, data: (after, info._replace(loss=info.loss / 0)), "law 15 .*must be finite"),
    (lambda before, after, info, data: (after, info._replace(direction=info.direction / 0)), "law 15 .*must be finite"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_what_a_round_that_succeeds_breaks_is_named(change, message):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check_system(when_it_succeeds(change), KEY, jnp.zeros(D), targets(N, D))


def test_a_state_that_becomes_nan_is_named():
    def apply(key, memory, params, data, who):
        return data.examples, memory / 0, 1 + memory

    part = engine(local=Local(lambda n, params: jnp.zeros(n), apply))
    with pytest.raises(AssertionError, match=r"^law 15 .*: the state must be finite"):
        check_system(part, KEY, jnp.zeros(D), targets(N, D), rounds=1)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (system(lambda state, info: (state._replace(memory=jnp.float32(state.memory)), info)), "law 3 .state keeps"),
        (system(lambda state, info: (state._replace(round=state.round - 1), info)), "law 8 .a round is a transaction"),
        (system(lambda state, info: (state._replace(memory=state.memory + 1), info)), "law 8 .a round is a"),
        (system(lambda state, info: (state, info._replace(status=info.status * 0))), "law 8 .*must set the bit"),
        (system(lambda state, info: (state, info._replace(counted=info.counted | True))), "law 8 .*accept no"),
        (system(lambda state, info: (state, info._replace(loss=info.loss[1:]))), "law 15 .shapes"),
        (system(lambda state, info: (state, info._replace(bits={"upload": Link(*[info.loss] * 2)}))), "law 15"),
        (told(direction=lambda a: 0 * a), "law 15 .*: `direction` must be what moves the parameters"),
        (told(client=lambda a: a + 99), "law 15 .*: `client`, and the next state of the draw"),
        (told(loss=lambda a: 0 * a + 7), "law 15 .*: `loss` must be 0 of a client that does not train"),
        (with_replacement(), "law 15 .*: a client must be selected once in a round"),
        (told(trains=lambda a: a | True), "law 15 .*: `trains` must be False of a client that is not selected"),
        (told(counted=lambda a: a | True), "law 16 .*: only uploads of selected clients"),
        (told(bits=lambda links: jax.tree.map(lambda a: a | 1, links)), "law 16 .*: a client that is not selected"),
        (told(bits=lambda links: jax.tree.map(lambda a: 0 * a, links)), "law 6 .*: each selected client must be sent"),
        (told(bits=lambda links: links | {"upload": links["upload"]._replace(up=first_only(links["upload"].up))}),
         "law 6 .bits reported are bits built.: an upload that is accepted must have bits"),
        (system(init=jax.device_get, mesh=mesh_of(2)), "law (4 .one trace|13 .one compilation)"),
    ],
)  # fmt: skip
def test_what_a_system_breaks_is_named(part, message):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check_system(part, KEY, jnp.zeros(D), targets(N, D), rounds=2)


def test_a_system_that_keeps_the_laws_in_other_places_and_one_that_does_not():
    data = targets(N, D)
    check_system(system(), KEY, jnp.zeros(D), data, rounds=2, elsewhere=[system(mesh=mesh_of(2))])
    check_system(told(), KEY, jnp.zeros(D), data, rounds=2)
    other = system(lambda state, info: (state, info._replace(loss=info.loss + 1e-6)))
    with pytest.raises(AssertionError, match=r"^law 11 .blocks and devices change no bit"):
        check_system(system(), KEY, jnp.zeros(D), data, rounds=2, elsewhere=[other])
