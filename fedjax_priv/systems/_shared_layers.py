"""Layers that several systems have, by their arguments: attacks, sums and checks of sums."""

from typing import Any

from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.attacks import AnyAttack, FieldAttack, on_field_elements, on_group_means, on_updates
from fedjax_priv.attacks.attack_layers import check_attack
from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.layers import (
    check_range,
    largest_element,
    pairwise_masks,
    plain,
    plain_field,
    quantize,
    stack,
)
from fedjax_priv.layers.noise_skellam import largest_skellam
from fedjax_priv.layers.quantization import largest_summand
from fedjax_priv.layers.range_check import must_be_useful
from fedjax_priv.layers.sparsification import check_width
from fedjax_priv.layers.stacking import asks_nobody
from fedjax_priv.layers.weighting import UPDATE, WEIGHT, on_columns
from fedjax_priv.systems._arguments import MASKS, but_elide, nobody_asked, not_together
from fedjax_priv.systems._attackers import BOTH_ATTACKS

NEEDS_CLIP = "clip must be given with check_range: without it an honest sum may be anything"


def attacked(attack: AnyAttack | None) -> dict[str, Layer]:
    """The layer of an attack on updates, by name; none without one."""
    return {} if attack is None else {"attack": on_updates(attack)}


def attacked_groups(
    attack: AnyAttack | None, instead: AnyAttack | None, number: int, buffer_size: int, levels: float | Array
) -> dict[str, Layer]:
    """The layer of an attack on updates, or of one on the means of buffers instead, above the quantizer.

    Raises:
      ValueError: both are given.
    """
    if instead is None:
        return attacked(attack)
    if attack is not None:
        raise ValueError(BOTH_ATTACKS)
    check_attack(group_attack=instead)
    return {"attack": on_group_means(instead, number, largest=largest_summand(levels, buffer_size))}


def attacked_elements(attack: FieldAttack | None) -> dict[str, Layer]:
    """The layer of an attack on field elements, by name; none without one."""
    if attack is None:
        return {}
    _validate.function(5, "attacks.random_elements()", field_attack=attack)
    return {"field_attack": on_field_elements(attack)}


def ranged(
    check: bool,
    clip: float | Array | None,
    noise_variance: float | Array | None,
    levels: float | Array,
    max_terms: int,
    *,
    weighted: bool = False,
) -> dict[str, Layer]:
    """The layer with which a server leaves out sums that clipped updates cannot have, by name; none without `check`.

    Args:
      check: whether it does.
      clip: largest norm of what a client adds to the sum, in its units.
      noise_variance: of each client's Skellam noise, in its units; None: no noise.
      levels: grid points of the quantizer per unit.
      max_terms: most uploads in a sum.
      weighted: uploads carry their weight, at most 1, in the last coordinate, which is not clipped.

    Raises:
      ValueError: no clip is given, an argument is out of range or traced, or so many clients can have any sum.
    """
    _validate.one_of((True, False), check_range=check)
    if not check:
        return {}
    if clip is None:
        raise ValueError(NEEDS_CLIP)
    _validate.known(clip=clip, levels=levels)
    _validate.positive(clip=clip)
    _validate.positive(levels=levels)
    noise = 0 if noise_variance is None else largest_skellam(float(levels) ** 2 * float(noise_variance))
    largest = largest_element(float(levels), float(clip), noise)
    must_be_useful(
        largest, max_terms, "levels must be such that clip is at most {most} grid points with check_range",
        f"{levels:g} with clip = {clip:g}: {largest} points",
    )  # fmt: skip
    within = check_range(largest, max_terms)
    if not weighted:
        return {"range": within}
    heaviest = largest_element(float(levels), 1.0)
    must_be_useful(
        heaviest, max_terms, "levels must be below {most} with check_range and weights in the sum", f"{levels:g}"
    )
    of_weights = check_range(heaviest, max_terms)
    return {"range": on_columns(within, UPDATE), "weight_range": on_columns(of_weights, WEIGHT)}


def unmasked(layer: Layer, masks: dict[str, Any], instead: str) -> Layer:
    """A layer in place of masks.

    Raises:
      ValueError: there are options of masks that are not their defaults, `elide` aside, which changes no sum;
        `instead` is the argument that makes them meaningless.
    """
    not_together(MASKS.given(but_elide(masks)), instead)
    return layer


def adding(modulus: Modulus, secure_sum: Layer, masks: dict[str, Any], leave: float | Array) -> Layer:
    """The layer that a caller gives in place of masks, if it adds uploads as the layers above it expect.

    Raises:
      ValueError: there are options of masks, or `leave` where nobody is asked for shares; or `secure_sum` is no layer,
        adds modulo something else or only some coordinates: sums would be wrong without any sign of it.
    """
    not_together(masks, "secure_sum")
    example = "layers.plain_field()" if modulus is FIELD else f"layers.plain_ring({modulus.bits})"
    _validate.part(Layer, example, secure_sum=secure_sum)
    found = None if secure_sum.combine is None else secure_sum.combine.modulus
    if found != modulus.size:
        needed = f"q = {modulus.size}" if modulus is FIELD else f"2**bits = {modulus.size}"
        got = "one that adds no integers" if found is None else f"one that adds modulo {found}"
        raise ValueError(f"secure_sum must add modulo {needed}, such as {example}, got {got}")
    if secure_sum.sums.selects:
        raise ValueError(f"secure_sum must add all coordinates, such as {example}, got one of which clients send some")
    if asks_nobody(secure_sum):
        nobody_asked(leave, f"a secure_sum in the clear, such as {example}")
    return secure_sum


def of_model(num_params: int, layer: Layer) -> Layer:
    """The layer, which refuses updates of another number of coordinates than `num_params` when a round is traced."""

    def encode(key: Key, private: PyTree, public: PyTree, x: Array, cohort: Cohort) -> tuple[PyTree, PyTree, Sent]:
        check_width(x, num_params)
        return layer.encode(key, private, public, x, cohort)

    return layer._replace(encode=encode)


def one_sum(most: int, levels: float | Array, masks: dict[str, Any], *, secure: bool, exact: bool = True) -> Layer:
    """One sum of at most `most` updates: under masks and rounded to a grid, or of floats in the clear.

    Raises:
      ValueError: options of masks without `secure`, or an argument outside its range, also one that is not used.
    """
    _validate.one_of((True, False), exact=exact)
    _validate.positive(levels=levels)
    if secure:
        return stack(quantize=quantize(levels, max_terms=most), mask=pairwise_masks(group_size=most, **masks))
    return stack(send=unmasked(plain(exact=exact), masks, "secure=False"))


def buffer_sum(number: int, buffer_size: int, masks: dict[str, Any], *, in_the_clear: bool) -> Layer:
    """The exact sum of each buffer, masked among its members with the options `masks`.

    Raises:
      ValueError: options of masks with `in_the_clear`.
    """
    if in_the_clear:
        return unmasked(plain_field(number), masks, "in_the_clear")
    return pairwise_masks(number, group_size=buffer_size, **masks)
