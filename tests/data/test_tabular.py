"""Adult: the parsing rules on made-up rows, and the counts of the real files."""

import csv

import numpy as np
import pytest

from fedjax_priv.data import adult

TRAIN = """\
20, Private, 100, Bachelors, 13, Never-married, Sales, Husband, White, Male, 0, 0, 40, United-States, <=50K
40, ?, 300, HS-grad, 9, Divorced, ?, Wife, Black, Female, 50, 0, 10, Cuba, >50K

30, Private, 200, HS-grad, 9, Divorced, Sales, Wife, White, Female, 0, 0, 40, ?, <=50K
"""
TEST = """\
|1x3 Cross validator
60, State-gov, 200, Bachelors, 13, Divorced, Sales, Wife, White, Male, 100, 0, 50, Cuba, >50K.

"""


def write(folder, train=TRAIN, test=TEST):
    (folder / "adult.data").write_text(train)
    (folder / "adult.test").write_text(test)
    return folder


def test_rows_become_the_features_documented(tmp_path):
    data = adult(write(tmp_path))
    numbers = [  # age, fnlwgt, education-num, capital-gain, capital-loss (the same everywhere), hours-per-week
        [0, 0, 1, 0, 0, 0.75],
        [0.5, 1, 0, 0.5, 0, 0],
        [0.25, 0.5, 0, 0, 0, 0.75],
        [1, 0.5, 1, 1, 0, 1],
    ]
    one_hot = [  # workclass ? P S | B H | D N | ? Sales | H W | B W | F M | ? Cuba US
        [0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1],
        [1, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0],
        [0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0],
        [0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0],
    ]
    np.testing.assert_array_equal(np.concatenate([data.x_train, data.x_test]), np.hstack([numbers, one_hot]))
    assert data.y_train.tolist() == [0, 1, 0]
    assert data.y_test.tolist() == [1]
    assert (data.x_train.dtype, data.y_train.dtype, data.num_classes) == (np.float32, np.int32, 2)


@pytest.mark.parametrize("missing", ["adult.data", "adult.test"])
def test_a_missing_file_is_named(tmp_path, missing):
    (write(tmp_path) / missing).unlink()
    with pytest.raises(FileNotFoundError, match=rf"^[^\n]*{missing} is missing[^\n]*$"):
        adult(tmp_path)


@pytest.mark.parametrize(
    ("train", "where"),
    [
        (TRAIN[:-30], "adult.data, line 4"),  # cut in the middle of a row
        (TRAIN[:-3], "adult.data, line 4"),  # cut in the middle of the last label
        (TRAIN.replace("40, ?", "forty, ?"), "adult.data, line 2"),
        (TRAIN.replace("40, ?", "-40, ?"), "adult.data, line 2"),
        (TRAIN.replace(">50K", "rich"), "adult.data, line 2"),
        ("\x00\xff\x00" * 500, "adult.data, line 1"),
        ("\n|comment\n", "adult.data has no rows"),
    ],
)
def test_a_corrupt_file_is_named(tmp_path, train, where):
    with pytest.raises(ValueError, match=rf"^[^\n]*{where}[^\n]{{0,120}}$"):
        adult(write(tmp_path, train=train))


@pytest.mark.real_data
def test_the_real_files_have_the_published_counts(raw_data):
    data = adult(raw_data / "adult")
    assert data.x_train.shape == (32_561, 108)
    assert data.x_test.shape == (16_281, 108)
    assert (data.y_train.sum(), data.y_test.sum()) == (7_841, 3_846)
    np.testing.assert_array_equal(data.x_train[:, 6:].sum(axis=1), 8)
    with (raw_data / "adult" / "adult.data").open() as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
    np.testing.assert_allclose(data.x_train[:, 0] * 73 + 17, [int(row[0]) for row in rows], rtol=1e-6)
    private = data.x_train[:, 6 + ["?", "Federal-gov", "Local-gov", "Never-worked", "Private"].index("Private")]
    np.testing.assert_array_equal(private, [row[1] == "Private" for row in rows])
