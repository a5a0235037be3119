"""What does not compose, in one line each: `compose` and `why_not` say the same."""

import re

import pytest
from systems.test_compose import NOISY, ON_AIR, OPENED, N, composed, median

from fedjax_priv.aggregators import fltrust, krum, mean, monna
from fedjax_priv.aggregators.by_name import unprotected_mean
from fedjax_priv.attacks import foe, random_elements, same_set
from fedjax_priv.clients import everyone, sample
from fedjax_priv.systems.composition import REASONS, Stack, why_not

BY_ROWS = {"aggregate": median, "num_byzantine": 1, "group_attack": foe()}
ONE_ROW = "aggregate must be the mean where all uploads are one row, of which every rule is the mean: got another rule "
REFUSED = [
    ({"buffer_size": 3}, "S", "num_clients must be a multiple of buffer_size = 3"),
    ({"cohort_size": 9}, "S", "cohort_size must be at most num_clients"),
    ({"num_byzantine": 4}, "S", "num_byzantine must be below num_clients / 2"),
    ({"cohort": sample(6, num_byzantine=4)}, "S", "num_byzantine must be below num_clients / 2"),
    ({"cohort": sample(6), "cohort_size": 5}, "S", "cohort_size must be 6 or not given with this cohort, got 5"),
    ({"cohort": sample(6, num_byzantine=2), "num_byzantine": 1}, "S", "num_byzantine must be 2 or not given with this"),
    ({"secure": "secagg", "aggregate": median}, "A", ONE_ROW + "with secure='secagg'; sum in buffers (buffer_size)"),
    ({"channel": "multiple_access", "aggregate": median, "clip": 1.0}, "A", ONE_ROW + "with channel='multiple_access'"),
    ({"secure": "secagg", "compress": "top_k"}, "B", "compress must be 'none', 'common', 'jl' or 'conspar'"),
    ({"secure": "field", "compress": "rand_k"}, "B", "compress must be 'none', 'common', 'jl' or 'conspar'"),
    ({"private": "field", **NOISY}, "C", "private must be 'local'"),
    ({"private": "field", "secure": "field", **NOISY}, "C", "private must be 'local'"),
    ({"aggregate": krum(2), "num_byzantine": 2, "secure": "secagg", "buffer_size": 2}, "D", "aggregate must be a rule"),
    ({"aggregate": mean(), "num_byzantine": 1}, "D", "num_byzantine=1 can corrupt 1 of 1 rows"),
    ({"aggregate": mean(), "cohort": everyone(num_byzantine=1)}, "D", "num_byzantine=1 can corrupt 1 of 1 rows"),
    ({"compress": "top_k", "private": "local", **NOISY}, "E", "private must be 'none' with compress='top_k'"),
    ({"secure": "secagg", "buffer_size": 1}, "F", "buffer_size must be at least 2"),
    ({"secure": "secagg", "cohort": sample(1)}, "F", "buffer_size must be at least 2"),
    ({"secure": "sparse_secagg", "compress": "common"}, "G", "compress must be 'none' with secure='sparse_secagg'"),
    ({"secure": "sparse_secagg", "buffer_size": 2}, "G", "buffer_size must not be given with secure='sparse_secagg'"),
    ({"secure": "enrolled", "buffer_size": 2}, "H", "buffer_size must not be given with secure='enrolled'"),
    ({"secure": "enrolled", "private": "field", **NOISY}, "H", "private must be 'none' or 'local'"),
    ({"secure": "enrolled", "norm_bound": 1.0}, "H", "norm_bound must not be given with secure='enrolled'"),
    ({"secure": "thresholded"}, "T", "compress must be 'rand_k' or 'top_k' with secure='thresholded', got 'none'"),
    ({"secure": "thresholded", "compress": "jl"}, "T", "compress must be 'rand_k' or 'top_k' with secure="),
    (OPENED | {"aggregate": median}, "A", "aggregate must be the mean where all uploads are one row"),
    (OPENED | {"error_feedback": True}, "T", "error_feedback must be False with secure='thresholded'"),
    (OPENED | {"compress": "top_k"}, "T", "error_feedback must be True with secure='thresholded'"),
    (OPENED | {"buffer_size": 4}, "T", "buffer_size must not be given with secure='thresholded'"),
    (OPENED | {"private": "field", **NOISY}, "T", "private must be 'none' or 'local' with secure='thresholded'"),
    (OPENED | {"field_attack": random_elements(), "num_byzantine": 1}, "T", "field_attack must not be given with sec"),
    (OPENED | {"norm_bound": 1.0}, "T", "norm_bound must not be given with secure='thresholded'"),
    (OPENED | {"compress": "top_k", "error_feedback": True, "cohort_size": 4}, "T", "cohort_size must not be given"),
    ({"private": "local", "noise_variance": 0.1}, "J", "clip must be given with private='local'"),
    ({"clip": 1.0, "noise_variance": 0.1}, "J", "noise_variance must not be given with private='none'"),
    ({"private": "local", "clip": 1.0}, "J", "noise_variance must be given with private='local'"),
    ({"secure": "sparse_secagg"}, "K", "weigh must not be 'equal' with secure='sparse_secagg'"),
    ({"weigh": "survivors", "private": "local", **NOISY}, "K", "weigh must be 'equal' or 'expected'"),
    ({"weigh": "survivors", "compress": "common"}, "K", "weigh must not be 'survivors' with compress='common'"),
    ({"weigh": "expected", "aggregate": median}, "K", "weigh must be 'equal' where a rule compares rows"),
    ({"attack": foe()}, "L", "num_byzantine must be at least 1 with attack"),
    ({"attack": foe(), "cohort": sample(6)}, "L", "num_byzantine must be at least 1 with attack"),
    (ON_AIR | {"attack": foe()}, "L", "attack and num_byzantine must not be given with channel='multiple_access', nor"),
    (ON_AIR | {"cohort": sample(6, num_byzantine=2)}, "L", "attack and num_byzantine must not be given with channel="),
    ({"field_attack": random_elements(), "num_byzantine": 1}, "L", "field_attack must not be given with secure='none'"),
    (BY_ROWS | {"num_byzantine": 0}, "L", "num_byzantine must be at least 1 with group_attack"),
    (BY_ROWS | {"attack": foe()}, "L", "group_attack must not be given with attack: a Byzantine client sends one"),
    (BY_ROWS | {"aggregate": unprotected_mean()}, "L", "group_attack must not be given where all are summed to one"),
    (BY_ROWS | {"compress": "top_k"}, "L", "group_attack must not be given with compress='top_k'"),
    ({"aggregate": fltrust(pivot=7), "num_byzantine": 8}, "D", "num_byzantine=8 can corrupt 8 of 8 rows, but"),
    ({"coordinate_attack": same_set(), "num_byzantine": 1}, "L", "coordinate_attack must be given with compress="),
    ({"channel": "orthogonal", "secure": "secagg"}, "M", "secure must be 'none' with channel='orthogonal'"),
    ({"channel": "orthogonal", "compress": "common"}, "M", "compress must be 'none' with channel='orthogonal'"),
    ({"channel": "multiple_access"}, "M", "clip must be given with channel='multiple_access'"),
    ({"channel": "multiple_access", "clip": 1.0, "weigh": "expected"}, "M", "weigh must be 'equal' and buffer_size"),
    ({"channel": "multiple_access", "clip": 1.0, "dropout": 0.1}, "M", "dropout, leave and cohort_size must not"),
    ({"cohort_size": 4, "compress": "conspar"}, "N", "cohort_size must not be given where clients have rows"),
    ({"cohort": everyone(), "aggregate": median}, "N", "cohort must not be given where clients have rows"),
    ({"error_feedback": True}, "O", "error_feedback must be False with compress='none'"),
    ({"error_feedback": True, "compress": "jl"}, "O", "error_feedback must be False with compress='jl'"),
    ({"alpha": 0.5, "compress": "common"}, "O", "alpha must be 0 with compress='common'"),
    ({"leave": 0.1}, "O", "leave must be 0 with secure='none'"),
    ({"aggregate": monna(1), "secure": "secagg", "buffer_size": 2}, "Q", "aggregate must trust no row where a"),
    ({"aggregate": monna(1), "num_byzantine": 1}, "Q", "aggregate must trust an honest client, such as client 1"),
    ({"aggregate": monna(1, pivot=N)}, "Q", f"aggregate must trust a row below num_clients = {N}, got row {N}"),
    ({"norm_bound": 1.0}, "P", "norm_bound must not be given with secure='none'"),
    ({"check_range": True}, "R", "check_range must be False with secure='none'"),
    ({"check_range": True, "secure": "secagg"}, "R", "clip must be given with check_range"),
    (
        {"check_range": True, "secure": "secagg", "private": "local", **NOISY}, "R",
        "check_range must be False with private='local'",
    ),
    ({"norm_bound": 0.5, "secure": "secagg", "private": "field", **NOISY}, "P", "norm_bound must be at least clip = 1"),
    ({"norm_bound": 1.0, "secure": "secagg", "weigh": "survivors"}, "P", "norm_bound must not be given with weigh="),
]  # fmt: skip


@pytest.mark.parametrize(("choices", "code", "sentence"), REFUSED, ids=lambda case: "")
def test_what_does_not_compose_is_one_line(choices, code, sentence):
    """`compose` and `why_not` say the same."""
    refusal = why_not(Stack(num_clients=N, **choices))
    assert refusal is not None and refusal.code == code
    assert refusal.sentence.startswith(sentence) and "\n" not in refusal.sentence
    with pytest.raises(ValueError, match=f"^{re.escape(refusal.sentence)}$"):
        composed(**choices)


def test_all_clients_but_the_one_that_a_rule_trusts_may_be_byzantine():
    assert why_not(Stack(num_clients=N, aggregate=fltrust(pivot=7), num_byzantine=7)) is None


def test_every_reason_is_met():
    assert {code for _, code, _ in REFUSED} == {*REASONS}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"compress": "common", "num_params": None}, "num_params must be an integer >= 1, got 0"),
        ({"compress": "common", "ratio": 2.0}, r"ratio must be a number in \(0, 1\]"),
        ({"buffer_size": 0}, "buffer_size must be an integer >= 1"),
        ({"clip": -1.0}, "clip must be a finite number > 0, got -1.0"),
        ({"neighbours": 4}, "neighbours must not be given with secure='none'"),
        ({"neighbours": 4, "secure": "enrolled"}, "neighbours must not be given with secure='enrolled'"),
        ({"receiver_noise": 2.0}, "receiver_noise must not be given with channel='erasure'"),
        ({"committee": 4, "secure": "secagg"}, "committee must not be given with secure='secagg'"),
        ({"neighbours": 4, **OPENED}, "neighbours must not be given with secure='thresholded'"),
        ({"threshold": 9, **OPENED}, "threshold must be"),
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\)"),
        ({"k": 2}, "k must not be given with compress='none', got 2"),
        ({"ratio": -3}, "ratio must not be given with compress='none', got -3"),
        ({"secure": "sparse_secagg", "weigh": "expected", "k": 2}, "k must not be given with compress='none', got 2"),
        ({"levels": 2.0**10}, "levels must not be given with secure='none', got 1024.0"),
        ({**ON_AIR, "levels": 2.0**9}, "levels must not be given with secure='none', got 512.0"),
    ],
)
def test_arguments_out_of_range(choices, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        composed(**choices)
