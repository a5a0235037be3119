"""Majority votes over the air: each client sends the signs of its update, and the server gets their noisy sum."""

from typing import Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.attacks import AnyAttack, on_updates
from fedjax_priv.base import Algorithm, Draw, Layer, Local
from fedjax_priv.base.byzantine_clients import Byzantine
from fedjax_priv.channels import Fading, multiple_access, rayleigh, unknown_phases
from fedjax_priv.clients import bernoulli
from fedjax_priv.clients.cohort_rows import marked
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import clip as clipping
from fedjax_priv.layers import gaussian_noise, invert_gains, sign, stack, tones, waveform
from fedjax_priv.systems._arguments import Run
from fedjax_priv.systems._attackers import check_attackers
from fedjax_priv.systems._distributed_noise import condition_of
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.over_the_air.truncated_draw import truncated
from fedjax_priv.systems.releases import Vote


@of_known_arguments
def over_the_air_vote(
    local: Local,
    *,
    level: float | Array = 1.0,
    truncation: float | Array = 0.2,
    receiver_noise: float | Array = 1.0,
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    num_byzantine: Byzantine = 0,
    attack: AnyAttack | None = None,
    byzantine_power: float | Array | None = None,
    fading: Fading | None = None,
    **run: Run,
) -> Algorithm:
    """`w <- w - sign(c sum_k sign(g_k) + noise)`: one-bit over-the-air aggregation (Zhu, Du, Gunduz, Huang 2021).

    A client whose squared gain is at least the truncation inverts it, so that its signs are received at the
    amplitude c; the others are silent. `theory.wireless.truncation_level` has the c of a mean energy. A round takes d
    uses of the channel. Its step is `server`, such as `optax.sgd(0.001)`.

    Args:
      local: what a client computes.
      level: amplitude of a received sign (c).
      truncation: least squared gain with which a client sends (g); with 0 all do whose gain is not 0.
      receiver_noise: variance of the receiver's noise (N0).
      clip: largest Euclidean norm of an update before noise (L); no clipping if not given. A sign needs none.
      noise_variance: variance of the noise a client adds before it takes the sign (sigma^2); no noise if not given.
      num_byzantine: clients 0 to `num_byzantine - 1` are Byzantine. In Python also a mask of those, bool `[n]`.
      attack: on the updates whose signs Byzantine clients send.
      byzantine_power: energy of a channel use that Byzantine clients put into their signs, received at `h sqrt(P)`;
        they vote at the level of all others if not given.
      fading: gains of the links; Rayleigh, independent from round to round, if not given.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, an attack of nobody, or noise without `clip`.

    Examples:
      >>> import optax
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=1.0, batch_size=32, num_steps=1)
      >>> system = over_the_air_vote(local, level=0.9, truncation=0.2, server=optax.sgd(0.001))
    """
    truncation = _validate.non_negative(truncation=truncation)
    return federated_round(
        cohort=truncated(_draw(fading, num_byzantine), truncation),
        local=local,
        layers=stack(
            **_signs(clip, noise_variance, num_byzantine, attack),
            invert=invert_gains(level, byzantine_power=byzantine_power),
            send=waveform(),
        ),
        channel=multiple_access(receiver_noise, known_count=False),
        aggregate=mean(),
        release=Vote(
            clip=clip, noise_variance=noise_variance, level=level, receiver_noise=receiver_noise,
            condition=condition_of({}, attacked=attack is not None),
        ),
        **run,
    )  # fmt: skip


@of_known_arguments
def two_tone_vote(
    local: Local,
    *,
    energy: float | Array = 1.0,
    receiver_noise: float | Array = 1.0,
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    num_byzantine: Byzantine = 0,
    attack: AnyAttack | None = None,
    fading: Fading | None = None,
    **run: Run,
) -> Algorithm:
    """A majority vote without channel knowledge: each sign is one of two tones (Sahin, Everette and Hoque 2021).

    The server compares the energies of the two tones of a coordinate. Everybody sends in every round, at the same
    energy; a round takes 4 d real uses of the channel.

    Args:
      local: what a client computes.
      energy: of a vote (E).
      receiver_noise: variance of the receiver's noise at a real use (N0).
      clip: as in `over_the_air_vote`.
      noise_variance: as in `over_the_air_vote`.
      num_byzantine: as in `over_the_air_vote`.
      attack: as in `over_the_air_vote`.
      fading: as in `over_the_air_vote`.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: as in `over_the_air_vote`.

    Examples:
      >>> import optax
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=1.0, batch_size=32, num_steps=1)
      >>> system = two_tone_vote(local, energy=2.0, server=optax.sgd(0.001))
    """
    return federated_round(
        cohort=_draw(fading, num_byzantine),
        local=local,
        layers=stack(
            **_signs(clip, noise_variance, num_byzantine, attack), tones=tones(energy), send=waveform()
        ),
        channel=unknown_phases(receiver_noise),
        aggregate=mean(),
        release=Vote(clip=clip, noise_variance=noise_variance, level=None, receiver_noise=receiver_noise),
        **run,
    )  # fmt: skip


def _signs(clip: Any, noise_variance: Any, num_byzantine: Byzantine, attack: AnyAttack | None) -> dict[str, Layer]:
    """The layers above the channel's; an attacker has any signs it likes."""
    check_attackers(num_byzantine, attack=attack)
    if clip is not None:
        _validate.positive(clip=clip)
    above = {} if clip is None else {"clip": clipping(clip)}
    if noise_variance is not None:
        if clip is None:
            raise ValueError("clip must be given with noise_variance, got None: noise hides only short updates")
        above |= {"noise": gaussian_noise(_validate.non_negative(noise_variance=noise_variance))}
    return above | ({} if attack is None else {"attack": on_updates(attack)}) | {"sign": sign()}


def _draw(fading: Fading | None, num_byzantine: Byzantine) -> Draw:
    """Everyone, with the gains of their links."""
    if fading is not None and not isinstance(fading, Fading):
        raise ValueError(f"fading must be a Fading such as channels.rayleigh(), got {fading!r}")
    return marked(bernoulli(1.0, fading=rayleigh() if fading is None else fading), num_byzantine)
