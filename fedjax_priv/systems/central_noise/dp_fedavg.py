"""DP-FedAvg (McMahan, Ramage, Talwar and Zhang, ICLR 2018): clipped updates, summed; noise of the server on the sum."""

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.engine.round import federated_round
from fedjax_priv.server_noise import Clipping, ServerNoise, independent
from fedjax_priv.server_noise.sum_with_noise import FLOAT32_CAVEAT
from fedjax_priv.systems._arguments import (
    MASKS,
    Masked,
    leave_rate,
    loss_rate,
    nobody_asked,
    only_default,
    unless_unknown,
)
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import one_sum
from fedjax_priv.systems.central_noise.clipped_sum import Weights, adapted_sum, clipped_sum
from fedjax_priv.systems.central_noise.quorum import with_threshold
from fedjax_priv.systems.central_noise.sampling import check_bands, sampling_of
from fedjax_priv.systems.releases import CentralNoise

CAVEATS = (
    FLOAT32_CAVEAT,
    "losses, metrics and who was counted are the simulator's: no privacy figure covers what is chosen by them",
)


@of_known_arguments
def dp_fedavg(
    local: Local,
    *,
    num_clients: int,
    clip: float | Array = 1.0,
    noise_multiplier: float | Array = 1.0,
    sampling_rate: float | Array | None = None,
    cohort_size: int | None = None,
    capacity: int | None = None,
    separation: int = 1,
    weight_cap: float | None = None,
    mean_weight: float = 1.0,
    clip_quantile: float | Array | None = None,
    clip_rate: float | Array = 0.2,
    count_noise: float | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    secure: bool = False,
    noise: ServerNoise | None = None,
    **how: Masked,
) -> Algorithm:
    """`w <- w - (sum_S clip_C(w_i Delta_i) + N(0, z^2 C^2 I)) / W` with a public W (arXiv 1710.06963, Algorithm 1).

    W is the expected number of clients times `mean_weight`; dividing by the number that came would reveal it. Noise is
    added in every round, also if nobody came or a secure sum was not opened; such a round does not fail. An update that
    is not finite counts as 0. `server` is another optimizer than `w <- w - direction`.

    Who is protected from whom: figures hold against everybody but the server, which sees every update, or with `secure`
    the exact sum.

    With `secure` and `sampling_rate`, the number of clients is random, and a sum is opened if at least `threshold` of
    them survive. The default is the largest number that all but one of a million rounds reach, `dropout` and `leave`
    included; but it is more than half of the expected clients, and at most a majority of `capacity`. For 100 clients at
    rate 0.1 it is 6, with which 94% of the sums are opened; for 1,000 it is 58. As many colluders in a round can read
    single updates together with the server. A higher threshold costs privacy: if a client's coin decides whether the
    sum is opened, its coin is not hidden. A server that tells clients different lists of survivors reads single updates
    if 2 `threshold` clients come. A `threshold` above half of `capacity` prevents that, but more rounds are then noise
    alone. With `consistency` the default is that majority.

    Args:
      local: training of a client.
      num_clients: clients in the data, N.
      clip: C, largest Euclidean norm of what a client adds to the sum.
      noise_multiplier: z, standard deviation of the noise of the sum over `clip`; 0 adds none. With correlated `noise`
        that of its seed.
      sampling_rate: probability q that a client takes part in a round, each by its own coin (Poisson sampling).
      cohort_size: clients of every round, drawn uniformly without replacement. Everyone takes part if neither this nor
        `sampling_rate` is given.
      capacity: with `sampling_rate`, most clients of a round; if more come, a uniform subset of them takes part. If not
        given, this happens with probability below 1e-15.
      separation: b, least number of rounds from one round of a client to its next. With `sampling_rate`, clients form b
        fixed groups whose turns come one after the other.
      weight_cap: number of samples from which on a client has weight 1; one with fewer has weight samples / weight_cap.
        All have weight 1 if not given.
      mean_weight: public constant for the mean weight of a client.
      clip_quantile: gamma, fraction of the updates that should not be clipped: `clip` is then the first clipping norm,
        and later ones follow the norms of updates (Andrew et al. 2021). If not given, it stays.
      clip_rate: with `clip_quantile`, step size of the logarithm of the clipping norm.
      count_noise: standard deviation of the noise on the number of updates that are not clipped, above
        `noise_multiplier` / 2; a twentieth of the expected number of clients if not given. Updates then get more noise,
        so that both together have `noise_multiplier`.
      dropout: probability that an update is lost. In Python it must be a number if `threshold` is computed from it.
      leave: with `secure`, probability that a survivor is gone when the server asks for shares. In Python a number, as
        `dropout`.
      secure: sum under pairwise masks, rounded to a grid.
      noise: what the server adds, such as `server_noise.banded(...)`; independent Gaussian noise if not given. Noise
        that is correlated over rounds needs a `clip` that stays, and with `sampling_rate` at most `separation` bands.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = dp_fedavg(local, num_clients=1000, sampling_rate=0.1, clip=1.0, noise_multiplier=1.0)
    """
    _validate.one_of((True, False), secure=secure)
    _validate.fraction(above_zero=True, mean_weight=mean_weight)
    _validate.non_negative(clip_rate=clip_rate)
    clip, noise_multiplier = _validate.positive(clip=clip), _validate.non_negative(noise_multiplier=noise_multiplier)
    sampled = sampling_of(num_clients, sampling_rate, cohort_size, capacity, separation)
    if secure and sampled.most < 2:
        raise ValueError(f"secure must be False in cohorts of one client, whose sum is its update, got {secure}")
    masks, run = MASKS.split(how)
    channel = erasure(loss_rate(dropout), leave=leave)
    if secure:
        masks = with_threshold(masks, sampled, num_clients, dropout, leave)
    else:
        nobody_asked(leave, "secure=False")
    noise = independent() if noise is None else noise
    _validate.part(ServerNoise, "server_noise.independent()", noise=noise)
    check_bands(noise, sampled.participation)
    about = local, sampled, Weights(weight_cap, mean_weight), noise, noise_multiplier
    if clip_quantile is not None:
        clipping = Clipping(clip, clip_quantile, clip_rate)
        parts = adapted_sum(*about, clipping, count_noise=count_noise, secure=secure)
    else:
        only_default(dp_fedavg, "clip_quantile", count_noise=count_noise)
        only_default(dp_fedavg, "clip_quantile", clip_rate=clip_rate)
        parts = clipped_sum(*about, clip, secure=secure)
    layers = one_sum(sampled.most, parts.levels, masks, secure=secure)
    release = CentralNoise(
        noise_multiplier=noise_multiplier, clip=clip, participation=sampled.participation, population=num_clients,
        secure=secure, correlation=noise.correlation, masks=layers.sums.protocol, stays=(1 - dropout) * (1 - leave),
        weight_cap=weight_cap, adaptive=clip_quantile is not None,
    )  # fmt: skip
    return federated_round(
        cohort=sampled.draw,
        local=parts.local,
        layers=layers._replace(caveats=(*layers.caveats, *CAVEATS)),
        channel=channel,
        aggregate=unless_unknown(parts.aggregate, loss_rate(dropout), leave_rate(leave)),
        num_clients=num_clients,
        release=release,
        **run,
    )
