"""Arguments that several systems take: checks, and arguments that a system hands on."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Array, PyTree
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.attacks import AnyAttack, FieldAttack, on_field_elements, on_group_means, on_updates
from fedjax_priv.attacks.attack_layers import check_attack
from fedjax_priv.attacks.byzantine_clients import check_mask, how_many
from fedjax_priv.base import Aggregator, Cohort, Draw, Key, Layer, Sent
from fedjax_priv.clients import everyone, sample
from fedjax_priv.crypto import field
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.engine.round import federated_round
from fedjax_priv.engine.whole_parts import part_of
from fedjax_priv.layers import (
    check_range,
    largest_element,
    pairwise_masks,
    plain,
    plain_field,
    quantize,
    stack,
)
from fedjax_priv.layers.mask import secagg_protocol
from fedjax_priv.layers.noise_skellam import largest_skellam
from fedjax_priv.layers.quantization import largest_summand
from fedjax_priv.layers.range_check import must_be_useful
from fedjax_priv.layers.sparsification import check_width
from fedjax_priv.layers.stacking import asks_nobody
from fedjax_priv.layers.weighting import UPDATE, WEIGHT, on_columns
from fedjax_priv.systems._attackers import BOTH_ATTACKS


class HandsOn(NamedTuple):
    """Keyword arguments that a system does not list: it takes them as `**how` and hands them to another function.

    In the annotation of `**how` it tells the command line where their options are.
    """

    function: Callable
    names: tuple[str, ...]

    def split(self, how: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split arguments into those for this function and the rest."""
        return {n: how[n] for n in how if n in self.names}, {n: how[n] for n in how if n not in self.names}

    def given(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of this function that are not its defaults; a command line gives them all."""
        parameters = inspect.signature(self.function).parameters
        same = lambda name, value: _validate.is_same(value, parameters[name].default)
        return {name: value for name, value in options.items() if not same(name, value)}


ROUND = HandsOn(federated_round, ("server", "block", "mesh", "observe", "lying_server"))
MASKS = HandsOn(
    secagg_protocol, ("neighbours", "threshold", "elide", "consistency", "bind_model", "key_agreement", "prg")
)
Run = Annotated[Any, ROUND]
Masked = Annotated[Any, MASKS, ROUND]
_MANY = 10
"""Times as many rows are tried, when a rule has too few."""
UNPROTECTED = "the mean, in Python aggregators.mean()._replace(most_byzantine=None)"
NEEDS_CLIP = "clip must be given with check_range: without it an honest sum may be anything"


def clients_in_round(num_clients: int, cohort_size: int | None) -> int:
    """Clients in a round: everyone, or the cohort."""
    size = num_clients if cohort_size is None else cohort_size
    _validate.integer(num_clients=num_clients)
    _validate.integer(cohort_size=size)
    if size > num_clients:
        raise ValueError(f"cohort_size must be at most num_clients = {num_clients}, got {size}")
    return size


def everyone_or(cohort_size: int | None) -> Draw:
    """Draws everyone, or cohorts of so many."""
    return everyone() if cohort_size is None else sample(cohort_size)


def secure_cohort(num_clients: int, cohort_size: int | None) -> int:
    """Clients in a round of a secure sum, at least two.

    Raises:
      ValueError: there is one, or `cohort_size` is no number of the clients.
    """
    size = clients_in_round(num_clients, cohort_size)
    if size == 1:
        name = "num_clients" if num_clients == 1 else "cohort_size"
        raise ValueError(
            f"{name} must be an integer >= 2, got 1: a secure sum of one client is its update, which systems.fedavg "
            "sends in the clear"
        )
    return size


def loss_rate(dropout: float | Array) -> float | Array:
    """A probability in [0, 1); a traced one outside is NaN."""
    return _validate.fraction(below_one=True, dropout=dropout)


def population_of(
    num_byzantine: int, byzantine: ArrayLike | None, num_clients: int, *, everybody: bool
) -> int | np.ndarray:
    """Which clients are Byzantine: the first `num_byzantine`, or those in a mask of the population.

    Raises:
      ValueError: no mask `[num_clients]`, or one of more than `num_byzantine` where everybody takes part.
    """
    if byzantine is None:
        return num_byzantine
    mask = np.asarray(byzantine)
    check_mask(num_clients, byzantine=mask)
    if everybody and (number := how_many(mask)) > num_byzantine:
        raise ValueError(f"num_byzantine must be at least {number}, those in byzantine, got {num_byzantine}")
    return mask


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


def buffers(
    num_clients: int, buffer_size: int, num_byzantine: int, aggregate: Aggregator, *, in_the_clear: bool
) -> int:
    """The number of buffers of `buffer_size` clients; checks that the rule tolerates those that can be corrupted.

    Raises:
      ValueError: a size that does not divide another, single updates under secure aggregation, a majority of Byzantine
        clients where the rule trusts nobody, or more corrupted buffers, min(f, buffers), than the rule tolerates.
    """
    _validate.one_of((True, False), in_the_clear=in_the_clear)
    _validate.integer(num_clients=num_clients, buffer_size=buffer_size)
    _validate.divides({"buffer_size": buffer_size}, num_clients=num_clients)
    if buffer_size == 1 and not in_the_clear:
        raise ValueError("buffer_size must be at least 2 unless in_the_clear=True: the sum of one client is its update")
    _validate.part(Aggregator, "aggregators.mean(), or from_host(function)", aggregate=aggregate)
    if aggregate.trusted_row is None:
        _validate.minority({"num_clients": num_clients}, num_byzantine=num_byzantine)
    else:
        _validate.integer(at_least=0, num_byzantine=num_byzantine)
    number = num_clients // buffer_size
    if why := too_few_rows(aggregate, number, num_byzantine):
        raise ValueError(why)
    return number


def too_few_rows(aggregate: Aggregator, number: int, num_byzantine: int) -> str | None:
    """Why a rule does not tolerate so many Byzantine clients, each of whom corrupts one row; None: it does.

    Raises:
      ValueError: what the rule says of that is no function of the number of rows.
    """
    tolerates = aggregate.most_byzantine
    if tolerates is None:
        return None
    _validate.takes("rows", **{"aggregate.most_byzantine": tolerates})
    corrupt, most = min(num_byzantine, number), tolerates(number)
    if 0 <= corrupt <= most:
        return None
    enough = next((rows for rows in range(number, _MANY * number) if tolerates(rows) >= corrupt), None)
    if most < 0:
        return f"aggregate must be a rule for {number} rows, and this one needs {enough or 'more'}"
    said = f"num_byzantine={num_byzantine} can corrupt {corrupt} of {number} rows, but aggregate tolerates {most}"
    if enough:
        return f"{said}; it would need {enough} rows"
    return said if most else f"{said}; a control without defence: {UNPROTECTED}"


def unmasked(layer: Layer, masks: dict[str, Any], instead: str) -> Layer:
    """A layer in place of masks.

    Raises:
      ValueError: there are options of masks that are not their defaults, `elide` aside, which changes no sum;
        `instead` is the argument that makes them meaningless.
    """
    not_together(MASKS.given(but_elide(masks)), instead)
    return layer


def but_elide(masks: dict[str, Any]) -> dict[str, Any]:
    """Options of masks without `elide`, which changes no sum, also where there are no masks.

    Raises:
      ValueError: `elide` is no truth value.
    """
    _validate.one_of((True, False), elide=masks.get("elide", False))
    return {name: value for name, value in masks.items() if name != "elide"}


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


def fitting_spacing(spacing: int, clients: int, given: str) -> int:
    """Delta of masks with errors, if sums of so many clients fit the field with it.

    Raises:
      ValueError: they do not; `given` are the arguments that it follows from, with their values.
    """
    if spacing > (most := int(field.Q) // 4 // clients):
        raise ValueError(
            f"{given} must leave room for sums in the field: sums may be at most q / 4 / clients = {most} apart, "
            f"errors of masks need {spacing}; fewer clients or coins, or a larger failure, need less"
        )
    return spacing


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


def not_together(options: dict[str, Any], instead: str) -> None:
    """Refuses options that `instead` makes meaningless.

    Raises:
      ValueError: there is one.
    """
    for name, value in options.items():
        raise ValueError(f"{name} must not be given with {instead}, got {value!r}")


def nobody_asked(leave: float | Array, instead: str) -> None:
    """Refuses `leave` where `instead` means that nobody is asked for shares: the clients would be gone for nothing.

    Raises:
      ValueError: `leave` is not 0.
    """
    if not _validate.is_known_as(0, leave):
        raise ValueError(f"leave must be 0 with {instead}, got {leave!r}: nobody is asked for shares")


def buffer_sum(number: int, buffer_size: int, masks: dict[str, Any], *, in_the_clear: bool) -> Layer:
    """The exact sum of each buffer, masked among its members with the options `masks`.

    Raises:
      ValueError: options of masks with `in_the_clear`.
    """
    if in_the_clear:
        return unmasked(plain_field(number), masks, "in_the_clear")
    return pairwise_masks(number, group_size=buffer_size, **masks)


def coordinates(num_params: int, ratio: float, clients: int = 1) -> int:
    """Coordinates of each of `clients` that share a fraction `ratio` of d: `floor(ratio d / clients)`, at least 1.

    Raises:
      ValueError: `ratio` outside (0, 1].
    """
    _validate.fraction(above_zero=True, ratio=ratio)
    return max(1, part_of(ratio / clients, num_params))


def proposed(num_params: int, num_clients: int, ratio: float, k: int | None) -> int:
    """Coordinates each client proposes, n = K / m.

    Raises:
      ValueError: `ratio` outside (0, 1], or `k` no multiple of `num_clients` or more than all can propose.
    """
    _validate.integer(num_params=num_params)
    _validate.fraction(above_zero=True, ratio=ratio)
    if k is None:
        return coordinates(num_params, ratio, num_clients)
    _validate.integer(k=k)
    _validate.divides({"num_clients": num_clients}, k=k)
    if k > (most := num_clients * num_params):
        raise ValueError(f"k must be at most num_clients * num_params = {most}, got {k}")
    return k // num_clients
