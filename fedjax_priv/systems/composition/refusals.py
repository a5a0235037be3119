"""What does not compose, and why: one table, which the system, sweeps, the command line and pictures all ask.

A to E are why whole combinations of good parts are impossible; the other letters are arguments that miss a partner.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from fedjax_priv.base import Draw
from fedjax_priv.base.byzantine_clients import how_many
from fedjax_priv.systems._arguments import too_few_rows
from fedjax_priv.systems._attackers import BOTH_ATTACKS, distrust, of_nobody
from fedjax_priv.systems._proofs import NEEDS_BOUND, of_noisy_sums
from fedjax_priv.systems._shared_layers import NEEDS_CLIP
from fedjax_priv.systems.composition.settled import clients_of, settled
from fedjax_priv.systems.composition.stack import Stack, is_zero


class Refusal(NamedTuple):
    """Why a stack cannot be."""

    code: str
    sentence: str


def why_not(stack: Stack) -> Refusal | None:
    """Why a stack cannot be composed, by the first reason of `REASONS` that applies; None if it can.

    Args:
      stack: choices, each in its range; numbers may be traced.

    Examples:
      >>> print(why_not(Stack(num_clients=10)), why_not(Stack(num_clients=10, compress="top_k", secure="secagg"))[0])
      None B
    """
    stack = settled(stack)
    for code, reason in REASONS.items():
        if sentence := reason(stack):
            return Refusal(code, sentence)
    return None


def _sizes(s: Stack) -> str | None:
    if s.buffer_size is not None and s.num_clients % s.buffer_size:
        return f"num_clients must be a multiple of buffer_size = {s.buffer_size}, got {s.num_clients}"
    if s.cohort_size is not None and s.cohort_size > s.num_clients:
        return f"cohort_size must be at most num_clients = {s.num_clients}, got {s.cohort_size}"
    trusts = s.aggregate is not None and s.aggregate.trusted_row is not None
    if 2 * s.num_byzantine >= s.num_clients and not trusts:
        return f"num_byzantine must be below num_clients / 2 = {s.num_clients / 2:g}, got {s.num_byzantine}"
    return None if s.cohort is None else _unlike_draw(s, s.cohort)


def _unlike_draw(s: Stack, draw: Draw) -> str | None:
    """Why a size or number that was given is refused: the draw has another."""
    if s.cohort_size != (size := clients_of(draw, s.num_clients)):
        return f"cohort_size must be {size} or not given with this cohort, got {s.cohort_size}"
    number = how_many(draw.byzantine)
    if number and s.num_byzantine != number:
        return f"num_byzantine must be {number} or not given with this cohort, got {s.num_byzantine}"
    return None


def _one_row(s: Stack) -> str | None:
    if s.rows > 1 or s.averages:
        return None
    here, instead = ("secure", "; sum in buffers (buffer_size)") if s.channel == "erasure" else ("channel", "")
    return (
        f"aggregate must be the mean where all uploads are one row, of which every rule is the mean: got another rule "
        f"with {here}={getattr(s, here)!r}{instead}"
    )


def _other_coordinates(s: Stack) -> str | None:
    if not (s.in_field and s.own_coordinates) or s.secure == "thresholded":
        return None
    return (
        f"compress must be 'none', 'common', 'jl' or 'conspar' in a sum of field elements, got {s.compress!r}: members "
        "send other coordinates, and the sum would need all d; secure='thresholded' opens them where enough sent one"
    )


def _small_noise(s: Stack) -> str | None:
    if s.private != "field" or s.masked:
        return None
    return (
        f"private must be 'local' with secure={s.secure!r}, got 'field': each upload is seen with its small share of "
        "the noise alone"
    )


def _trusted(s: Stack) -> str | None:
    return s.aggregate and distrust(s.aggregate, s.num_clients, s.clients_in_a_row, s.num_byzantine)


def _few_rows(s: Stack) -> str | None:
    return s.aggregate and too_few_rows(s.aggregate, s.rows, s.num_byzantine)


def _noise_after_top(s: Stack) -> str | None:
    if s.compress != "top_k" or s.private == "none":
        return None
    return (
        "private must be 'none' with compress='top_k', got "
        f"{s.private!r}: noise does not cover which coordinates of clean values are largest, and noise first is dense"
    )


def _alone(s: Stack) -> str | None:
    if s.masked and s.clients_in_a_row < 2:
        return f"buffer_size must be at least 2 with secure={s.secure!r}: the sum of one client is its update"
    return None


def _pairs_pick(s: Stack) -> str | None:
    if s.secure != "sparse_secagg":
        return None
    if s.compress != "none":
        return f"compress must be 'none' with secure='sparse_secagg', whose pairs pick coordinates, got {s.compress!r}"
    if s.rows > 1:
        return (
            "buffer_size must not be given with secure='sparse_secagg', got "
            f"{s.buffer_size}: rows would have different coordinates, and a rule would compare values with zeros"
        )
    return None


def _enrolled(s: Stack) -> str | None:
    if s.secure != "enrolled":
        return None
    if s.rows > 1:
        return f"buffer_size must not be given with secure='enrolled', whose masks cover one sum, got {s.buffer_size}"
    if s.private == "field":
        return "private must be 'none' or 'local' with secure='enrolled', got 'field': nobody priced noise in its sum"
    if s.norm_bound is not None:
        return "norm_bound must not be given with secure='enrolled': an upload that is rejected would be read"
    return None


def _thresholded(s: Stack) -> str | None:
    if s.secure != "thresholded":
        return None
    if not s.own_coordinates:
        return (
            f"compress must be 'rand_k' or 'top_k' with secure='thresholded', got {s.compress!r}: all send the same "
            "coordinates, and there is nothing to count"
        )
    top = s.compress == "top_k"
    if s.error_feedback != top:
        why = "clients keep what was not opened" if top else "only those with 'top_k' are told what was opened"
        return f"error_feedback must be {top} with secure='thresholded' and compress={s.compress!r}: {why}"
    if s.buffer_size is not None:
        return f"buffer_size must not be given with secure='thresholded', which opens one sum, got {s.buffer_size}"
    if s.private == "field":
        return (
            "private must be 'none' or 'local' with secure='thresholded', got 'field': nobody priced noise in its sum"
        )
    if s.field_attack is not None or s.norm_bound is not None:
        name = "norm_bound" if s.field_attack is None else "field_attack"
        return f"{name} must not be given with secure='thresholded', whose field elements have coordinates with them"
    if top and (s.cohort is not None or s.cohort_size is not None):
        name = "cohort_size" if s.cohort is None else "cohort"
        return f"{name} must not be given with secure='thresholded' and compress='top_k': all are told what was opened"
    return None


def _bounded(s: Stack) -> str | None:
    noisy = s.private != "none"
    if noisy and s.clip is None:
        return f"clip must be given with private={s.private!r}: noise protects only updates of bounded norm"
    if noisy != (s.noise_variance is not None):
        words = "be given" if noisy else "not be given"
        return f"noise_variance must {words} with private={s.private!r}"
    return None


def _proofs(s: Stack) -> str | None:
    if s.norm_bound is None:
        return None if s.max_entry is None else NEEDS_BOUND
    if not s.in_field:
        return "norm_bound must not be given with secure='none': in the clear the server sees every norm itself"
    if s.sends_weights:
        return "norm_bound must not be given with weigh='survivors': a proof of the norm does not cover weights"
    return of_noisy_sums(s.norm_bound, s.max_entry, s.clip) if s.private == "field" else None


def _ranges(s: Stack) -> str | None:
    if not s.check_range:
        return None
    if not s.in_field:
        return "check_range must be False with secure='none': in the clear the server sees every upload itself"
    if s.clip is None:
        return NEEDS_CLIP
    if s.private == "local":
        return "check_range must be False with private='local': Gaussian noise has no bound"
    return None


def _weights(s: Stack) -> str | None:
    if s.secure == "sparse_secagg" and s.weigh == "equal":
        return "weigh must not be 'equal' with secure='sparse_secagg': uploads have different coordinates"
    if s.weigh == "survivors" and s.private != "none":
        return f"weigh must be 'equal' or 'expected' with private={s.private!r}, got 'survivors': weights get noise"
    if s.weigh == "survivors" and s.compress != "none":
        return f"weigh must not be 'survivors' with compress={s.compress!r}: the weight may stay behind"
    if s.weigh != "equal" and (s.rows > 1 or s.compress == "conspar"):
        return f"weigh must be 'equal' where a rule compares rows or clients propose coordinates, got {s.weigh!r}"
    return None


def _attackers(s: Stack) -> str | None:
    if s.on_the_air and (s.attack is not None or s.num_byzantine):
        return (
            f"attack and num_byzantine must not be given with channel={s.channel!r}, nor a cohort with Byzantine "
            "clients: figures count the noise of all who send; over_the_air_vote has attacks"
        )
    given = {name: getattr(s, name) for name in ("attack", "group_attack", "field_attack", "coordinate_attack")}
    if sentence := of_nobody(s.num_byzantine, **given):
        return sentence
    if s.group_attack is not None and (sentence := _of_groups(s)):
        return sentence
    if s.field_attack is not None and not s.in_field:
        return "field_attack must not be given with secure='none', whose uploads are no field elements"
    if s.coordinate_attack is not None and s.compress != "conspar":
        return f"coordinate_attack must be given with compress='conspar' only, got {s.compress!r}: nobody proposes"
    return None


def _of_groups(s: Stack) -> str | None:
    """Why nobody can choose the mean of a group."""
    if s.attack is not None:
        return BOTH_ATTACKS
    if s.rows == 1:
        return "group_attack must not be given where all are summed to one row, which no rule compares: give attack"
    if s.own_coordinates:
        return f"group_attack must not be given with compress={s.compress!r}: members send other coordinates"
    return None


def _air(s: Stack) -> str | None:
    if not s.on_the_air:
        return None
    here = f"with channel={s.channel!r}"
    if s.secure != "none":
        return f"secure must be 'none' {here}, got {s.secure!r}: field elements do not survive the receiver's noise"
    if s.compress != "none":
        return f"compress must be 'none' {here}, got {s.compress!r}: uploads add coordinate by coordinate on the air"
    if s.private == "field":
        return f"private must be 'none' or 'local' {here}, got 'field': analog uploads are no field elements"
    if s.clip is None:
        return f"clip must be given {here}: power and alignment need a bound on updates"
    if s.weigh != "equal" or s.buffer_size is not None:
        return f"weigh must be 'equal' and buffer_size not given {here}: one mean is all that is received"
    if not (is_zero(s.dropout) and is_zero(s.leave)) or (s.cohort_size is not None and s.cohort is None):
        return f"dropout, leave and cohort_size must not be given {here}: give a draw as cohort"
    return None


def _cohorts(s: Stack) -> str | None:
    name = next((name for name in ("cohort", "cohort_size") if getattr(s, name) is not None), None)
    if name is None or (s.rows == 1 and s.compress != "conspar"):
        return None
    return f"{name} must not be given where clients have rows or propose coordinates: all of them take part"


def _partners(s: Stack) -> str | None:
    if s.error_feedback and s.compress in ("none", "jl", "conspar"):
        return f"error_feedback must be False with compress={s.compress!r}, got True: there is nothing more to remember"
    if not is_zero(s.alpha) and s.compress != "conspar":
        return f"alpha must be 0 with compress={s.compress!r}, got {s.alpha!r}: nobody proposes coordinates"
    if not is_zero(s.leave) and not s.masked:
        return f"leave must be 0 with secure={s.secure!r}, got {s.leave!r}: nobody is asked for shares"
    return None


REASONS: Mapping[str, Callable[[Stack], str | None]] = MappingProxyType({
    "S": _sizes, "A": _one_row, "B": _other_coordinates, "C": _small_noise, "D": _few_rows, "E": _noise_after_top,
    "F": _alone, "G": _pairs_pick, "H": _enrolled, "T": _thresholded, "J": _bounded, "K": _weights, "L": _attackers,
    "M": _air, "N": _cohorts, "O": _partners, "P": _proofs,
    "Q": _trusted, "R": _ranges,
})  # fmt: skip
"""By code, in the order they are asked; each is the sentence of a refusal, or None."""
