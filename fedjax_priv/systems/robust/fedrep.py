"""FedREP: consensus sparsification, buffers that are summed in secret, and robust aggregation across buffers."""

from jaxtyping import Array

from fedjax_priv.aggregators import centered_clipping, on_coordinates
from fedjax_priv.attacks import AnyAttack, FieldAttack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import average, conspar, quantize, stack
from fedjax_priv.layers.consensus_sparsification import CoordinateAttack
from fedjax_priv.systems._arguments import MASKS, Masked, buffers, loss_rate, nobody_asked, proposed
from fedjax_priv.systems._attackers import check_attackers, check_trust
from fedjax_priv.systems._distributed_noise import condition_of, distributed_noise
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import attacked_elements, attacked_groups, buffer_sum, ranged
from fedjax_priv.systems.releases import ProposedCoordinates


@of_known_arguments
def fedrep(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    ratio: float = 0.05,
    k: int | None = None,
    buffer_size: int = 2,
    aggregate: Aggregator | None = None,
    alpha: float | Array = 0.0,
    num_byzantine: int = 0,
    attack: AnyAttack | None = None,
    group_attack: AnyAttack | None = None,
    field_attack: FieldAttack | None = None,
    coordinate_attack: CoordinateAttack | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    in_the_clear: bool = False,
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    check_range: bool = False,
    **how: Masked,
) -> Algorithm:
    """`w <- w - Agg(buffer means of (g_k)_I)`, g_k = u_k + y_k, I the union of proposals (Algorithms 1 and 2).

    Buffers are drawn anew each round. The server sees every proposal with its sender and the mean of each buffer,
    never one client's values. A client whose upload is rejected keeps all of g_k, and the momentum that it had before.

    Args:
      local: training of a client; momentum is the client's own (`carry_momentum=True`).
      num_clients: clients in the data, m.
      num_params: parameters of the model, d.
      ratio: fraction of the d coordinates that all proposals together name: K = m floor(ratio d / m), at least m.
      k: number K of coordinates that all proposals together name, a multiple of m; replaces `ratio`.
      buffer_size: clients in a buffer (s), a divisor of m; the rule gets m / s rows.
      aggregate: rule across buffers; `centered_clipping()` if not given.
      alpha: fraction of its largest coordinates that a client replaces by random ones in its proposal, in [0, 1].
      num_byzantine: clients 0 to f - 1 are Byzantine; they can corrupt f buffers.
      attack: attack on the values that Byzantine clients send, before the quantizer.
      group_attack: attack on the means of buffers, of which Byzantine members choose theirs; instead of `attack`.
      field_attack: attack on the field elements that they put into the sum; nobody sees them, so any will do.
      coordinate_attack: attack on the coordinates that they propose.
      dropout: probability that a client is lost after the union is known and before its upload.
      leave: probability that a survivor is gone when the server asks for shares; 0 with `in_the_clear`,
        where nobody is asked.
      levels: grid points of the quantizer per unit.
      in_the_clear: sum field elements without masks; then a buffer may hold a single client.
      clip: largest Euclidean norm of an honest client's values; no clipping if not given. The memory drops what is cut.
      noise_variance: variance of the Skellam noise that each client adds at each coordinate before masking; a buffer
        holds the noise of its s clients. Needs `clip`; static in a sweep. Proposals stay in the clear.
      check_range: the rule gets no buffer whose sum clients that clip cannot have, such as one with random elements
        in it (`layers.check_range`). Needs `clip`, static in a sweep.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range, sizes that do not divide, single updates under secure aggregation,
        more corrupted buffers than the rule tolerates, a rule that trusts a Byzantine client, or an attack of nobody.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> rule = fedjax_priv.aggregators.coordinate_median()
      >>> system = fedrep(local, num_clients=20, num_params=15_010, ratio=0.05, aggregate=rule, num_byzantine=2)
    """
    dropout, aggregate = loss_rate(dropout), centered_clipping() if aggregate is None else aggregate
    number = buffers(num_clients, buffer_size, num_byzantine, aggregate, in_the_clear=in_the_clear)
    check_trust(aggregate, num_clients, buffer_size, num_byzantine)
    if in_the_clear:
        nobody_asked(leave, "in_the_clear=True")
    n, (masks, run) = proposed(num_params, num_clients, ratio, k), MASKS.split(how)
    mask = buffer_sum(number, buffer_size, masks, in_the_clear=in_the_clear)
    attacks = dict(
        attack=attack, group_attack=group_attack, field_attack=field_attack, coordinate_attack=coordinate_attack
    )
    check_attackers(num_byzantine, **attacks)
    noise = distributed_noise(
        clip, noise_variance, levels, max_terms=buffer_size, group_size=1 if in_the_clear else buffer_size,
        threshold=mask.sums.threshold, num_values=min(num_clients * n, num_params), byzantine=num_byzantine,
        condition=condition_of({} if in_the_clear else masks, attacked=any(a is not None for a in attacks.values())),
    )  # fmt: skip
    return federated_round(
        cohort=everyone(number, num_byzantine=num_byzantine),
        local=local,
        layers=stack(
            conspar=conspar(num_params, n, alpha=alpha, attack=coordinate_attack),
            **noise.above,
            **attacked_groups(attack, group_attack, number, buffer_size, levels),
            average=average(),
            quantize=quantize(levels, max_terms=buffer_size),
            **noise.below,
            **attacked_elements(field_attack),
            **ranged(check_range, clip, noise_variance, levels, buffer_size),
            mask=mask,
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=on_coordinates(aggregate, num_params),
        num_clients=num_clients,
        release=ProposedCoordinates(
            num_params=num_params, num_coordinates=n, alpha=alpha, masked=not in_the_clear, noise=noise.released,
            masks=mask.sums.protocol, group_size=buffer_size,
        ),
        **run,
    )  # fmt: skip
