"""Image classification: scikit-learn's digits, MNIST, CIFAR-10.

MNIST and CIFAR-10 are read through `tfds.data_source`, which needs a data set prepared in the array_record format but
no TensorFlow. Nothing is downloaded here.
"""

import importlib.util
import io
import os
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from fedjax_priv import _validate
from fedjax_priv.data.dataset import Dataset
from fedjax_priv.data.stratified import stratified_split

Samples = tuple[Float32[np.ndarray, "split h w c"], Int32[np.ndarray, " split"]]
_RECORDS_AT_ONCE = 1000  # few decoded records are read quickly, all of them would fill the memory


def digits(test_fraction: float = 0.2, seed: int = 0) -> Dataset:
    """The 1,797 handwritten digits that come with scikit-learn, 8x8x1, pixels 0..16 divided by 16.

    scikit-learn defines no test set: `seed` shuffles the samples, and each class gives `test_fraction` of its samples
    to the test set, up to rounding.

    Raises:
      ValueError: `test_fraction` leaves fewer than 10 samples, one per class, for training or for the test, or
        `seed` is not an integer in [0, 2**32).
      ImportError: scikit-learn is not installed.

    Examples:
      >>> digits().x_train.shape, digits().x_test.shape
      ((1437, 8, 8, 1), (360, 8, 8, 1))
    """
    _validate.fraction(below_one=True, above_zero=True, test_fraction=test_fraction)
    _validate.seed(seed=seed)
    table = np.loadtxt(_scikit_learn() / "datasets" / "data" / "digits.csv.gz", np.float32, delimiter=",")
    x, y = table[:, :-1].reshape(-1, 8, 8, 1) / 16, table[:, -1].astype(np.int32)
    if not 10 <= test_fraction * len(y) <= len(y) - 10:
        raise ValueError(f"test_fraction must leave 10 samples each for training and test, got {test_fraction!r}")
    train, test = stratified_split(y, test_fraction, seed)
    return Dataset(x[train], y[train], x[test], y[test], num_classes=10)


def _scikit_learn() -> pathlib.Path:
    """The folder of scikit-learn, whose import would take longer than JAX's."""
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise ImportError("digits come with scikit-learn, which is not installed: pip install scikit-learn")
    return pathlib.Path(found.origin).parent


def mnist(data_dir: str | os.PathLike | None = None) -> Dataset:
    """MNIST: 60,000 training and 10,000 test images of 28x28x1, pixels divided by 255, in the order of the prepared
    records.

    Args:
      data_dir: folder of tensorflow-datasets; None: `$TFDS_DATA_DIR` or, if that is not set, `~/tensorflow_datasets`.

    Raises:
      FileNotFoundError: the data set is not there; the message has the command that prepares it.
      ImportError: the extra `data` is not installed.
      ValueError: a file is missing or corrupt.

    Examples:
      >>> train = federate(mnist(), num_clients=100, partition="shards")  # doctest: +SKIP
    """
    return _from_tfds("mnist", data_dir, shape=(28, 28, 1))


def cifar10(data_dir: str | os.PathLike | None = None) -> Dataset:
    """CIFAR-10: 50,000 training and 10,000 test images of 32x32x3; otherwise as `mnist`.

    Examples:
      >>> train = federate(cifar10(), num_clients=100, partition="dirichlet", concentration=0.5)  # doctest: +SKIP
    """
    return _from_tfds("cifar10", data_dir, shape=(32, 32, 3))


def _from_tfds(name: str, data_dir: str | os.PathLike | None, shape: tuple[int, int, int]) -> Dataset:
    root = pathlib.Path(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()
    if not list(root.glob(f"{name}/*/*.array_record*")):
        prepare = f"tfds.builder({name!r}, data_dir={str(root)!r}, file_format='array_record').download_and_prepare()"
        raise FileNotFoundError(
            f"no {name} in array_record format under {root}; prepare it, where TensorFlow is installed, with: "
            f'python -c "import tensorflow_datasets as tfds; {prepare}"'
        )
    x_train, y_train = _split(name, "train", root, shape)
    x_test, y_test = _split(name, "test", root, shape)
    return Dataset(x_train, y_train, x_test, y_test, num_classes=10)


def _split(name: str, split: str, root: pathlib.Path, shape: tuple[int, int, int]) -> Samples:
    try:
        return _read(name, split, root, shape)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # the readers of records, JSON and PNG raise unrelated types
        files = root / name / "*" / f"{name}-{split}.array_record*"
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{files}, or a JSON file next to it, is missing or corrupt: {reason}") from error


def _read(name: str, split: str, root: pathlib.Path, shape: tuple[int, int, int]) -> Samples:
    try:
        import tensorflow_datasets as tfds
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"{name} needs the package tensorflow-datasets: pip install fedjax-priv[data]") from error

    # decode PNGs here: tfds checks and copies each image, which takes twice as long for MNIST
    as_stored = {"image": tfds.decode.SkipDecoding()}
    source: Any = tfds.data_source(name, split=split, data_dir=root, download=False, decoders=as_stored)
    x, y = np.empty((len(source), *shape), np.float32), np.empty(len(source), np.int32)
    for start in range(0, len(source), _RECORDS_AT_ONCE):
        records = source.__getitems__(range(start, min(start + _RECORDS_AT_ONCE, len(source))))
        for i, record in enumerate(records, start):
            x[i] = np.asarray(Image.open(io.BytesIO(record["image"]))).reshape(shape)
            y[i] = record["label"]
    x /= 255
    return x, y
