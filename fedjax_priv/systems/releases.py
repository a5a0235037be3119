"""What the rounds of a system give away of a client: one type for each mechanism.

The ledger has an accountant for each type and the audit a plan; a release of any other type has no guarantee.
"""

from typing import Any, Literal, NamedTuple

from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv.base import Layer
from fedjax_priv.layers.rounded_norm import FAILURE
from fedjax_priv.layers.secure_sum.masked_sum import Protocol


class DistributedNoise(NamedTuple):
    """Noise that every client adds to the integers it sends, which are added in F_q or modulo 2**bits."""

    noise_variance: float  # of one client's noise at a coordinate, in squared grid points; s^2 if discrete Gaussian
    max_norm: float  # largest Euclidean norm of what a client sends, in grid points
    clip: float | Array  # the same norm in units of the update
    group_size: int  # clients in a sum; 1: each upload is seen alone
    threshold: int = 1  # clients that open a sum, or together every upload
    num_values: int | None = None  # numbers a client sends; None: all parameters
    byzantine: int = 0  # clients that may leave their noise out
    condition: str = ""  # under which the figures hold, in words
    law: Literal["skellam", "discrete_gaussian"] = "skellam"
    failure: float = FAILURE  # probability that rounding makes a vector longer than is accepted
    bits: int | None = None  # B, of a sum modulo 2**B of rotated updates; None: in F_q
    weight_cap: float | None = None  # samples from which on an update is clipped at weight 1; None: all have it


class NoisyUploads(NamedTuple):
    """Clipped updates with Gaussian noise of each client, whatever is made of them after."""

    clip: float | Array  # C, largest norm of what a client sends, before noise
    noise_variance: float | Array  # of a client's noise at a coordinate
    masked: bool = False  # masks hide single uploads; figures do not count on it
    masks: Protocol | None = None  # as in `Sum`; None too where nothing is masked
    condition: str = ""  # under which the figures hold, in words


class Opening(NamedTuple):
    """What it takes to open the masks of a secure sum."""

    fewest: int  # uploads in a sum that is opened
    colluders: int  # who may show the server single uploads, or parts of them
    condition: str = ""  # under which fewer learn sums only, in words

    @classmethod
    def of(cls, layer: Layer) -> "Opening | None":
        """As an innermost layer states it; None where it does not, or where its protocol says more."""
        sums = layer.sums
        if sums.opened_by is None or sums.protocol is not None:
            return None
        return cls(sums.threshold, sums.opened_by, sums.condition)


class Sum(NamedTuple):
    """Secure sums of the updates of groups, on all coordinates or on public ones."""

    noise: DistributedNoise | None = None
    masks: Protocol | None = None  # how uploads are masked; None: by a protocol of another kind
    group_size: int | None = None  # clients in a sum; None: all of a round
    opening: Opening | None = None  # of masks of another kind; None: not known, or as `masks` say
    condition: str = ""  # under which what is opened tells no more than one sum of updates, in words


class SparseSum(NamedTuple):
    """A secure sum in which every pair of clients picks its own coordinates (SparseSecAgg)."""

    alpha: float | Array  # upper bound of the fraction of coordinates a client sends
    noise: DistributedNoise | None = None
    masks: Protocol | None = None  # as in `Sum`


class ThresholdedSum(NamedTuple):
    """A secure sum of coordinates that each client chooses, opened where enough clients chose the same."""

    threshold: int  # clients that must have sent a coordinate
    quorum: int  # members of the committee that open every value together, or take the committee's masks off it
    in_pairs: bool = False  # pairs of clients mask values, too


class ProposedCoordinates(NamedTuple):
    """Sums over buffers on coordinates that clients propose in the clear (FedREP)."""

    num_params: int  # d
    num_coordinates: int  # n, proposed by a client
    alpha: float | Array  # fraction of its largest coordinates that a client replaces by random ones
    masked: bool  # the sums are secure
    noise: DistributedNoise | NoisyUploads | None = None
    masks: Protocol | None = None  # as in `Sum`; None too where nothing is masked
    group_size: int | None = None  # as in `Sum`
    opening: Opening | None = None  # as in `Sum`


class OverTheAir(NamedTuple):
    """Clipped, noisy updates sent uncoded over a wireless channel."""

    clip: float | Array  # L, largest norm of an update before noise
    noise_variance: ArrayLike  # of a client's noise at a coordinate: of all clients, or [n]
    receiver_noise: float | Array  # N0, variance at a channel use
    access: Literal["multiple", "orthogonal"]  # updates add up on the air, or each has its own link
    power: Array | None  # P_k / d, energy of a channel use: of all clients, or [n]; None: no limit
    control: str  # what gives way where power does not suffice, see `layers.align`
    known_count: bool = True  # the server learns how many clients sent
    level: Any = 1.0  # c_t, amplitude at which clients are received: a number, of (round, gain [n]), or `Levels`
    knowledge: Any = None  # what clients know of their gains, of `channels.knowledge`; None: everything
    truncation: ArrayLike | None = None  # least squared gain, known to the client, with which it sends; None: all send
    coordinates_per_use: int = 1  # of an update in a complex use of the channel, where clients do not know their gains


class BlindUploads(NamedTuple):
    """Clipped, noisy updates that all clients send at one amplitude, heard by several antennas."""

    clip: float | Array  # L, largest norm of an update before noise
    noise_variance: ArrayLike  # of a client's noise at a coordinate: of all clients, or [n]
    receiver_noise: float | Array  # N0, variance of an antenna's noise in each real dimension
    antennas: int  # M
    amplitude: Any  # b, at which all send: a number, or a function of the number of parameters
    every_antenna: bool  # the simulation has what each antenna hears, as the server does in any case
    anew: bool  # gains are Rayleigh, drawn anew in each round
    link_power: ArrayLike  # mean of |h|^2 at an antenna: of all clients, or [n]
    coordinates_per_use: int = 1  # of an update in a complex use of the channel


class Vote(NamedTuple):
    """Signs of updates, of which the server receives the noisy sum."""

    clip: float | Array | None  # L, largest norm of an update before its own noise; None: not clipped
    noise_variance: float | Array | None  # of a client's noise before the sign; None: no noise
    level: float | Array | None  # c, amplitude of a received sign; None: phases are unknown, and no figure counts them
    receiver_noise: float | Array  # N0, variance at a channel use
    condition: str = ""  # under which the receiver's noise hides signs, in words


class SketchedUploads(NamedTuple):
    """Public projections of updates, clipped and with Gaussian noise, each seen alone (RobAJoL)."""

    clip: float | Array  # C, largest norm of what noise is added to
    noise_multiplier: float | Array  # sigma: standard deviation of the noise at a coordinate over `clip`
    dense: bool = False  # which projection, see `layers.jl`


class LocalNoise(NamedTuple):
    """Noise on every local step, whose uploads are summed (CDP-FL, DP-SGD); `Algorithm.steps` has the steps."""

    secure: bool  # only the sum is seen; otherwise each upload is
    levels: float | Array  # grid points of the quantizer per unit
    max_terms: int  # uploads that there is room for in a sum: a client whose update is too long for that says so


class Participation(NamedTuple):
    """How clients come to take part in a round, as far as proofs use it."""

    sampling: Literal["everyone", "poisson", "fixed_size", "cyclic_poisson", "separated"]
    rate: float = 1.0  # of a coin, tossed each time that a client or its group may take part; or m / N
    separation: int = 1  # b: two participations of a client are at least so many rounds apart
    capacity: int | None = None  # most clients of a round, a uniform subset of those drawn; None: no limit


class CentralNoise(NamedTuple):
    """Gaussian noise that the server adds to a sum of clipped updates (DP-FedAvg, DP-FTRL)."""

    noise_multiplier: float | Array  # z: standard deviation of the sum's noise over `clip`; of the seed if correlated
    clip: float | Array  # C, largest norm of what a client adds to the sum; adaptive: of the first round
    participation: Participation
    population: int  # N
    secure: bool  # the server gets the exact sum and no update; who came decides if it is opened: zero-out only
    correlation: Any = None  # how noise of different rounds is correlated; None: independent
    masks: Protocol | None = None  # as in `Sum`; None too where the sum is not secure
    stays: float | Array = 1.0  # chance that what a client of a secure sum sends arrives, and that it helps to open it
    weight_cap: float | None = None  # samples from which on an update is clipped at weight 1; None: all have it
    adaptive: bool = False  # the clipping norm moves with bits of clients, which the noise covers too


class NoisyBuffers(NamedTuple):
    """Gaussian noise that the server adds to a sum of clipped updates, of which older ones weigh less (FedBuff)."""

    noise_multiplier: float | Array  # z: standard deviation of the sum's noise over `clip`
    clip: float | Array  # C, largest norm of an update before it is weighted
    power: float | Array  # an update tau rounds behind has weight (1 + tau)^-power
    weight_levels: int | None = None  # c_g: the weight is the run's `factor` over it, about as much; None: exactly
    secure: bool = False  # the server gets the exact sum of each buffer, and no update
    max_jobs: int | None = None  # after which a client stops; None: any number


Release = (
    NoisyUploads | SketchedUploads | Sum | SparseSum | ThresholdedSum | ProposedCoordinates | OverTheAir
    | BlindUploads | Vote | LocalNoise | CentralNoise | NoisyBuffers
)  # fmt: skip
