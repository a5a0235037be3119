"""A case of each system, for the laws that every system keeps."""

from fedjax_priv import server_noise, systems
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Stated
from fedjax_priv.channels import estimated, rayleigh
from fedjax_priv.clients import LocalSteps
from fedjax_priv.clients.control_variates import corrected_step
from fedjax_priv.testing import NUM_PARAMS as D


def make_secagg(local, num_clients, **how):
    return systems.secagg(local, num_clients=num_clients, levels=2.0**16, dropout=0.2, **how)


def make_fednova(local, num_clients, **how):
    """Of training that states one step."""
    steps = LocalSteps("plain", clip=None, sigma=0.0, batch_size=None, num_steps=1, num_epochs=None)
    local = local._replace(apply=Stated(local.apply, steps))
    return systems.fednova(local, dropout=0.2, cohort_size=num_clients - 2, **how)


def make_scaffold(local, num_clients, **how):
    """Of training that takes one step along its update."""
    local = local._replace(apply=Stated(local.apply, corrected=corrected_step(local.apply)))
    return systems.scaffold(local, num_clients=num_clients, **how)


SYSTEMS = {
    "fedavg": lambda local, n, **how: systems.fedavg(local, dropout=0.2, **how),
    "fedavg, cohort": lambda local, n, **how: systems.fedavg(local, dropout=0.2, cohort_size=n - 2, **how),
    "fedbuff": lambda local, n, **how: systems.fedbuff(local, num_clients=n, buffer_size=3, concurrency=4, **how),
    "fedbuff, private": lambda local, n, **how: systems.fedbuff(
        local, num_clients=n, buffer_size=3, concurrency=4, clip=20.0, noise_multiplier=1e-4, **how
    ),
    "fednova": make_fednova,
    "scaffold": lambda local, n, **how: make_scaffold(local, n, cohort_size=n - 2, dropout=0.2, **how),
    "scaffold, secure": lambda local, n, **how: make_scaffold(local, n, secure=True, dropout=0.1, leave=0.1, **how),
    "secure_fedbuff": lambda local, n, **how: systems.secure_fedbuff(
        local, num_clients=n, num_params=D, buffer_size=3, concurrency=4, colluders=1, lost=1, dropout=0.1,
        normalize="buffer", **how,
    ),
    "secure_fedbuff, private": lambda local, n, **how: systems.secure_fedbuff(
        local, num_clients=n, num_params=D, masks="one_shot", coins=2, buffer_size=5, concurrency=3, committee=3,
        threshold=2, fewest=2, length=4, normalize="buffer", clip=20.0, noise_multiplier=1e-4, max_jobs=100, **how,
    ),
    "secagg": make_secagg,
    "secagg, survivors": lambda local, n, **how: make_secagg(local, n, normalize="survivors", leave=0.1, **how),
    "secagg, cohort": lambda local, n, **how: make_secagg(local, n, cohort_size=n - 1, **how),
    "secagg, neighbours": lambda local, n, **how: make_secagg(local, n, neighbours=4, threshold=2, **how),
    "lightsecagg": lambda local, n, **how: systems.lightsecagg(
        local, num_clients=n, num_params=D, lost=3, dropout=0.1, leave=0.1, **how
    ),
    "one_shot_secagg": lambda local, n, **how: systems.one_shot_secagg(
        local, num_clients=n, num_params=D, length=8, dropout=0.1, leave=0.1, **how
    ),
    "flamingo": lambda local, n, **how: systems.flamingo(
        local, num_clients=n, neighbours=4, committee=4, dropout=0.1, leave=0.1, **how
    ),
    "thresholded_secagg": lambda local, n, **how: systems.thresholded_secagg(
        local, num_clients=n, num_params=D, alpha=0.6, threshold=3, dropout=0.1, leave=0.1, committee=4, quorum=2, **how
    ),
    "thresholded_secagg, top_k": lambda local, n, **how: systems.thresholded_secagg(
        local, num_clients=n, num_params=D, alpha=0.6, threshold=3, select="top_k", committee=2, dropout=0.1, **how
    ),
    "cdp_fl": lambda local, n, **how: systems.cdp_fl(local, num_clients=n, dropout=0.1, leave=0.02, **how),
    "cdp_fl, cohort": lambda local, n, **how: systems.cdp_fl(local, num_clients=n, cohort_size=n - 2, **how),
    "dp_sgd": lambda local, n, **how: systems.dp_sgd(local, num_clients=n, dropout=0.1, **how),
    "sparse_secagg": lambda local, n, **how: systems.sparse_secagg(
        local, num_clients=n, cohort_size=n - 1, alpha=0.9, dropout=0.1, neighbours=4, threshold=2, **how
    ),
    "sparse_secagg, survivors": lambda local, n, **how: systems.sparse_secagg(
        local, num_clients=n, alpha=1.0, dropout=0.2, leave=0.1, expand="dense", normalize="survivors", **how
    ),
    "sparse_fedavg": lambda local, n, **how: systems.sparse_fedavg(
        local, num_params=D, k=8, error_feedback=True, dropout=0.1, **how
    ),
    "sparse_fedavg, cohort": lambda local, n, **how: systems.sparse_fedavg(
        local, num_params=D, k=25, sparsifier="rand_k", num_clients=n, cohort_size=n - 1, **how
    ),
    "robajol": lambda local, n, **how: systems.robajol(
        local, num_clients=n, num_params=D, k=9, clip=20.0, noise_multiplier=1e-3, aggregate=mean(), dropout=0.1, **how
    ),
    "fedrep": lambda local, n, **how: systems.fedrep(
        local, num_clients=n, num_params=D, ratio=0.5, alpha=0.3, buffer_size=1, in_the_clear=True, aggregate=mean(),
        dropout=0.1, **how,
    ),
    "share": lambda local, n, **how: systems.share(
        local, num_clients=n, buffer_size=n, aggregate=mean(), dropout=0.1, **how
    ),
    "f2ed": lambda local, n, **how: systems.f2ed(
        local, num_clients=n, buffer_size=1, in_the_clear=True, sigma=9.0, **how
    ),
    "robust_fedavg": lambda local, n, **how: systems.robust_fedavg(
        local, num_clients=n, aggregate=mean(), dropout=0.1, **how
    ),
    "wireless": lambda local, n, **how: systems.wireless(
        local, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, participation=0.9, **how
    ),
    "wireless, orthogonal": lambda local, n, **how: systems.wireless(
        local, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, participation=0.9, snr_db=60.0, access="orthogonal",
        known_count=False, power_control="signal", **how,
    ),
    "wireless, noise as one": lambda local, n, **how: systems.wireless(
        local, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, participation=0.9, noise_drawn="as one", **how
    ),
    "wireless, estimated": lambda local, n, **how: systems.wireless(
        local, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, fading=estimated(rayleigh(), pilot_energy=99.0),
        truncation=0.05, snr_db=60.0, power_control="bound", **how,
    ),
    "blind_wireless": lambda local, n, **how: systems.blind_wireless(
        local, antennas=64, clip=9.0, noise_variance=1e-3, receiver_noise=1e-3, pilot_energy=1.0, **how
    ),
    "digital_fedavg": lambda local, n, **how: systems.digital_fedavg(
        local, num_params=D, levels=8, fixed_rate=0.5, **how
    ),
    "majority_vote": lambda local, n, **how: systems.majority_vote(local, num_clients=n, dropout=0.1, **how),
    "over_the_air_vote": lambda local, n, **how: systems.over_the_air_vote(local, clip=9.0, noise_variance=1e-3, **how),
    "two_tone_vote": lambda local, n, **how: systems.two_tone_vote(local, energy=4.0, **how),
    "dp_fedavg": lambda local, n, **how: systems.dp_fedavg(
        local, num_clients=n, clip=20.0, noise_multiplier=1e-4, weight_cap=8.0, mean_weight=0.6, dropout=0.1, **how
    ),
    "dp_fedavg, correlated": lambda local, n, **how: systems.dp_fedavg(
        local, num_clients=n, clip=20.0, noise_multiplier=1e-4, cohort_size=n // 2, separation=2, dropout=0.1,
        noise=server_noise.banded([1.0, 0.5, 0.375]), **how,
    ),
    "dp_fedavg, secure": lambda local, n, **how: systems.dp_fedavg(
        local, num_clients=n, clip=20.0, noise_multiplier=1e-4, weight_cap=8.0, mean_weight=0.6, sampling_rate=0.8,
        secure=True, threshold=2, **how,
    ),
    "distributed_dp_fedavg": lambda local, n, **how: systems.distributed_dp_fedavg(
        local, num_clients=n, num_params=D, clip=20.0, noise_multiplier=1e-3, weight_cap=8.0, mean_weight=0.6,
        dropout=0.1, leave=0.02, **how,
    ),
    "distributed_dp_fedavg, cohort": lambda local, n, **how: systems.distributed_dp_fedavg(
        local, num_clients=n, num_params=D, clip=20.0, noise_multiplier=1e-3, noise="skellam", bits=18,
        cohort_size=n - 1, neighbours=4, threshold=2, weight_cap=8.0, mean_weight=0.6, **how,
    ),
    "rcgd_ef": lambda local, n, **how: systems.rcgd_ef(
        local, num_clients=n, num_params=D, ratio=0.5, trimmed=0.0, dropout=0.1, **how
    ),
    "compose": lambda local, n, **how: systems.compose(
        local, num_clients=n, secure="field", weigh="expected", dropout=0.1, **how
    ),
    "common_secagg": lambda local, n, **how: systems.common_secagg(
        local, num_clients=n, num_params=D, alpha=0.4, error_feedback=True, dropout=0.1, leave=0.1, **how
    ),
}  # fmt: skip


BOUNDED = {name for name in SYSTEMS if "dp_fedavg" in name} | {"fedbuff, private", "secure_fedbuff, private"}
RATE = 0.25
PLACES = {name: [] if "," in name else [(2, 2)] for name in SYSTEMS}
PLACES |= {name: [] for name in ("common_secagg", "distributed_dp_fedavg", "share")}
PLACES |= {"fedavg": [(2, 2), (1, 8), (2, 3)], "sparse_secagg": [(1, 8)], "wireless, estimated": [(2, 2)]}
"""Blocks and devices beside blocks of 3 on one: with eight devices one of them has none of the seven clients, with
three nothing divides. Every system is compiled anew for each, so only two systems go there, and those that put other
layers on the masks of `secagg` stay where they are."""
