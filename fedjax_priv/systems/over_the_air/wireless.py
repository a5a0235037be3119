"""Private FedSGD over a wireless channel with user sampling (Seif et al.), and its three simpler schemes."""

from collections.abc import Callable
from typing import Any, Literal

from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Draw, Local
from fedjax_priv.channels import Fading, rician
from fedjax_priv.clients import bernoulli, channel_aware
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import stack
from fedjax_priv.layers.analog_alignment import PowerControl
from fedjax_priv.layers.receive_level import Level
from fedjax_priv.systems._arguments import Run
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.over_the_air.analog_uploads import NoiseDrawn, analog_uploads


@of_known_arguments
def wireless(
    local: Local,
    *,
    clip: float | Array = 1.0,
    noise_variance: ArrayLike = 0.1,
    receiver_noise: float | Array = 1.0,
    participation: ArrayLike | Callable[[Array], ArrayLike] | None = None,
    threshold: float | Array | None = None,
    snr_db: ArrayLike | None = None,
    power_control: PowerControl = "gradient",
    access: Literal["multiple", "orthogonal"] = "multiple",
    known_count: bool = True,
    level: Level = 1.0,
    truncation: ArrayLike | None = None,
    expected_count: float | Array | None = None,
    coordinates_per_use: Literal[1, 2] = 1,
    fading: Fading | None = None,
    noise_drawn: NoiseDrawn = "by client",
    **run: Run,
) -> Algorithm:
    """Clients that take part send `alpha_k (g_k + n_k)` at once, uncoded; the server divides what adds up on the air.

    Algorithm of "Privacy Amplification for Federated Learning via User Sampling and Wireless Aggregation" (eqs. 1 to
    10, 26); `access` and `participation` choose among the four schemes of its Table I.
    `clients.local_sgd(num_steps=1, learning_rate=1.0)` is its mini-batch gradient; more steps are the same system with
    updates for gradients.

    Args:
      local: what a client computes; a regulariser belongs in its loss.
      clip: largest Euclidean norm of what a client sends, before noise (L).
      noise_variance: variance of the privacy noise at each coordinate (sigma_k^2), of every client or `[n]`.
      receiver_noise: variance of the receiver's noise (N0).
      participation: probability of joining a round (p), not 0 for all clients: a number, `[n]`, or a function of the
        round; 1 if not given.
      threshold: gain h_th from which a client always joins, `p_k = min(1, h_k / h_th)`; replaces `participation`.
      snr_db: power limit as transmit SNR P_k / (d N0) in dB, of every client or `[n]`; no limit if not given. It makes
        nobody louder: where it leaves power to spare, clients still arrive at `level`. For another SNR at the receiver
        change `level` or `receiver_noise`. In Python, `level=layers.weakest(...)` is what the weakest client can reach.
      power_control: how a client stays within `snr_db`, see `layers.align`. "gradient" and "bound" scale update and
        noise, by the norm of the update or by `clip`. "signal" scales the update alone; a client whose noise takes all
        its power does not join.
      access: "multiple": one channel on which uploads add up; "orthogonal": a separate link for each client.
      known_count: the server knows how many clients sent; otherwise it divides by their expected number.
      level: amplitude c_t at which all clients are received, > 0; or a function of the round and of all clients' gains
        that returns it; or levels that remember rounds before, such as planned ones. The server divides by it too.
        Noise N0 at level c disturbs and hides as N0 / c^2 at level 1.
      truncation: least squared gain with which a client sends, of every client or `[n]` (truncated channel inversion).
        The server knows who is too weak. All send if not given.
      expected_count: what an unknown number of senders is taken for; their expected number, given the gains of the
        round, if not given.
      coordinates_per_use: of an update in a complex use of the channel, where clients do not know their gains. 1: the
        real part of a symbol. 2: real and imaginary part, which mix as far as phases err; half the uses. Where gains
        are known nothing mixes, and each coordinate takes a real use.
      fading: gains of the links, and what clients know of them (`channels.estimated`, `channels.turned`);
        autoregressive Rician, G = 5 and rho = 0.1, all known, if not given.
      noise_drawn: "by client", or "as one": the noise of all clients is one draw of the channel. What the server
        receives has the same law, and a round takes half of the time. `energy` is then the mean over the noise. Not
        with orthogonal access or gains that clients do not know: there the server receives more than one sum.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, or both `participation` and `threshold`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.fedsgd(loss)
      >>> system = wireless(local, clip=1.0, noise_variance=0.1, participation=0.5)
    """
    if fading is not None and not isinstance(fading, Fading):
        raise ValueError(f"fading must be a Fading such as channels.rician(), got {fading!r}")
    air = analog_uploads(
        _draw(participation, threshold, rician() if fading is None else fading),
        clip=clip, noise_variance=noise_variance, access=access, receiver_noise=receiver_noise, snr_db=snr_db,
        power_control=power_control, known_count=known_count, level=level, truncation=truncation,
        expected_count=expected_count, coordinates_per_use=coordinates_per_use, noise_drawn=noise_drawn,
    )  # fmt: skip
    return federated_round(
        cohort=air.draw,
        local=local,
        layers=stack(**air.layers),
        channel=air.channel,
        aggregate=mean(),
        release=air.release,
        **run,
    )


def _draw(participation: Any, threshold: Any, fading: Fading) -> Draw:
    if threshold is None:
        return bernoulli(1.0 if participation is None else participation, fading=fading)
    if participation is not None:
        raise ValueError(f"participation must not be given with threshold, got {participation!r}")
    return channel_aware(threshold, fading)
