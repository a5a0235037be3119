"""A setting of another kind is refused by name where its fields are first read."""

from inspect import unwrap

from refusals import refused

from fedjax_priv.theory import discrete_gaussian, sampled_gaussian, secagg_plus
from fedjax_priv.theory.cdp_fl import claimed, convergence, counterexamples, proved, training
from fedjax_priv.theory.correlated_noise import sensitivity, workload
from fedjax_priv.theory.sampled_gaussian import rounds as sampled_rounds
from fedjax_priv.theory.sparse_secagg import selection
from fedjax_priv.theory.wireless import rounds as wireless_rounds

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
]

test_what_is_no_setting_is_refused_by_name = refused(
    *(
        (lambda read=read, wrong=wrong, others=others: unwrap(read)(wrong, *others), f"{said}, got")
        for read, others, said in READERS
        for wrong in ("x", None, (1, 2))
    ),
    (
        lambda: unwrap(sampled_gaussian.noise_multiplier_for)(1.0, 0.1, None, 2),
        "one must be a Round, got None",
    ),
)
