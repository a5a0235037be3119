"""FedAvg with digital uploads over a fading channel: quantized, coded, and one client after the other."""

from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Cohort, Draw, Key, Layer, Local
from fedjax_priv.channels import erasure, outage, rayleigh
from fedjax_priv.channels.outage_channel import MOST_BITS
from fedjax_priv.clients import bernoulli
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import average, coded, common_coordinates, qsgd, stack
from fedjax_priv.layers.sparsification import check_width
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.systems._arguments import Run
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.over_the_air.truncated_draw import truncated


@of_known_arguments
def digital_fedavg(
    local: Local,
    *,
    num_params: int,
    k: int | None = None,
    levels: int = 1,
    snr_db: float | Array = 10.0,
    fixed_rate: float | Array | None = None,
    truncation: float | Array = 0.0,
    cohort: Draw | None = None,
    **run: Run,
) -> Algorithm:
    """`w <- w - mean_k Q(x_k)` over the uploads that arrive, Q the quantizer of QSGD, each over its own link.

    A client that knows its gain codes at Shannon's rate; one that does not, at a fixed rate, and is lost if the link
    does not carry it. Either way its bits take `bits / rate` uses of the channel, which `analysis.air_resources` turns
    into seconds and joules. Where there are fewer than two bits a coordinate, send k random ones, the same for all
    clients, which are scaled by d / k.

    Args:
      local: what a client computes.
      num_params: parameters of the model, d.
      k: coordinates sent, new random ones each round; all if not given.
      levels: of the quantizer, s; a coordinate takes `1 + ceil(log2(s + 1))` bits.
      snr_db: transmit SNR of a use of the channel, P / N0, in dB, in [-300, 300].
      fixed_rate: bits a use, up to 32, of clients that do not know their gains; Shannon's rate if not given.
      truncation: least squared gain with which a client sends. Shannon's rate of a weak link takes forever.
      cohort: who sends, and the gains of their links; everyone, in Rayleigh fading, if not given.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = digital_fedavg(local, num_params=15_010, levels=3, snr_db=10.0, truncation=0.1)
    """
    snr = 10.0 ** (_validate.decibels(snr_db=snr_db) / 10)
    truncation = _validate.non_negative(truncation=truncation)
    draw = bernoulli(1.0, fading=rayleigh()) if cohort is None else cohort
    _validate.part(Draw, "clients.round_robin(10, channels.rayleigh())", cohort=draw)
    if fixed_rate is not None:
        _validate.up_to(MOST_BITS, fixed_rate=fixed_rate)
    few = _all_of(num_params) if k is None else {"few": common_coordinates(num_params, k)}
    return federated_round(
        cohort=truncated(draw, truncation),
        local=local,
        layers=stack(average=average(), **few, send=coded(qsgd(levels), power=snr, fixed_rate=fixed_rate)),
        channel=erasure() if fixed_rate is None else outage(fixed_rate, snr=snr),
        aggregate=mean(),
        **run,
    )


def _all_of(num_params: int) -> dict[str, Layer]:
    """A layer that changes nothing, by name; it refuses updates of another size."""
    _validate.integer(num_params=num_params)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        del key, cohort
        check_width(x, num_params)
        return x

    return {"all": stateless(encode)}
