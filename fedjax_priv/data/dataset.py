"""A data set in memory: NumPy arrays on the host, with the split its authors made."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int32


class Dataset(NamedTuple):
    """Features in [0, 1] and class labels.

    Images are `[N, height, width, channels]`, rows of a table are `[N, features]`.
    """

    x_train: Float32[np.ndarray, "train ..."]
    y_train: Int32[np.ndarray, " train"]
    x_test: Float32[np.ndarray, "test ..."]
    y_test: Int32[np.ndarray, " test"]
    num_classes: int
