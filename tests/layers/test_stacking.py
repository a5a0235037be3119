import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Link, Received, SecureSum, Sent
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers import float_sum, pairwise_masks, plain, plain_field, quantize, stack, stateless
from fedjax_priv.layers.stacking import add_bits, asks_nobody
from helpers import cohort_of, run_layer, same_bits, survivors

N, D = 5, 4
KEY = jax.random.key(0)
X = jnp.asarray(np.random.default_rng(0).normal(size=(N, D)), jnp.float32)


def affine(factor, shift, bits=0):
    """Its inverse on a sum of N terms undoes it; order matters."""
    return stateless(
        lambda key, x, who: factor * x + shift,
        lambda r: r._replace(value=(r.value - N * shift) / factor),
        sent=lambda x, y: Sent(bits),
    )


def noise():
    return stateless(lambda key, x, who: x + per_client(lambda k: jax.random.normal(k, (D,)), key, who.client))


def test_clients_encode_down_and_the_server_decodes_up():
    layer = stack(a=affine(2.0, 1.0), b=affine(3.0, 5.0), send=plain())
    result = run_layer(layer, KEY, X, cohort_of(N), survivors(N))
    np.testing.assert_allclose(result["upload"], 3 * (2 * X + 1) + 5, rtol=1e-6)
    np.testing.assert_allclose(result["received"].value[0], X.sum(0), rtol=1e-5, atol=1e-5)


def test_adding_a_layer_moves_no_draw():
    send = lambda **layers: run_layer(stack(**layers), KEY, X, cohort_of(N), survivors(N))["upload"]
    alone = send(noise=noise(), send=plain())
    assert same_bits(alone, send(first=affine(1.0, 0.0), noise=noise(), send=plain()))
    assert not same_bits(alone, send(other=noise(), send=plain()))


def test_a_client_draws_the_same_in_any_cohort():
    draw = lambda client: per_client(lambda k: jax.random.normal(k, (3,)), named(KEY, "x"), jnp.array(client))
    assert same_bits(draw([4, 1, 7])[1], draw([1])[0])
    assert not same_bits(draw([4, 1, 7])[0], draw([1])[0])


def test_a_stack_is_a_layer():
    inner = stack(b=affine(3.0, 5.0), send=plain()._replace(sums=SecureSum(3)))
    result = run_layer(outer := stack(a=affine(2.0, 1.0), rest=inner), KEY, X, cohort_of(N), survivors(N))
    assert outer.sums.threshold == 3
    np.testing.assert_allclose(result["received"].value[0], X.sum(0), rtol=1e-5, atol=1e-5)


def test_bits_and_status_of_layers_add_up():
    flag = stateless(sent=lambda x, y: Sent(7, status=jnp.arange(N, dtype=jnp.int32)))
    again = stateless(sent=lambda x, y: Sent(0, status=jnp.full(N, 8, jnp.int32)))
    sent = run_layer(stack(a=flag, b=again, send=plain()), KEY, X, cohort_of(N), survivors(N))["sent"]
    assert sent.bits.tolist() == [7 + 32 * D] * N
    assert sent.status.tolist() == [8, 9, 10, 11, 12]


def test_add_bits_joins_phases():
    one = {"share": Link(jnp.array([1]), jnp.array([2])), "open": Link(jnp.array([3]), jnp.array([4]))}
    total = add_bits(one, {"share": Link(jnp.array([10]), jnp.array([20]))})
    assert jax.tree.map(lambda a: a.item(), total) == {"share": Link(11, 22), "open": Link(3, 4)}


@pytest.mark.parametrize("layers", [{}, {"a": affine(1.0, 0.0)}, {"send": plain(), "a": plain()}])
def test_the_last_layer_and_no_other_combines(layers):
    with pytest.raises(ValueError, match="layers must"):
        stack(**layers)


def test_whole_is_inherited():
    look_around = stateless(lambda key, x, who: x - x.mean(0, keepdims=True), whole=True)
    assert stack(a=look_around, send=plain()).whole
    assert not stack(a=noise(), send=stateless(combine=float_sum())).whole


def test_each_layer_has_keys_of_its_own_and_learns_who_is_alive_and_who_is_online():
    """What a layer is given at each call, told back as it came."""
    tell = stateless()._replace(
        init=lambda key, n: jax.random.bits(key, (n,), jnp.uint32),
        advertise=lambda key, state, cohort: (jax.random.bits(key, (N,), jnp.uint32), state, {}),
        disclose=lambda private, public, clear, alive, online: ((private, public, clear, alive, online), {}),
    )
    layer = stack(a=tell, b=tell._replace(encode=lambda *_: (X, (), Sent(clear=X))), send=plain())
    online = survivors(N, [1, 2])
    header = run_layer(layer, KEY, X, cohort_of(N), survivors(N, [1]), online)["header"]
    for i in (0, 1):
        assert not (header["a"][i] == header["b"][i]).any()
    assert same_bits(header["b"][2:], (X, survivors(N, [1]), online))


@pytest.mark.parametrize(
    ("half", "made", "message"),
    [
        ("encode", lambda x: x, r"return \(y \[b, ...\], state, Sent\), got an array of shape \(2, 3\)"),
        ("encode", lambda x: (x, ()), r"return \(y \[b, ...\], state, Sent\), got 2 values"),
        ("encode", lambda x: (x, (), {}), "return a Sent as its third value, got dict"),
        ("encode", lambda x: (x.sum(0), (), Sent()), r"return a row for each of the 2 clients .*, got shape \(3,\)"),
        ("advertise", lambda x: ((), ()), r"return \(private, public, bits\), got 2 values"),
        ("advertise", lambda x: ((), (), 32), "return bits as a dict of Link by phase, got int"),
        ("decode", lambda x: x, r"return a Received, .*, got an array of shape \(2, 3\)"),
    ],
)
def test_a_half_that_returns_something_else_is_named(half, made, message):
    whole = stack(it=stateless()._replace(**{half: _of_many(half, made(jnp.zeros((2, 3))))}), send=plain())
    with pytest.raises(ValueError, match=rf"^it\.{half} must {message}$"):
        _all_halves(whole, jnp.zeros((2, 3)))


def _all_halves(whole, x):
    key, who, nothing = jax.random.key(0), cohort_of(2), {"it": (), "send": ()}
    whole.advertise(key, nothing, who)
    whole.encode(key, nothing, nothing, x, who)
    whole.decode(nothing, nothing, Received(x, jnp.ones(2, jnp.int32)))


def _of_many(half, made):
    functions = {
        "advertise": lambda key, state, cohort: made,
        "encode": lambda key, private, public, x, cohort: made,
        "decode": lambda header, public, received: made,
    }
    return functions[half]


def test_who_is_asked_once_uploads_are_in():
    """Masks are opened by clients, whatever is stacked on them; nobody opens what is in the clear."""
    grid, masks = quantize(16.0, max_terms=3), pairwise_masks(group_size=3)
    assert not asks_nobody(masks) and not asks_nobody(stack(grid=grid, rest=stack(mask=masks)))
    assert asks_nobody(plain_field()) and asks_nobody(stack(grid=grid, rest=stack(send=plain_field())))
