"""Any stack of parts: compression, noise, secure sum, channel, rule and attack in the one right order."""

from typing import Annotated, Any, get_args

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.attacks import AnyAttack, FieldAttack
from fedjax_priv.base import Aggregator, Algorithm, Draw, Local
from fedjax_priv.base.byzantine_clients import how_many
from fedjax_priv.channels import erasure, rician
from fedjax_priv.clients import bernoulli, everyone, sample
from fedjax_priv.clients.cohort_rows import marked
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import stack as stack_of
from fedjax_priv.layers import thresholded_masks
from fedjax_priv.layers.consensus_sparsification import CoordinateAttack
from fedjax_priv.systems._arguments import MASKS, ROUND, HandsOn, but_elide, loss_rate, not_together
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._proofs import PROOFS, without_bound
from fedjax_priv.systems.composition.parts import Numbers, layers_and_release, rule
from fedjax_priv.systems.composition.refusals import why_not
from fedjax_priv.systems.composition.settled import settled
from fedjax_priv.systems.composition.stack import Compress, Private, Secure, Stack, Way, Weigh
from fedjax_priv.systems.over_the_air.analog_uploads import analog_uploads

COMMITTEE = HandsOn(thresholded_masks, ("committee", "quorum"))
AIR = HandsOn(analog_uploads, ("receiver_noise", "snr_db", "power_control", "known_count"))
_ENROLLED = ("threshold", "elide", "key_agreement", "prg")
"""Options that masks of one enrolment and masks of a committee take."""
_CHOICES = {"compress": Compress, "private": Private, "secure": Secure, "channel": Way, "weigh": Weigh}


@of_known_arguments
def compose(
    local: Local,
    *,
    num_clients: int,
    num_params: int | None = None,
    compress: Compress = "none",
    ratio: float = 0.05,
    k: int | None = None,
    error_feedback: bool = False,
    alpha: float | Array = 0.0,
    private: Private = "none",
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    norm_bound: float | Array | None = None,
    max_entry: float | Array | None = None,
    check_range: bool = False,
    secure: Secure = "none",
    buffer_size: int | None = None,
    levels: float | Array = 2.0**20,
    channel: Way = "erasure",
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    weigh: Weigh = "equal",
    exact: bool = True,
    aggregate: Aggregator | None = None,
    num_byzantine: int = 0,
    attack: AnyAttack | None = None,
    group_attack: AnyAttack | None = None,
    field_attack: FieldAttack | None = None,
    coordinate_attack: CoordinateAttack | None = None,
    cohort_size: int | None = None,
    cohort: Draw | None = None,
    **how: Annotated[Any, MASKS, COMMITTEE, PROOFS, AIR, ROUND],
) -> Algorithm:
    """Builds a system from parts, in the right order. It refuses parts that do not fit together, and says why.

    `systems.composition.why_not` says the same without building anything. An argument means what it means in the
    published system that has it: `compose(local, num_clients=n, num_params=d, compress="conspar", secure="secagg",
    buffer_size=2, aggregate=centered_clipping())` is `fedrep`, bit for bit.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      num_params: parameters of the model, d; needed to compress.
      compress: "rand_k" and "top_k": each client chooses k coordinates; "common": all send the same random k;
        "jl": all send k numbers of a random projection; "conspar": all send the coordinates that any of them proposes.
      ratio: fraction of the d coordinates that are sent; under "sparse_secagg" the upper bound alpha of that paper.
      k: number of coordinates, or of numbers of a projection; replaces `ratio`. Under "conspar", the number of
        coordinates that all proposals together name.
      error_feedback: a client adds what it did not send to its next update; "conspar" always does.
      alpha: under "conspar", fraction of its proposal that a client replaces by random coordinates.
      private: "local": each client adds Gaussian noise that suffices alone; "field": a share of Skellam noise, to field
        elements under a mask.
      clip: largest Euclidean norm of what an honest client sends, but for the weight that goes with "survivors"; no
        clipping if not given. Needed for noise.
      noise_variance: of each client's noise at each coordinate it sends; under "field" static in a sweep.
      norm_bound: the server leaves out an upload of field elements unless its sender proves that it has at most this
        Euclidean norm (`layers.validate_norm`); no proofs if not given. Under "field" at least `clip`, and uploads may
        be longer by their noise: runs have `accepted_norm`, in grid points. Under "local" it is the norm of the update
        and its noise, so leave room for about `sqrt(clip^2 + noise_variance d)`, or honest uploads are left out. Static
        in a sweep.
      max_entry: the proof of `norm_bound` also says that no value has a larger magnitude than this; at most
        `norm_bound`. Not under "field"; static in a sweep.
      check_range: the rule gets no row whose sum clients that clip cannot have, such as one with random field elements
        in it (`layers.check_range`). Needs `clip`, static in a sweep.
      secure: "secagg": pairwise masks; "sparse_secagg": on coordinates that pairs pick; "enrolled": masks of one
        enrolment; "thresholded": coordinates that clients choose, opened by a committee where `threshold` of them chose
        the same (3 if not given); "field": field elements summed in the clear; "none": floats in the clear.
      buffer_size: clients whose uploads are summed to a row of the rule. If not given, all of them; one where floats
        are in the clear and the rule is not the mean.
      levels: grid points of the quantizer per unit.
      channel: "erasure": uploads are lost; "multiple_access" and "orthogonal": analog uploads over the air.
      dropout: probability that an upload is lost.
      leave: probability that a survivor is gone when the server asks for shares.
      weigh: "equal": rows are plain means; "survivors": weighted by samples, over those that arrive; "expected": scaled
        so that the mean of the sum over cohorts and dropouts is the weighted mean of all, where a draw lets all clients
        into cohorts equally often and fills its places (a Poisson cohort with a capacity leaves some empty).
      exact: sum floats in the clear in fixed point, with the same bits for every block and number of devices.
      aggregate: rule across rows; the mean if not given.
      num_byzantine: clients 0 to f - 1 are Byzantine. Those of `cohort` if that has its own; none over the air.
      attack: attack on the values that Byzantine clients send, after compression, clipping and noise. The weight that
        goes with "survivors" stays their own.
      group_attack: attack on the means of `buffer_size` clients that are the rows of the rule, of which Byzantine
        members choose theirs; instead of `attack`.
      field_attack: attack on the field elements that they put into a sum, but for that weight.
      coordinate_attack: attack on the coordinates that they propose.
      cohort_size: clients drawn each round; everyone if not given.
      cohort: another draw, such as `clients.scheduled` or, over the air, `clients.channel_aware`. It also says how many
        clients a cohort has and which are Byzantine, so `cohort_size` and `num_byzantine` can be left out; if you give
        them, they must agree with it.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `committee` and `quorum` of `layers.thresholded_masks`; `proof` and
        `verdict` of `layers.validate_norm`; `receiver_noise`, `snr_db`, `power_control` and `known_count` of
        `analog_uploads`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range, or parts that cannot be together.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = compose(local, num_clients=20, secure="secagg", dropout=0.2)
    """
    if clip is not None:
        _validate.positive(clip=clip)
    if num_params is not None:
        _validate.integer(num_params=num_params)
    _validate.one_of((True, False), exact=exact)
    stack = _checked(
        Stack(
            num_clients=num_clients, compress=compress, private=private, secure=secure, channel=channel,
            aggregate=aggregate, buffer_size=buffer_size, weigh=weigh, num_byzantine=num_byzantine, attack=attack,
            group_attack=group_attack, field_attack=field_attack, coordinate_attack=coordinate_attack, clip=clip,
            noise_variance=noise_variance, norm_bound=norm_bound, max_entry=max_entry, check_range=check_range,
            error_feedback=error_feedback, alpha=alpha,
            dropout=loss_rate(dropout), leave=leave, cohort_size=cohort_size, cohort=cohort,
        )
    )  # fmt: skip
    masks, rest = MASKS.split(how)
    committee, rest = COMMITTEE.split(rest)
    proofs, rest = PROOFS.split(rest)
    air, run = AIR.split(rest)
    _sizes(stack, HandsOn(compose, ("k", "ratio", "levels")).given({"k": k, "ratio": ratio, "levels": levels}))
    given = _options(stack, MASKS.given(masks), COMMITTEE.given(committee), AIR.given(air))
    d, air = 0 if num_params is None else num_params, AIR.given(air)
    of = Numbers(d, ratio, k, levels, exact, given, PROOFS.given(proofs))
    if norm_bound is None:
        without_bound(of.proofs)
    parts = _on_the_air(stack, air) if stack.on_the_air else _on_wires(stack, of)
    return federated_round(local=local, aggregate=rule(stack, of), num_clients=num_clients, **parts, **run)


def _checked(stack: Stack) -> Stack:
    for name, choices in _CHOICES.items():
        _validate.one_of(get_args(choices), **{name: getattr(stack, name)})
    for name in ("error_feedback", "check_range"):
        _validate.one_of((True, False), **{name: getattr(stack, name)})
    _validate.integer(num_clients=stack.num_clients)
    _validate.integer(at_least=0, num_byzantine=stack.num_byzantine)
    for name in ("buffer_size", "cohort_size"):
        if (size := getattr(stack, name)) is not None:
            _validate.integer(**{name: size})
    if stack.aggregate is not None:
        _validate.part(Aggregator, "aggregators.krum(num_byzantine=2)", aggregate=stack.aggregate)
    if stack.cohort is not None:
        _validate.part(Draw, "clients.everyone()", cohort=stack.cohort)
    if refusal := why_not(stack):
        raise ValueError(refusal.sentence)
    return settled(stack)


def _sizes(s: Stack, given: dict[str, Any]) -> None:
    """Refuses sizes of an upload, and levels of a grid, that the stack has no use for."""
    levels = {name: value for name, value in given.items() if name == "levels"}
    used = {"levels", "ratio"} if s.secure == "sparse_secagg" else {"levels"}
    if s.compress == "none":
        not_together({name: value for name, value in given.items() if name not in used}, f"compress={s.compress!r}")
    if not s.in_field:
        not_together(levels, f"secure={s.secure!r}")


def _options(s: Stack, masks: dict[str, Any], committee: dict[str, Any], air: dict[str, Any]) -> dict[str, Any]:
    """Options of masks and of a committee; none may be given that the stack has no use for.

    An audit elides masks wherever it can.
    """
    if not s.masked:
        masks = but_elide(masks)
        not_together(masks, f"secure={s.secure!r}")
    if s.secure in ("enrolled", "thresholded"):
        unknown = {name: value for name, value in masks.items() if name not in _ENROLLED}
        not_together(unknown, f"secure={s.secure!r}")
    if s.secure != "thresholded":
        not_together(committee, f"secure={s.secure!r}")
    if not s.on_the_air:
        not_together(air, f"channel={s.channel!r}")
    return masks | committee


def _on_wires(s: Stack, of: Numbers) -> dict[str, Any]:
    layers, release = layers_and_release(s, of)
    return {
        "cohort": _draw(s), "layers": layers, "channel": erasure(s.dropout, leave=s.leave),
        "release": release,
    }  # fmt: skip


def _draw(s: Stack) -> Draw:
    if s.cohort is not None:
        return marked(s.cohort, s.cohort.byzantine if how_many(s.cohort.byzantine) else s.num_byzantine)
    if s.cohort_size is not None or s.secure == "enrolled":
        return sample(s.clients_in_a_row, num_byzantine=s.num_byzantine)
    return everyone(s.rows, num_byzantine=s.num_byzantine)


def _on_the_air(s: Stack, air: dict[str, Any]) -> dict[str, Any]:
    draw = bernoulli(1.0, fading=rician()) if s.cohort is None else s.cohort
    sent = analog_uploads(
        draw, clip=s.clip, noise_variance=0.0 if s.noise_variance is None else s.noise_variance,
        access="multiple" if s.channel == "multiple_access" else "orthogonal", **air,
    )  # fmt: skip
    return {"cohort": sent.draw, "layers": stack_of(**sent.layers), "channel": sent.channel, "release": sent.release}
