import contextlib
import errno
import os

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Link
from fedjax_priv.runs.records import atomic_file, checkpoint
from fedjax_priv.runs.records.checkpoint import Position
from fedjax_priv.runs.records.result_dataset import Chunk


def chunk(rounds, params=()):
    rng = np.random.default_rng(rounds)
    bits = {"upload": Link(*rng.integers(0, 2**32, (2, 2, 3, 4), np.uint32)), "model": Link(*np.zeros((2, 2, 3, 4)))}
    info = {"loss": rng.normal(size=(2, 3, 4)).astype(np.float32), "status": np.zeros((2, 3), np.int32), "bits": bits}
    return Chunk(rounds, 0.5, info, {"accuracy": rng.random(2), "loss/test": np.array([np.nan, 1.0])}, params)


def test_chunks_come_back(tmp_path):
    chunks = [chunk(0), chunk(3, np.arange(6, dtype=np.float32).reshape(2, 3))]
    checkpoint.write_chunks(tmp_path / "a.npz", chunks)
    for sent, got in zip(chunks, checkpoint.read_chunks(tmp_path / "a.npz"), strict=True):
        assert (sent.rounds, sent.seconds) == (got.rounds, got.seconds)
        np.testing.assert_array_equal(sent.info["loss"], got.info["loss"], strict=True)
        assert list(got.info["bits"]) == ["upload", "model"]  # in order
        np.testing.assert_array_equal(sent.info["bits"]["upload"].up, got.info["bits"]["upload"].up, strict=True)
        np.testing.assert_array_equal(sent.metrics["loss/test"], got.metrics["loss/test"], strict=True)
        np.testing.assert_array_equal(sent.params, got.params, strict=True)


def test_a_position_comes_back_with_types_numpy_cannot_name(tmp_path):
    assert checkpoint.read(tmp_path) == Position()
    arrays = (
        np.asarray(jnp.array([1.5, -2.0], jnp.bfloat16)), np.array(7, np.int32), np.zeros((0, 3), bool),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    )  # fmt: skip
    checkpoint.write(tmp_path, Position(1, (("a", "b"), ("c",)), arrays))
    got = checkpoint.read(tmp_path)
    assert got[:2] == (1, (("a", "b"), ("c",)))
    for sent, back in zip(arrays, got.state, strict=True):
        np.testing.assert_array_equal(sent, back, strict=True)


@pytest.mark.parametrize(
    "spoil", [lambda content: content[:-30], lambda content: b"", lambda content: content[:99] + b"x" + content[100:]]
)
def test_a_broken_file_is_named(tmp_path, spoil):
    checkpoint.write(tmp_path, Position(0, (("a",),), (np.arange(100),)))
    file = tmp_path / checkpoint.STATE
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(ValueError, match=r"state\.npz is broken"):
        checkpoint.read(tmp_path)
    with pytest.raises(ValueError, match=r"missing\.npz is broken"):
        checkpoint.read_chunks(tmp_path / "missing.npz")


def test_whichever_byte_is_wrong_no_other_error_is_raised(tmp_path):
    checkpoint.write(tmp_path, Position(0, (("a",),), (np.arange(3),)))
    file = tmp_path / checkpoint.STATE
    content = file.read_bytes()
    for place, byte in enumerate(content):
        file.write_bytes(content[:place] + bytes([byte ^ 0xFF]) + content[place + 1 :])
        with contextlib.suppress(ValueError):  # nor does every byte matter
            checkpoint.read(tmp_path)


def test_a_full_disk_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch):
    checkpoint.write(tmp_path, Position(0, (("a",),), ()))

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write(tmp_path, Position(5, (), ()))
    assert checkpoint.read(tmp_path).files == (("a",),)
    assert os.listdir(tmp_path) == [checkpoint.STATE]


def test_files_are_as_readable_as_others(tmp_path):
    atomic_file.write(tmp_path / "a", b"1")
    (tmp_path / "b").write_bytes(b"1")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
