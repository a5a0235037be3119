"""The figures and tables of the paper on private wireless FedSGD, and results of ours."""

from experiments.harness import Experiment
from experiments.problem import Task
from experiments.wireless import (
    access,
    accountants,
    analog_or_digital,
    errata,
    fig2,
    fig3,
    fig6,
    fig7,
    participation,
    power_control,
    privacy_for_free,
    table_config,
    tables,
    thresholds,
    time_variant,
)
from experiments.wireless.accounting import Config as Accounting
from experiments.wireless.audit import Trials
from experiments.wireless.training import Setting
from fedjax_priv.theory.wireless import Round

ONE_LAYER, TWO_LAYERS = Setting(), Setting(Task("mnist", "mlp16"))
ONE_GROUP = {"groups": (200,), "snr_db": (10.0,)}
STRONG = {"groups": (200,), "snr_db": (30.0,)}  # power limits nobody, as the exact figures assume


def few(setting: Setting, **changes) -> Setting:
    """For scale `quick`: 40 users with scikit-learn's digits."""
    quick = setting._replace(
        task=setting.task._replace(dataset="digits"), groups=(14, 13, 13), learning_rate=0.02, evaluations=4, repeats=1
    )
    return quick._replace(**changes)


def fewer(setting: Setting, **changes) -> Setting:
    """For scale `cpu`: the paper's users, not as many repeats."""
    return setting._replace(**{"evaluations": 10, "repeats": 3} | changes)


FIGURES = {
    "fig2": Experiment(
        "Fig. 2 and Table I", "leakage against the number of users, of one round and of many, and its order in K",
        {"quick": fig2.Config(points=8), "cpu": fig2.Config(), "paper": fig2.Config()}, fig2.run,
    ),
    "fig3": Experiment(
        "Fig. 3", "convergence with a known and an unknown number of participants, bounds and accuracy",
        {
            "quick": fig3.Config(few(ONE_LAYER, **ONE_GROUP), (20,), (0.1, 0.9), rounds=20),
            "cpu": fig3.Config(fewer(ONE_LAYER, **ONE_GROUP), rounds=200),
            "paper": fig3.Config(ONE_LAYER._replace(**ONE_GROUP)),
        }, fig3.run, fig3.judge,
    ),
    "fig4": Experiment(
        "Fig. 4 and Table II", "channel-aware and uniform sampling, softmax regression, sigma^2 = 0.1",
        {
            "quick": table_config.config("II", few(ONE_LAYER), 80, 80),
            "cpu": table_config.config("II", fewer(ONE_LAYER), 400, 1000),
            "paper": table_config.config("II", ONE_LAYER, 400, 2500),
        }, tables.run, tables.judge,
    ),
    "fig5": Experiment(
        "Fig. 5 and Table III", "channel-aware and uniform sampling, a network with a hidden layer, sigma^2 = 0.8",
        {
            "quick": table_config.config("III", few(TWO_LAYERS), 60, 60),
            "cpu": table_config.config("III", fewer(TWO_LAYERS, repeats=1), 500, 500),
            "paper": table_config.config("III", TWO_LAYERS, table_config.CHOSEN, table_config.CHOSEN),
        }, tables.run, tables.judge,
    ),
    "fig6": Experiment(
        "Fig. 6", "leakage against the participation probability, for several c",
        {"quick": fig6.Config(points=60), "cpu": fig6.Config(), "paper": fig6.Config()}, fig6.run,
    ),
    "fig7": Experiment(
        "Fig. 7", "accuracy by iteration for several privacy noises, a network with a hidden layer",
        {
            "quick": fig7.Config(few(TWO_LAYERS), (0.1, 1.6), rounds=100),
            "cpu": fig7.Config(fewer(TWO_LAYERS, repeats=1)),
            "paper": fig7.Config(TWO_LAYERS._replace(repeats=3)),
        }, fig7.run, fig7.judge,
    ),
    "time_variant": Experiment(
        "", "Participation that changes from round to round: leakage, bounds and accuracy at equal means",
        {
            "quick": time_variant.Config(few(ONE_LAYER, groups=(40,), snr_db=(30.0,), repeats=2), rounds=20),
            "cpu": time_variant.Config(ONE_LAYER._replace(**STRONG, evaluations=10)),
            "paper": time_variant.Config(ONE_LAYER._replace(**STRONG, repeats=10), rounds=400),
        }, time_variant.run, time_variant.judge,
    ),
    "thresholds": Experiment(
        "", "How low h_th should be, and how few participants suffice: accuracy and leakage, on shards too",
        {
            "quick": thresholds.Config(few(ONE_LAYER, repeats=2), (0.5, 2.0, 4.0), rounds=40, held_out=150),
            "cpu": thresholds.Config(
                ONE_LAYER._replace(task=Task("mnist", pool=2), evaluations=10, repeats=4)
            ),
            "paper": thresholds.Config(ONE_LAYER),
        }, thresholds.run, thresholds.judge,
    ),
    "access": Experiment(
        "", "One channel on which uploads add up, or a link for each user: accuracy by rounds and by channel uses",
        {
            "quick": access.Config(few(ONE_LAYER, groups=(40,), snr_db=(30.0,), repeats=2, evaluations=10), rounds=40),
            "cpu": access.Config(ONE_LAYER._replace(**STRONG, evaluations=50)),
            "paper": access.Config(ONE_LAYER._replace(**STRONG, evaluations=100, repeats=10), rounds=1000),
        }, access.run, access.judge,
    ),
    "power_control": Experiment(
        "", "Three ways to keep within a power limit: accuracy, energy, who is heard, and what can be proved",
        {
            "quick": power_control.Config(few(ONE_LAYER, evaluations=2, repeats=2), (0.1, 1.6), rounds=20),
            "cpu": power_control.Config(
                ONE_LAYER._replace(task=Task("mnist", pool=2), learning_rate=1e-2, evaluations=5, repeats=3)
            ),
            "paper": power_control.Config(ONE_LAYER, rounds=400),
        }, power_control.run, power_control.judge,
    ),
    "participation": Experiment(
        "", "More participants: accuracy against p, and the order of eps_l in the number of others that send",
        {
            "quick": participation.Config(
                few(ONE_LAYER, groups=(40,), snr_db=(30.0,), evaluations=2, repeats=4), rounds=40
            ),
            "cpu": participation.Config(
                ONE_LAYER._replace(**STRONG, task=Task("mnist", pool=2), learning_rate=1e-2, evaluations=5)
            ),
            "paper": participation.Config(ONE_LAYER._replace(**STRONG), rounds=400),
        }, participation.run, participation.judge,
    ),
    "accountants": Experiment(
        "", "The paper's bounds next to exact accounting, and an audit of both by simulation",
        {
            "quick": Accounting(
                participation=(0.02, 0.2, 0.3, 0.5, 0.9, 1.0), sizes=(20, 156, 1000), iterations=(1, 100, 2500),
                pair=Accounting().pair._replace(rounds=1500, seeds=8),
                removed=Trials(Round(20, 0.9, 0.1, 1.0, 1.0), num_params=400, rounds=2000, seeds=4),
            ),
            "cpu": Accounting(removed=Trials(Round(50, 0.9, 0.1, 0.5, 1.0), num_params=1000, rounds=5000, seeds=4)),
            "paper": Accounting(),
        }, accountants.run, accountants.judge,
    ),
    "analog_or_digital": Experiment(
        "", "Analog, one-bit and digital uploads at the same uses of the channel and the same energy",
        {
            "quick": analog_or_digital.Config(
                Task("digits"), learning_rate=0.02, step=0.01, rounds=48, evaluations=6, draws=100
            ),
            "cpu": analog_or_digital.Config(),
            "paper": analog_or_digital.Config(rounds=1000, repeats=5),
        }, analog_or_digital.run, analog_or_digital.judge,
    ),
    "errata": Experiment(
        "", "What the paper prints next to what its own formulas, or exact ones, give",
        dict.fromkeys(("quick", "cpu", "paper"), errata.Config()), errata.run,
    ),
    "privacy_for_free": Experiment(
        "", "Receiver noise as the privacy mechanism, at levels by round, compared with noise of users",
        {
            "quick": privacy_for_free.Config(num_users=120, rounds=30, repeats=3),
            "cpu": privacy_for_free.Config(Task("mnist"), num_users=1000, repeats=3),
            "paper": privacy_for_free.Config(Task("mnist"), num_users=1000),
        }, privacy_for_free.run, privacy_for_free.judge,
    ),
}  # fmt: skip
