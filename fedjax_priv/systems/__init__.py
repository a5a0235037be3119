"""Published systems, each one expression over the parts.

- `in_the_clear/`, `secure_sums/`: the server sees every update, or sums of updates.
- `central_noise/`: noise of the server on sums of clipped updates.
- `robust/`: tolerate Byzantine clients. `noisy_steps/`: noise in every local step. `over_the_air/`: a wireless channel.
- `composition/`: any stack of these parts, and why some cannot be together.
- `releases`: what the rounds of a system give away, one type for each mechanism.
- `_arguments`, `_distributed_noise`: arguments, attacks and noise that several systems take. `_known_arguments`: what
  a system says to an argument that it does not have.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.systems.central_noise.dp_fedavg import dp_fedavg
    from fedjax_priv.systems.composition.compose import compose
    from fedjax_priv.systems.in_the_clear.fedavg import fedavg
    from fedjax_priv.systems.in_the_clear.fedbuff import fedbuff
    from fedjax_priv.systems.in_the_clear.fednova import fednova
    from fedjax_priv.systems.in_the_clear.majority_vote import majority_vote
    from fedjax_priv.systems.in_the_clear.scaffold import scaffold
    from fedjax_priv.systems.in_the_clear.sparse_fedavg import sparse_fedavg
    from fedjax_priv.systems.noisy_steps.cdp_fl import cdp_fl
    from fedjax_priv.systems.noisy_steps.dp_sgd import dp_sgd
    from fedjax_priv.systems.over_the_air.blind_wireless import blind_wireless
    from fedjax_priv.systems.over_the_air.digital_fedavg import digital_fedavg
    from fedjax_priv.systems.over_the_air.votes import over_the_air_vote, two_tone_vote
    from fedjax_priv.systems.over_the_air.wireless import wireless
    from fedjax_priv.systems.robust.f2ed import f2ed
    from fedjax_priv.systems.robust.fedrep import fedrep
    from fedjax_priv.systems.robust.rcgd_ef import rcgd_ef
    from fedjax_priv.systems.robust.robajol import robajol
    from fedjax_priv.systems.robust.robust_fedavg import robust_fedavg
    from fedjax_priv.systems.robust.share import share
    from fedjax_priv.systems.secure_sums.common_secagg import common_secagg
    from fedjax_priv.systems.secure_sums.distributed_dp_fedavg import distributed_dp_fedavg
    from fedjax_priv.systems.secure_sums.flamingo import flamingo
    from fedjax_priv.systems.secure_sums.lightsecagg import lightsecagg
    from fedjax_priv.systems.secure_sums.one_shot_secagg import one_shot_secagg
    from fedjax_priv.systems.secure_sums.secagg import secagg
    from fedjax_priv.systems.secure_sums.secure_fedbuff import secure_fedbuff
    from fedjax_priv.systems.secure_sums.sparse_secagg import sparse_secagg
    from fedjax_priv.systems.secure_sums.thresholded_secagg import thresholded_secagg
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "blind_wireless", "cdp_fl", "common_secagg", "compose", "digital_fedavg", "distributed_dp_fedavg", "dp_fedavg",
    "dp_sgd", "f2ed", "fedavg", "fedbuff", "fednova", "fedrep", "flamingo", "lightsecagg", "majority_vote",
    "one_shot_secagg", "over_the_air_vote", "rcgd_ef", "robajol", "robust_fedavg", "scaffold", "secagg",
    "secure_fedbuff", "share", "sparse_fedavg", "sparse_secagg", "thresholded_secagg", "two_tone_vote", "wireless",
]  # fmt: skip
