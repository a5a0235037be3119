"""Image loaders: digits against scikit-learn, MNIST and CIFAR-10 against the pixels they were prepared from."""

import gzip
import io
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image
from refusals import each, refused
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedjax_priv.data import cifar10, digits, mnist
from fedjax_priv.data.stratified import stratified_split

SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
LOADERS = {"mnist": mnist, "cifar10": cifar10}
SIZES = {"train": 1200, "test": 7}  # more than the thousand records read at once


def as_multiset(x, y):
    """Samples as sortable strings, pixels back to bytes: records are prepared in another order."""
    pixels = np.rint(np.asarray(x, np.float64).reshape(len(x), -1) * 255).astype(np.uint8)
    return sorted(bytes([label]) + row.tobytes() for label, row in zip(y, pixels, strict=True))


def png(image):
    out = io.BytesIO()
    Image.fromarray(image.squeeze()).save(out, format="png")
    return out.getvalue()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder of tensorflow-datasets with random images under the official names, and those images."""
    import tensorflow_datasets as tfds

    folder, made, rng = tmp_path_factory.mktemp("tfds"), {}, np.random.default_rng(5)
    for name, shape in SHAPES.items():
        splits = {
            split: (rng.integers(0, 256, (size, *shape), np.uint8), rng.integers(0, 10, size))
            for split, size in SIZES.items()
        }
        builder: Any = tfds.builder(name, data_dir=folder, file_format="array_record")
        extra = {"id": "0"} if name == "cifar10" else {}
        records = {
            split: [(i, {"image": png(image), "label": int(y[i]), **extra}) for i, image in enumerate(x)]
            for split, (x, y) in splits.items()
        }
        builder._split_generators = lambda manager, records=records: records
        if name == "cifar10":
            builder.info.features["label"].names = list("abcdefghij")
        builder.download_and_prepare()
        made[name] = splits
    return folder, made


def test_digits_are_those_of_scikit_learn():
    data = digits()
    bunch: Any = load_digits()
    for x, y, size in ((data.x_train, data.y_train, 1437), (data.x_test, data.y_test, 360)):
        assert (x.shape, x.dtype, y.dtype) == ((size, 8, 8, 1), np.float32, np.int32)
    both = np.concatenate([data.x_train, data.x_test]), np.concatenate([data.y_train, data.y_test])
    assert as_multiset(both[0] * 16 / 255, both[1]) == as_multiset(bunch.images / 255, bunch.target)
    assert data.num_classes == 10


@pytest.mark.parametrize("test_fraction", [0.1, 0.5])
def test_digits_split_is_stratified_and_follows_the_seed(test_fraction):
    first, again, other = (digits(test_fraction, seed) for seed in (3, 3, 4))
    share = test_fraction * np.bincount(np.asarray(load_digits(return_X_y=True)[1]))
    assert np.all(np.abs(np.bincount(first.y_test, minlength=10) - share) <= 1)
    np.testing.assert_array_equal(first.x_test, again.x_test)
    assert not np.array_equal(first.x_test, other.x_test)


test_digits_names_the_bad_argument = refused(
    *each(test_fraction=[0.0, 1.0, float("nan"), 0.005, 0.999], seed=[-1, 2**32]),
    by=lambda bad: digits(**bad),
    pattern=r"^{} must [^\n]*$",
)


@pytest.mark.parametrize("name", SHAPES)
def test_loaded_images_are_those_prepared(prepared, name):
    folder, made = prepared
    data = LOADERS[name](folder)
    for x, y, split in ((data.x_train, data.y_train, "train"), (data.x_test, data.y_test, "test")):
        assert x.shape == (SIZES[split], *SHAPES[name])
        assert (x.dtype, y.dtype) == (np.float32, np.int32)
        pixels, labels = made[name][split]
        assert as_multiset(x, y) == as_multiset(pixels / 255, labels)


def test_the_environment_says_where_data_is(prepared, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(prepared[0]))
    np.testing.assert_array_equal(mnist().x_test, mnist(prepared[0]).x_test)


@pytest.mark.parametrize("name", SHAPES)
def test_absent_data_names_the_command_and_downloads_nothing(tmp_path, name):
    said = rf"^no {name} [^\n]*builder\('{name}'[^\n]*download_and_prepare"
    with pytest.raises(FileNotFoundError, match=said) as got:
        LOADERS[name](tmp_path)
    assert str(tmp_path) in str(got.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "flipped", "removed", "json"])
def test_damaged_files_are_named(prepared, tmp_path, damage):
    source, target = prepared[0] / "mnist" / "3.0.1", tmp_path / "mnist" / "3.0.1"
    target.mkdir(parents=True)
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    victim = target / "mnist-test.array_record-00000-of-00001"
    content = bytearray(victim.read_bytes())
    if damage == "cut":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
    elif damage == "removed":
        victim.unlink()
    else:
        (target / "dataset_info.json").write_text('{"name')
    with pytest.raises(ValueError, match=r"^[^\n]*mnist-(test|train)\.array_record[^\n]*missing or corrupt[^\n]*$"):
        mnist(tmp_path)


def test_without_the_readers_the_extra_is_named(prepared, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r"^mnist needs .*: pip install fedjax-priv\[data\]$"):
        mnist(prepared[0])


def test_importing_the_package_imports_no_reader():
    program = "import sys, fedjax_priv.data; print({'tensorflow_datasets', 'sklearn', 'PIL'} & set(sys.modules))"
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.real_data
def test_mnist_is_the_original(raw_data, tmp_path):
    command = [sys.executable, raw_data / "prepare_tfds.py", tmp_path, "--datasets", "mnist"]
    subprocess.run(command, check=True, capture_output=True)
    data = mnist(tmp_path)
    for x, y, prefix in ((data.x_train, data.y_train, "train"), (data.x_test, data.y_test, "t10k")):
        pixels = gzip.decompress((raw_data / "mnist" / f"{prefix}-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((raw_data / "mnist" / f"{prefix}-labels-idx1-ubyte.gz").read_bytes())[8:]
        images = np.frombuffer(pixels, np.uint8).reshape(-1, 28, 28, 1)
        assert as_multiset(x, y) == as_multiset(images / 255, labels)


@pytest.mark.real_data
def test_cifar10_has_the_published_mean():
    folder = os.environ.get("TFDS_DATA_DIR")
    if not folder or not (pathlib.Path(folder) / "cifar10").is_dir():
        pytest.skip("TFDS_DATA_DIR names no folder with cifar10")
    data = cifar10()
    assert (len(data.x_train), len(data.x_test)) == (50_000, 10_000)
    assert np.all(np.bincount(data.y_train) == 5_000)
    mean = data.x_train.mean(axis=(0, 1, 2), dtype=np.float64) * 255
    np.testing.assert_allclose(mean, [125.306918, 122.950394, 113.865383], rtol=1e-6)


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.333, 0.9])
def test_the_split_is_scikit_learn_s(fraction):
    _, labels = load_digits(return_X_y=True)
    for seed in range(5):
        theirs = train_test_split(np.arange(len(labels)), test_size=fraction, stratify=labels, random_state=seed)
        for ours, asked in zip(stratified_split(labels.astype(np.int32), fraction, seed), theirs, strict=True):
            np.testing.assert_array_equal(ours, asked)
    assert not np.array_equal(stratified_split(labels, fraction, 1)[0], theirs[0])
