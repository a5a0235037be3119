"""PyTorch's map-style datasets are sequences, so lists stand for them here."""

import inspect

import numpy as np
import pytest

from fedjax_priv import data, interchange


def test_samples_become_rows():
    samples = [{"image": np.full((2, 3), i, np.float64), "label": i} for i in range(5)]
    found = interchange.stacked_examples(samples)
    assert found["image"].shape == (5, 2, 3) and found["image"].dtype == np.float32
    np.testing.assert_array_equal(found["image"][:, 0, 0], range(5))
    stacked = data.stack_clients(found, [np.array([0, 4]), np.array([2])])
    assert stacked.examples["label"].tolist() == [[0, 4], [2, 0]] and stacked.examples["label"].dtype == np.int32


@pytest.mark.parametrize(
    ("dataset", "words"),
    [([], "at least one"), ([np.zeros(2), np.zeros(3)], r"one shape.*\(3,\) at 1"), ([(1, 2), 3], "one shape")],
)
def test_samples_that_do_not_stack_are_refused(dataset, words):
    with pytest.raises(ValueError, match=f"^dataset must have .*{words}"):
        interchange.stacked_examples(dataset)


def test_what_has_no_length_is_refused():
    with pytest.raises(ValueError, match="^dataset must have a length and items by number, got list_iterator$"):
        inspect.unwrap(interchange.stacked_examples)(iter([1]))


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    images, labels = torch.arange(12.0).reshape(3, 2, 2), torch.tensor([2, 0, 1])
    found = interchange.stacked_examples(torch.utils.data.TensorDataset(images, labels))
    np.testing.assert_array_equal(found[0], images.numpy())
    assert found[1].tolist() == [2, 0, 1]
