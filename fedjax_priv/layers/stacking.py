"""Layers one below the other. A stack is a layer."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import (
    ONE_DEVICE,
    Bits,
    Cohort,
    Combine,
    Key,
    Layer,
    Link,
    Lists,
    Placement,
    Received,
    RowsOptional,
    Scaled,
    Sent,
    absent,
)
from fedjax_priv.engine.calls import calling
from fedjax_priv.engine.returned_by_parts import check_received
from fedjax_priv.keys import each_named


def stateless(
    encode: Callable[..., PyTree] = lambda key, x, cohort: x,
    decode: Callable[[Received], Received] = lambda received: received,
    *,
    sent: Callable[..., Sent] = lambda x, y: Sent(),
    combine: Combine | None = None,
    whole: bool = False,
    scale: Callable[..., tuple[Scaled, Sent]] | None = None,
) -> Layer:
    """A layer without state, keys or headers: `encode(key, x, cohort) -> y`, `decode(Received) -> Received`.

    `sent(x, y)` says what `y` costs on the wire and how encoding `x` went. `scale(Scaled, cohort) -> (Scaled, Sent)`
    is `encode` and `sent` of a layer that multiplies each update by a number which depends on its norm alone.

    Raises:
      ValueError: `encode` or `decode` is no function of these arguments.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> halve = stateless(lambda key, x, cohort: x / 2, lambda received: received._replace(value=received.value * 2))
      >>> print(halve.encode(jax.random.key(0), (), (), jnp.array([[4.0]]), cohort_of(1))[0])
      [[2.]]
    """
    _validate.takes("key, x, cohort", encode=encode)
    _validate.takes("received", decode=decode)

    def encode_and_tell(key: Key, private: PyTree, public: PyTree, x: PyTree, cohort: Cohort) -> tuple:
        del private, public
        y = encode(key, x, cohort)
        return y, (), sent(x, y)

    def scale_and_tell(key: Key, private: PyTree, public: PyTree, x: Scaled, cohort: Cohort) -> tuple:
        del key, private, public
        assert scale is not None
        y, told = scale(x, cohort)
        return y, (), told

    return Layer(
        init=lambda key, n: (),
        advertise=lambda key, state, cohort: ((), (), {}),
        encode=RowsOptional(encode_and_tell, scale_and_tell) if scale else encode_and_tell,
        disclose=_discloses_nothing,
        decode=lambda header, public, received: decode(received),
        combine=combine,
        whole=whole,
    )


def _discloses_nothing(private: PyTree, public: PyTree, clear: PyTree, alive: Array, online: Array) -> tuple:
    del private, public, clear, alive, online
    return (), {}


def asks_nobody(layer: Layer) -> bool:
    """Whether no client is asked for anything once uploads are in, as of `stateless` layers and stacks of them."""
    stacked = getattr(layer.disclose, "__self__", None)
    if isinstance(stacked, _Stack):
        return all(map(asks_nobody, stacked.layers.values()))
    return layer.disclose is _discloses_nothing


_ARGUMENTS = {
    "init": "key, n",
    "advertise": "key, state, cohort",
    "encode": "key, private, public, x, cohort",
    "disclose": "private, public, clear, alive, online",
    "decode": "header, public, received",
}


def add_bits(*bits: Bits) -> Bits:
    """Bits of several layers, phase by phase."""
    total: dict[str, Link] = {}
    for one in bits:
        for phase, link in one.items():
            before = total.get(phase)
            total[phase] = link if before is None else Link(before.up + link.up, before.down + link.down)
    return total


def _both(valid: PyTree, other: PyTree) -> PyTree:
    """Uploads that two layers accept; (): a layer that asks for no proof."""
    if absent(valid) or absent(other):
        return other if absent(valid) else valid
    return valid & other


def _of_places_in_use(name: str, sent: Sent, unused: Any) -> Any:
    """Bits of a layer's message without the places that a layer above left unused."""
    if absent(unused) or _is_free(sent):
        return sent.bits
    if absent(sent.each):
        raise ValueError(
            f"{name} must send the same number of bits for every value, and say it in Sent.each, since a layer above "
            "leaves values out"
        )
    return sent.bits - jnp.uint32(sent.each) * unused


def _both_cost(each: Any, sent: Sent) -> Any:
    """Bits of a place in two layers' messages; (): one of them cannot say."""
    if _is_free(sent):
        return each
    return () if absent(each) or absent(sent.each) else each + sent.each


def _is_free(sent: Sent) -> bool:
    """Whether a layer adds no message to the upload."""
    return isinstance(sent.bits, int) and sent.bits == 0


def _opened(name: str, made: Any) -> tuple:
    _validate.returned(3, "private, public, bits", **{f"{name}.advertise": made})
    if not isinstance(made[2], Mapping):
        raise ValueError(f"{name}.advertise must return bits as a dict of Link by phase, got {_validate.made(made[2])}")
    return made


def _encoded(name: str, made: Any, cohort: Cohort) -> tuple:
    _validate.returned(3, "y [b, ...], state, Sent", **{name: made})
    y, _, sent = made
    if not isinstance(sent, Sent):
        raise ValueError(f"{name} must return a Sent as its third value, got {_validate.made(sent)}")
    b, by_client = cohort.client.shape[0], (y.norm, y.factor) if isinstance(y, Scaled) else y
    if wrong := [jnp.shape(rows) for rows in jax.tree.leaves(by_client) if jnp.shape(rows)[:1] != (b,)]:
        raise ValueError(f"{name} must return a row for each of the {b} clients of a block, got shape {wrong[0]}")
    return made


def stack(**layers: Layer) -> Layer:
    """Clients encode from the first layer to the last, the server decodes from the last to the first.

    The names are those of the layers' keys and state: adding a layer moves no draw of the others.

    Raises:
      ValueError: one is not a layer, or a half of it takes other arguments; the last one does not say how uploads
        combine, or another one does; or, when a round is traced, a half returns something else than `base.Layer` says,
        or two layers measure something under the same name.

    Examples:
      >>> masks = pairwise_masks(group_size=10)
      >>> send = stack(clip=clip(1.0), mean=weighted_mean(), quantize=quantize(2**20, 10), masks=masks)
    """
    innermost, several = _checked(layers), _Stack(layers)
    encode = several.encode
    if all(layer.scale for layer in layers.values()):
        encode = RowsOptional(encode, several.scale)
    return Layer(
        several.init, several.advertise, encode, several.disclose, several.decode, innermost.combine,
        whole=any(layer.whole for layer in layers.values()),
        caveats=tuple(caveat for layer in layers.values() for caveat in layer.caveats),
        needs_count=any(layer.needs_count for layer in layers.values()),
        antennas=next((layer.antennas for layer in layers.values() if layer.antennas), None),
        needs_placement=True,
        needs_last=any(layer.needs_last for layer in layers.values()),
        sums=innermost.sums,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class _Stack:
    """The halves of several layers, by name."""

    layers: dict[str, Layer]

    def init(self, key: Key, n: int) -> PyTree:
        keys = each_named(key, self.layers)
        return {name: layer.init(keys[name], n) for name, layer in self.layers.items()}

    def advertise(
        self, key: Key, state: PyTree, cohort: Cohort, placement: Placement = ONE_DEVICE, last: PyTree = ()
    ) -> tuple[PyTree, PyTree, Bits]:
        keys = each_named(key, self.layers)

        def one(name: str, layer: Layer) -> tuple:
            known = {"last": last} if layer.needs_last else {}
            with calling(f"{name}.advertise", state=state[name]):
                return _opened(name, layer.placed(placement).advertise(keys[name], state[name], cohort, **known))

        opened = {name: one(name, layer) for name, layer in self.layers.items()}
        private, public, bits = ({name: one[i] for name, one in opened.items()} for i in range(3))
        return private, public, add_bits(*bits.values())

    def encode(self, key: Key, private: PyTree, public: PyTree, x: PyTree, cohort: Cohort) -> tuple:
        return self._down("encode", key, private, public, x, cohort)

    def scale(self, key: Key, private: PyTree, public: PyTree, x: Scaled, cohort: Cohort) -> tuple:
        return self._down("scale", key, private, public, x, cohort)

    def _down(
        self, half: str, key: Key, private: PyTree, public: PyTree, x: PyTree, cohort: Cohort
    ) -> tuple[PyTree, PyTree, Sent]:
        keys, state = each_named(key, self.layers), {}
        bits, status = jnp.zeros(cohort.client.shape, jnp.uint32), jnp.zeros(cohort.client.shape, jnp.int32)
        told = Sent(bits, status, status, {}, {}, valid=(), unused=(), each=0)
        for name, layer in self.layers.items():
            with calling(f"{name}.{half}", x=x):
                made = getattr(layer, half)(keys[name], private[name], public[name], x, cohort)
            x, state[name], sent = _encoded(f"{name}.{half}", made, cohort)
            told = _with(told, name, sent)
        return x, state, told

    def disclose(
        self,
        private: PyTree,
        public: PyTree,
        clear: PyTree,
        alive: Array,
        online: Array,
        placement: Placement = ONE_DEVICE,
        lists: Lists | None = None,
    ) -> tuple[PyTree, Bits]:

        def one(name: str, layer: Layer) -> tuple:
            own = private[name], public[name], clear[name]
            with calling(f"{name}.disclose", private=own[0], public=own[1], clear=own[2]):
                listed = {"lists": lists} if layer.sums.by_list and lists is not None else {}
                return layer.placed(placement).disclose(*own, alive, online, **listed)

        closed = {name: one(name, layer) for name, layer in self.layers.items()}
        return {name: one[0] for name, one in closed.items()}, add_bits(*(one[1] for one in closed.values()))

    def decode(self, header: PyTree, public: PyTree, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        for name in reversed(self.layers):
            with calling(f"{name}.decode", value=received.value):
                made = self.layers[name].placed(placement).decode(header[name], public[name], received)
            received = check_received(f"{name}.decode", made)
        return received


def _checked(layers: dict[str, Any]) -> Layer:
    """The last of layers that can be one below the other."""
    if not layers:
        raise ValueError("layers must hold at least one layer")
    for name, layer in layers.items():
        if inspect.isfunction(layer) and _may_attack(layer):
            made = "an attack becomes one by attacks.on_updates"
            raise ValueError(f"{name} must be a Layer: {made}, got {layer.__name__}")
    _validate.part(Layer, "layers.clip(1.0)", **layers)
    for name, layer in layers.items():
        for half, arguments in _ARGUMENTS.items():
            _validate.takes(arguments, **{f"{name}.{half}": getattr(layer, half)})
    *upper, last = layers.values()
    if last.combine is None or any(layer.combine for layer in upper):
        raise ValueError("layers must end in one that says how uploads combine (combine=...), and no other may")
    return last


def _may_attack(function: Callable) -> bool:
    """Whether it takes what an attack takes; functions that make layers have defaults, or names only."""
    takes = inspect.signature(function).parameters.values()
    return len(takes) == 4 and all(one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty for one in takes)


def _with(told: Sent, name: str, sent: Sent) -> Sent:
    """What the layers above say of an upload, and what the next one adds."""
    if twice := sorted(told.measured.keys() & dict(sent.measured).keys()):
        raise ValueError(f"each layer must measure under different names, got {twice} twice")
    return Sent(
        told.bits + _of_places_in_use(name, sent, told.unused),
        told.status | sent.status,
        told.refused | sent.refused,
        {**told.clear, name: sent.clear},
        {**told.measured, **dict(sent.measured)},
        _both(told.valid, sent.valid),
        told.unused if absent(sent.unused) else sent.unused,
        _both_cost(told.each, sent),
    )
