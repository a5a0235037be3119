"""A choice in a signature is a choice of the check: all of them pass, and who gives another is told all."""

from inspect import signature, unwrap
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from fedjax_priv import aggregators, attacks, data, models
from fedjax_priv.data.client_arrays import Partition
from fedjax_priv.theory import discrete_gaussian, zcdp
from fedjax_priv.theory.cdp_fl import Training, proved_rho
from fedjax_priv.theory.correlated_noise import mu
from fedjax_priv.theory.robust_rules import krum_kappa, multi_krum_kappa

LABELS = np.arange(60) % 3
DATASET = data.Dataset(np.zeros((60, 1), np.float32), LABELS, np.zeros((3, 1), np.float32), LABELS[:3], num_classes=3)
OPTIONS = {
    "shards": {"num_shards": 6}, "gamma_similarity": {"gamma": 0.5}, "dirichlet": {"concentration": 1.0},
    "quantity_skew": {"concentration": 1.0}, "few_labels": {"labels_per_client": 1}, "lognormal": {},
}  # fmt: skip
SUM = discrete_gaussian.Sum(1.0, 100, 256, 16)
TRAINING = Training(30, 10, clip=1.0, num_selected=10, num_samples=1000, batch_size=100, sigma=0.5)


def federate(partition: Partition):
    return unwrap(data.federate)(DATASET, 3, partition, **OPTIONS.get(partition, {}))


CHOOSING = [
    (aggregators.caf, (1,)), (aggregators.centered_clipping, ()), (aggregators.coordinate_median, ()),
    (aggregators.multi_krum, (1,)), (aggregators.weiszfeld, ()),
    (attacks.min_max, ()), (attacks.min_sum, ()), (federate, ()), (models.mcmahan_cnn, ()),
    (discrete_gaussian.rdp, (10.0, 100, 10.0, 10)), (discrete_gaussian.calibrated, (SUM, 1.0, 1e-5)),
    (discrete_gaussian.epsilon, (SUM, discrete_gaussian.Grid(0.01, 0.5), 1e-5)), (zcdp.epsilon, (0.1, 1e-5)),
    (mu, (4.0, 2.0)), (krum_kappa, (10, 2)), (multi_krum_kappa, (10, 2)), (proved_rho, (TRAINING,)),
]  # fmt: skip
"""Functions, and what they need besides."""


@pytest.mark.filterwarnings("ignore:parts hold the first 57 of 60 samples")
@pytest.mark.parametrize(("function", "needed"), CHOOSING, ids=[function.__name__ for function, _ in CHOOSING])
def test_a_signature_lists_what_a_check_allows(function, needed):
    plain = unwrap(function)
    hints = get_type_hints(plain)
    listed = [name for name in signature(plain).parameters if get_origin(hints[name]) is Literal]
    choices = {name: get_args(hints[name]) for name in listed}
    assert choices
    for name, allowed in choices.items():
        for value in allowed:
            plain(*needed, **{name: value})
        with pytest.raises(ValueError, match=f"^{name} must be one of {', '.join(map(repr, allowed))}, got 'x'$"):
            plain(*needed, **{name: "x"})
