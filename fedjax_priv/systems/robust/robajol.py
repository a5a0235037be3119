"""RobAJoL: clipped, noisy updates in a random projection, and a robust rule on them."""

from typing import Literal

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import centered_clipping, in_sketch
from fedjax_priv.attacks import AnyAttack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import clip as clipped
from fedjax_priv.layers import gaussian_noise, jl, plain, stack
from fedjax_priv.systems._arguments import Run, buffers, coordinates, loss_rate
from fedjax_priv.systems._attackers import check_attackers, check_trust
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import attacked
from fedjax_priv.systems.releases import SketchedUploads


@of_known_arguments
def robajol(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    ratio: float = 0.05,
    k: int | None = None,
    clip: float | Array = 1.0,
    noise_multiplier: float | Array = 1.0,
    noise: Literal["after", "before"] = "after",
    dense: bool = False,
    aggregate: Aggregator | None = None,
    num_byzantine: int = 0,
    attack: AnyAttack | None = None,
    dropout: float | Array = 0.0,
    **run: Run,
) -> Algorithm:
    """`w <- w - P' Agg(z_1, ..., z_m)`, z_i = P y_i clipped to C, plus N(0, sigma^2 C^2 I_k) (Xia, Jahani-Nezhad, Bitar
    2025, arXiv 2508.12978).

    Local differential privacy, robustness and few bytes at once: each client sends k of d numbers. P is drawn anew
    each round from a public seed. The mean over clients of the noise in the direction has variance sigma^2 C^2 d / m
    in all; in the published order, noise first, it is (k+d-1)/k times as large for the same eps.

    Args:
      local: training of a client.
      num_clients: clients in the data, m.
      num_params: parameters of the model, d.
      ratio: numbers that a client sends, as a fraction of d: k = floor(ratio d), at least 1.
      k: numbers that a client sends, from 1 to d; replaces `ratio`.
      clip: C > 0, the largest Euclidean norm of what noise is added to.
      noise_multiplier: sigma >= 0, standard deviation of the noise at a coordinate, in units of C.
      noise: "after" the projection, or "before" it, as published: then C bounds the update `[d]`.
      dense: a dense projection instead of a count sketch, see `layers.jl`.
      aggregate: rule on the rows `[m, k]`; `centered_clipping()` if not given.
      num_byzantine: clients 0 to f - 1 are Byzantine.
      attack: attack on the k numbers that Byzantine clients send; nothing clips them.
      dropout: probability that a client's upload is lost.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, more Byzantine clients than the rule tolerates, a rule that trusts
        one, or an attack of nobody.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = robajol(local, num_clients=20, num_params=15_010, num_byzantine=2)
    """
    _validate.one_of(("after", "before"), noise=noise)
    _validate.one_of((True, False), dense=dense)
    _validate.integer(num_params=num_params)
    bound, sigma = _validate.positive(clip=clip), _validate.non_negative(noise_multiplier=noise_multiplier)
    aggregate = centered_clipping() if aggregate is None else aggregate
    buffers(num_clients, 1, num_byzantine, aggregate, in_the_clear=True)
    check_trust(aggregate, num_clients, 1, num_byzantine)
    check_attackers(num_byzantine, attack=attack)
    _validate.fraction(above_zero=True, ratio=ratio)
    k = coordinates(num_params, ratio) if k is None else k
    private = {"clip": clipped(bound), "local_noise": gaussian_noise((sigma * bound) ** 2)}
    sketch = {"sketch": jl(num_params, k, dense=dense)}
    order = sketch | private if noise == "after" else private | sketch
    return federated_round(
        cohort=everyone(num_clients, num_byzantine=num_byzantine),
        local=local,
        layers=stack(**order, **attacked(attack), send=plain(num_clients, exact=False)),
        channel=erasure(loss_rate(dropout)),
        aggregate=in_sketch(aggregate, num_params, k, dense=dense),
        num_clients=num_clients,
        release=SketchedUploads(clip=clip, noise_multiplier=noise_multiplier, dense=dense),
        **run,
    )
