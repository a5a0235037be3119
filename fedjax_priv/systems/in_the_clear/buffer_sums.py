"""What becomes of the updates in a buffer: weighed and added in the clear or in the field, with or without noise."""

from typing import Any, Literal, NamedTuple

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Layer, Local
from fedjax_priv.clients import bounded
from fedjax_priv.crypto import field
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.layers import clip as clipping
from fedjax_priv.layers import discounted_mean, mean_by_factors, plain, quantize, stack
from fedjax_priv.server_noise import independent, noisy_sum
from fedjax_priv.server_noise.sum_with_noise import FLOAT32_CAVEAT
from fedjax_priv.systems._shared_layers import adding
from fedjax_priv.systems.releases import NoisyBuffers, Opening, Sum

CAVEATS = (
    FLOAT32_CAVEAT,
    "times of jobs are drawn: where they depend on a client's data, who comes when tells of these, and no figure holds",
)


class BufferSum(NamedTuple):
    """Arguments of `fedbuff` of this name."""

    buffer_size: int
    staleness_power: float | Array
    normalize: Literal["buffer", "weights"]
    clip: float | Array | None
    noise_multiplier: float | Array | None
    levels: float | Array
    weight_levels: int | None
    secure_sum: Layer | None
    max_jobs: int | None
    leave: float | Array

    @property
    def largest(self) -> int:
        """The sum of all factors of a buffer, at most."""
        return self.buffer_size * (self.weight_levels or 1)

    @property
    def hidden(self) -> bool:
        """Whether the server opens sums of several updates alone; `plain_field` only stands for that."""
        return self.secure_sum is not None and self.secure_sum.sums.threshold > 1


def checked(s: BufferSum) -> BufferSum:
    """These arguments, checked.

    Raises:
      ValueError: one is outside its range, or two do not go together.
    """
    _validate.one_of(("buffer", "weights"), normalize=s.normalize)
    power = _validate.non_negative(staleness_power=s.staleness_power)
    _validate.positive(levels=s.levels)
    clip = s.clip if s.clip is None else _validate.positive(clip=s.clip)
    if s.weight_levels is not None and s.secure_sum is None:
        raise ValueError(f"weight_levels must not be given without secure_sum, got {s.weight_levels}")
    if s.weight_levels is not None:
        _validate.integer(weight_levels=s.weight_levels)
    if s.noise_multiplier is not None:
        _check_private(s)
    if s.secure_sum is not None:
        _check_masks(adding(FIELD, s.secure_sum, {}, s.leave))
        _check_room(s, 1.0 if s.noise_multiplier is not None else clip)
    return s._replace(staleness_power=power, clip=clip)


def _check_masks(secure_sum: Layer) -> None:
    """Masks that clients agree on for a round, and sums in which no upload can be weighed alone, are refused."""
    if secure_sum.combine is None or secure_sum.combine.times is None:
        raise ValueError(
            "secure_sum must have masks that belong to a job, such as coded_masks(...), one_shot_masks(...) or, for an "
            "enclave, plain_field(), got another: a client that begins does not know who will be in its buffer"
        )


def _check_private(s: BufferSum) -> None:
    _validate.non_negative(noise_multiplier=s.noise_multiplier)
    if s.clip is None:
        raise ValueError("clip must be given with noise_multiplier, the unit of the noise, got None")
    if s.normalize != "buffer":
        raise ValueError(
            f"normalize must be 'buffer' with noise_multiplier, got {s.normalize!r}: weights have no noise"
        )
    if s.secure_sum is not None and s.weight_levels is None:
        raise ValueError(
            "weight_levels must be given with noise_multiplier and secure_sum: an update that is weighed before it "
            "is rounded may be longer than its weight"
        )


def _check_room(s: BufferSum, longest: Any) -> None:
    """No sum wraps: its terms are refused from `quantize`'s limit on, which updates of norm `longest` stay below."""
    assert s.secure_sum is not None
    room = field.HALF // (s.largest * s.secure_sum.sums.spacing) - 1
    if room < 1:
        raise ValueError(f"weight_levels must leave room for sums of {s.largest} in the field, got {s.weight_levels}")
    if longest is not None:
        _validate.known(levels=s.levels, clip=longest)
        if float(s.levels) * float(longest) >= room:
            raise ValueError(
                f"levels must be below {room / float(longest):g}, so that no sum of {s.buffer_size} weighed updates "
                f"wraps, got {float(s.levels):g}"
            )


def parts_of(local: Local, s: BufferSum) -> dict[str, Any]:
    """Local training, layers, rule and release of a system, from checked arguments."""
    if s.noise_multiplier is not None:
        return _private(local, s)
    above = {} if s.clip is None else {"clip": clipping(s.clip)}
    total = float(s.buffer_size) if s.normalize == "buffer" else None
    if s.weight_levels is None:
        divided = discounted_mean(s.staleness_power, total=total)
    else:
        divided = mean_by_factors(total=total and total * s.weight_levels)
    layers = stack(**above, mean=divided, **_innermost(s))
    release = Sum(opening=Opening.of(layers)) if s.hidden else None
    return dict(local=local, layers=layers, aggregate=mean(), release=release)


def _innermost(s: BufferSum) -> dict[str, Layer]:
    if s.secure_sum is None:
        return {"send": plain()}
    return {"quantize": quantize(s.levels, max_terms=s.largest * s.secure_sum.sums.spacing), "mask": s.secure_sum}


def _private(local: Local, s: BufferSum) -> dict[str, Any]:
    """Updates over `clip`, in the unit ball whatever a client holds, once they are rounded too; noise on the sum.

    In the field they are rounded before they are weighed, so that an update of factor f adds at most f to the norm.
    """
    z, clip = s.noise_multiplier, s.clip
    assert z is not None
    assert clip is not None
    weighed = {"mean": discounted_mean(s.staleness_power, total=1.0)} if s.secure_sum is None else {}
    layers = stack(**weighed, **_innermost(s))
    c = s.weight_levels or 1
    return dict(
        local=bounded(local, clip=clip, margin=0.0 if s.secure_sum is None else 1 / float(s.levels)),
        layers=layers._replace(caveats=(*layers.caveats, *CAVEATS)),
        aggregate=noisy_sum(independent(), z * c, clip / s.largest),
        release=NoisyBuffers(
            noise_multiplier=z, clip=clip, power=s.staleness_power, weight_levels=s.weight_levels, secure=s.hidden,
            max_jobs=s.max_jobs,
        ),
    )  # fmt: skip
