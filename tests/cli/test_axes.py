from fedjax_priv.cli.axes import parse_axes
from fedjax_priv.cli.options import Option
from helpers import refuses

OPTIONS = {
    "learning_rate": Option(float, 0.1, ""),
    "seed": Option(int, 0, ""),
    "cohort_size": Option(int | None, None, ""),
}


def axes(*texts):
    return parse_axes(texts, OPTIONS, {"num_clients", "model"})


def test_axes_are_read_in_order_as_their_options_are():
    found = axes("seed=3,1,2", "learning-rate=1, 0.5", "cohort_size=none,5")
    assert found == {"seed": [3, 1, 2], "learning_rate": [1.0, 0.5], "cohort_size": [None, 5]}
    assert [*found] == ["seed", "learning_rate", "cohort_size"]
    assert [type(value) for value in found["learning_rate"]] == [float, float]


test_what_is_no_axis_is_refused = refuses(
    lambda texts: axes(*texts),
    ([], r"^axis must be given, as NAME=VALUE,VALUE,\.\.\."),
    (["seed"], r"^axis must be NAME=VALUE,VALUE,\.\.\., got 'seed'"),
    (["seed="], "^seed must be an integer, got ''"),
    (["seed=1,,2"], "^seed must be an integer, got ''"),
    (["seed=1,x"], "^seed must be an integer, got 'x'"),
    (["seed=1,2,01"], "^axis seed must have each value once, got 1,2,01"),
    (["seed=1", "seed=2"], "^axis must name an option once, got seed twice"),
    (["num-clients=1,2"], "^axis must not change data, model or rounds: run one sweep per value of num_clients"),
    (["lr=1"], "^axis must be one of learning_rate, seed, cohort_size, got 'lr'"),
)
