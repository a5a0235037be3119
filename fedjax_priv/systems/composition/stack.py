"""The choices of a composed system as plain values, before anything is built."""

from typing import Any, Literal, NamedTuple

from fedjax_priv import _validate
from fedjax_priv.aggregators.rules.mean import is_mean
from fedjax_priv.base import Aggregator

Compress = Literal["none", "rand_k", "top_k", "common", "jl", "conspar"]
Private = Literal["none", "local", "field"]
Secure = Literal["none", "field", "secagg", "sparse_secagg", "enrolled", "thresholded"]
Way = Literal["erasure", "multiple_access", "orthogonal"]
Weigh = Literal["equal", "survivors", "expected"]


class Stack(NamedTuple):
    """Those arguments of `systems.compose`, under the same names, that decide what goes together.

    A stack is cheap to make: nothing is built or compiled, so whole grids of them can be asked `why_not`.
    """

    num_clients: int
    compress: Compress = "none"
    private: Private = "none"
    secure: Secure = "none"
    channel: Way = "erasure"
    aggregate: Aggregator | None = None  # None: the mean
    buffer_size: int | None = None
    weigh: Weigh = "equal"
    num_byzantine: int = 0
    attack: Any = None
    group_attack: Any = None
    field_attack: Any = None
    coordinate_attack: Any = None
    clip: Any = None
    noise_variance: Any = None
    norm_bound: Any = None
    max_entry: Any = None
    check_range: bool = False
    error_feedback: bool = False
    alpha: Any = 0.0
    dropout: Any = 0.0
    leave: Any = 0.0
    cohort_size: int | None = None
    cohort: Any = None

    @property
    def averages(self) -> bool:
        """Whether the rule is the mean."""
        return self.aggregate is None or is_mean(self.aggregate)

    @property
    def sums_as_trained(self) -> bool:
        """Whether every update is in the sum as it was trained: equal noise of local steps then adds up."""
        whole = self.clip is None is self.norm_bound and self.compress == "none"
        return whole and self.weigh == "equal" and not self.num_byzantine

    @property
    def on_the_air(self) -> bool:
        """Whether uploads are analog signals."""
        return self.channel != "erasure"

    @property
    def masked(self) -> bool:
        """Whether the server sees sums of uploads and no upload."""
        return self.secure in ("secagg", "sparse_secagg", "enrolled", "thresholded")

    @property
    def in_field(self) -> bool:
        """Whether uploads are elements of F_q."""
        return self.secure != "none"

    @property
    def sends_weights(self) -> bool:
        """Whether an upload carries its weight in one more coordinate."""
        return self.weigh == "survivors" and self.secure != "sparse_secagg"

    @property
    def own_coordinates(self) -> bool:
        """Whether each client sends other coordinates than its peers."""
        return self.compress in ("rand_k", "top_k")

    @property
    def clients_in_a_row(self) -> int:
        """Clients whose uploads are added up in a row: of a robust rule in the clear one, else all who take part."""
        if self.buffer_size is not None:
            return self.buffer_size
        return 1 if self._apart else self.num_clients if self.cohort_size is None else self.cohort_size

    @property
    def rows(self) -> int:
        """Rows that the rule gets."""
        one = self.buffer_size is None and not self._apart
        return 1 if one else self.num_clients // self.clients_in_a_row

    @property
    def _apart(self) -> bool:
        return self.secure == "none" and not self.on_the_air and not self.averages


def is_zero(number: Any) -> bool:
    """Whether a number is known to be 0."""
    return _validate.is_known_as(0, number)
