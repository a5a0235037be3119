"""Arguments of several systems that are refused by the name that the caller knows, before a part is built of them."""

import functools
import re

import jaxtyping
import numpy as np
import pytest

from fedjax_priv import channels, clients, systems
from helpers import towards_target


@pytest.fixture(autouse=True)
def without_checks_of_annotations():
    """As users call these functions: tests check annotations before a function can say what is wrong."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def of(system, **usual):
    return functools.partial(getattr(systems, system), towards_target(), **usual)


SHARE, FEDREP = of("share", num_clients=6), of("fedrep", num_clients=6, num_params=12)
ROBAJOL = of("robajol", num_clients=6, num_params=12)
COMMON = of("common_secagg", num_clients=6, num_params=5, alpha=0.5)
SPARSE = of("sparse_fedavg", num_params=5, k=2)
COMPOSE = of("compose", num_clients=6, num_params=5)
TRAIN = functools.partial(clients.fedsgd, lambda params, x: x @ params)
LOCAL = functools.partial(
    clients.local_sgd, lambda params, x: x @ params, learning_rate=0.1, batch_size=2, num_steps=1, momentum=0.5
)


@pytest.mark.parametrize("value", ["no", 1, None, np.array([True])])
@pytest.mark.parametrize(
    ("part", "name"),
    [
        (SHARE, "in_the_clear"),
        (FEDREP, "in_the_clear"),
        (FEDREP, "check_range"),
        (ROBAJOL, "dense"),
        (COMMON, "error_feedback"),
        (SPARSE, "error_feedback"),
        (SPARSE, "exact"),
        (COMPOSE, "error_feedback"),
        (COMPOSE, "check_range"),
        (COMPOSE, "exact"),
        (LOCAL, "carry_momentum"),
        (channels.multiple_access, "known_count"),
        (channels.true_gains, "known_count"),
        (channels.antenna_array, "every_antenna"),
    ],
)
def test_a_flag_is_a_truth_value(part, name, value):
    with pytest.raises(ValueError, match=f"^{name} must be one of True, False, got {re.escape(repr(value))}"):
        part(**{name: value})
    part(**{name: np.False_})
