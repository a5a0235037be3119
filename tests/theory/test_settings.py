"""A setting of another kind is refused by name where its fields are first read."""

import jaxtyping
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import discrete_gaussian, fedrep, sampled_gaussian, secagg_plus
from fedjax_priv.theory.cdp_fl import claimed, convergence, counterexamples, proved, training
from fedjax_priv.theory.correlated_noise import accounting, sensitivity, workload
from fedjax_priv.theory.fedrep import convergence as fedrep_convergence
from fedjax_priv.theory.fedrep import lemmas
from fedjax_priv.theory.sampled_gaussian import rounds as sampled_rounds
from fedjax_priv.theory.sparse_secagg import components, privacy, selection, thresholded_opening
from fedjax_priv.theory.sparse_secagg import convergence as sparse_convergence
from fedjax_priv.theory.wireless import (
    Round,
    composition,
    counterexample,
    energy_allocation,
    gradient_estimate,
    other_schemes,
    power_limited,
)
from fedjax_priv.theory.wireless import claimed as wireless_claimed
from fedjax_priv.theory.wireless import convergence as wireless_convergence
from fedjax_priv.theory.wireless import rounds as wireless_rounds

ONES, ROUND = np.ones(1), Round(10, 0.5, 1.0, 1.0)
PROBLEM, DEFENCE = fedrep.Problem(1.0, 0.0, 2.0, 0.1, 1.0), fedrep.Defence(1.0)
ALGORITHM = fedrep.LocalAlgorithm(1.0, 0.0, 1.0)

READERS = [
    (training.checked, (), "training must be a Training"),
    (claimed.upload_epsilon, (0.1,), "training must be a Training"),
    (claimed.printed_rho, (), "training must be a Training"),
    (claimed._whole_passes, (), "training must be a Training"),
    (convergence._constants, (), "problem must be a Problem"),
    (convergence._fields, (), "schedule must be a Schedule"),
    (proved.proved_epsilon, (0.1,), "proved must be a Proved"),
    (counterexamples.true_epsilon, (0.1,), "law must be a Law"),
    (sensitivity.checked, (), "schedule must be a Schedule"),
    (workload.checked, (), "workload must be a Workload"),
    (discrete_gaussian._check_sum, (), "of must be a Sum"),
    (discrete_gaussian._check_grid, (), "grid must be a Grid"),
    (secagg_plus._check, (), "graph must be a Graph"),
    (selection.survivors, (), "setting must be a Setting"),
    (sampled_rounds.checked, (), "one must be a Round"),
    (wireless_rounds.checked, (), "setting must be a Round"),
    (wireless_rounds.noises, (), "setting must be a Round"),
    (wireless_rounds.in_order, (3,), "setting must be a Round"),
    (wireless_rounds.without_receiver, (), "setting must be a Round"),
    (wireless_claimed.central_epsilon_sharp, (1e-5, 1e-4), "setting must be a Round"),
    (composition.compose_heterogeneous_closed, (1e-5, 1e-4, 1e-5), "setting must be a Round"),
    (other_schemes._most, (), "setting must be a Round"),
    (counterexample.removal_counterexample, (10, 1e-5, 1e-4), "setting must be a Round"),
    (power_limited._mechanisms, ([1.0], 1), "setting must be a Round"),
    (gradient_estimate.estimate_moments_known, ([[1.0]],), "setting must be a Round"),
    (wireless_convergence._bound, (4.0, 1000), "problem must be a Problem"),
    (wireless_convergence._constants, (ROUND,), "problem must be a Problem"),
    (components.isolated_fraction, (), "setting must be a Setting"),
    (components.component_fraction, (1,), "setting must be a Setting"),
    (privacy.aggregated_honest_clients, (), "setting must be a Setting"),
    (privacy.aggregated_honest_clients_limit, (), "setting must be a Setting"),
    (thresholded_opening._survivors, (), "setting must be a Setting"),
    (sparse_convergence._check, (), "problem must be a Problem"),
    (lemmas.constants, (), "problem must be a Problem"),
    (lemmas.disturbance, (), "defence must be a Defence"),
]

ELSEWHERE = [
    (lambda wrong: accounting.by_coins(wrong, ONES, sensitivity.Schedule(1, 1)), "one must be a Round"),
    (lambda wrong: sampled_gaussian.noise_multiplier_for(1.0, 0.1, wrong, 2), "one must be a Round"),
    (lambda wrong: energy_allocation.dual_value(ONES, wrong, 1.0), "found must be an Allocation"),
    (lambda wrong: wireless_convergence.convergence_bound_optimal(None, wrong, 0.1, 1), "setting must be a Round"),
    (lambda wrong: fedrep_convergence._bound(PROBLEM, DEFENCE, wrong, 1), "algorithm must be a LocalAlgorithm"),
    (lambda wrong: fedrep_convergence._bound(PROBLEM, wrong, ALGORITHM, 1), "defence must be a Defence"),
]


@pytest.fixture(autouse=True)
def without_checks_of_annotations():
    """As users call these functions: tests check annotations before a function can say what is wrong."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


test_what_is_no_setting_is_refused_by_name = refused(
    *(
        (lambda read=read, wrong=wrong, others=others: read(wrong, *others), f"{said}, got")
        for read, others, said in [*READERS, *((read, (), said) for read, said in ELSEWHERE)]
        for wrong in ("x", None, (1, 2))
    )
)
