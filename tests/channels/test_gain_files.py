"""Gains that another program has made, from files of every form."""

import pathlib
import runpy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.channels import gains_from_file
from fedjax_priv.systems import wireless
from helpers import towards_target

EXAMPLE = pathlib.Path(__file__).parents[2] / "docs" / "recorded_gains.npz"
TABLE = np.array([[3 + 4j, 1j, -1], [0.5, 2, 1 + 1j]])


def gains(fading, round, n=3):
    return np.asarray(fading.apply(jax.random.key(0), (), jnp.int32(round), n)[0])


def test_amplitudes_of_complex_and_real_tables(tmp_path):
    np.save(tmp_path / "one.npy", TABLE)
    np.savez(tmp_path / "two.npz", other=np.ones(3), gains=abs(TABLE), several=np.stack([TABLE, 2 * TABLE], 2))
    for fading, times in (
        (gains_from_file(tmp_path / "one.npy", rounds=2), 1), (gains_from_file(str(tmp_path / "two.npz")), 1),
        (gains_from_file(tmp_path / "two.npz", name="several", antenna=1), 2),
    ):  # fmt: skip
        for round in range(2):
            np.testing.assert_allclose(gains(fading, round), times * abs(TABLE[round]), rtol=1e-6)
        assert np.isnan(gains(fading, 2)).all()


def test_the_example_is_what_its_script_makes():
    made = runpy.run_path(str(EXAMPLE.with_suffix(".py")))["gains"]()
    kept = np.load(EXAMPLE)["gains"]
    assert kept.dtype == np.complex64 and kept.shape == (20, 7, 4)
    np.testing.assert_allclose(kept, made, rtol=1e-4, atol=1e-4)
    assert (abs(np.mean(abs(kept) ** 2, axis=(0, 2)) - 1) < 0.5).all()
    np.testing.assert_allclose(gains(gains_from_file(EXAMPLE, antenna=2), 3, 7), abs(kept[3, :, 2]), rtol=1e-6)


@pytest.mark.parametrize(
    ("table", "how", "message"),
    [
        (np.ones(3), {}, r"path must have gains of shape \[rounds, clients\] or .* got shape \(3,\)"),
        (np.ones((0, 3)), {}, r"got shape \(0, 3\)"),
        (np.where(TABLE == 2, np.nan, TABLE), {}, r"finite gains other than 0 in float32, got \(?nan.* at \[1, 1\]"),
        (np.where(TABLE == 2, 0, TABLE), {}, r"finite gains other than 0 in float32, got 0j at \[1, 1\]"),
        (TABLE, {"rounds": 3}, "path must have gains of 3 rounds, got 2"),
        (TABLE, {"rounds": 0}, "rounds must be an integer >= 1, got 0"),
        (TABLE, {"antenna": 0}, r"antenna must be None if path has no axis of antennas, got shape \(2, 3\)"),
        (TABLE[:, :, None], {}, "antenna must be an integer from 0 to 0, got None"),
        (TABLE[:, :, None], {"antenna": 1}, "antenna must be an integer from 0 to 0, got 1"),
        (np.array([["a"]]), {}, "path must have real or complex gains, got <U1"),
        (np.array([[None]]), {}, "path must be a .npy or .npz file of numbers, got"),
    ],
)
def test_bad_files(tmp_path, table, how, message):
    np.save(tmp_path / "gains.npy", table)
    with pytest.raises(ValueError, match=message):
        gains_from_file(tmp_path / "gains.npy", **how)


def test_bad_names_and_numbers_of_clients(tmp_path):
    np.savez(tmp_path / "gains.npz", first=TABLE, second=TABLE)
    with pytest.raises(ValueError, match="name must be one of first, second, got 'gains'"):
        gains_from_file(tmp_path / "gains.npz")
    (tmp_path / "gains.txt").write_text("no numbers")
    with pytest.raises(ValueError, match=r"path must be a .npy or .npz file of numbers, got .*gains.txt"):
        gains_from_file(tmp_path / "gains.txt")
    draw = wireless(towards_target(), fading=gains_from_file(EXAMPLE, antenna=0)).draw
    with pytest.raises(ValueError, match="gains must have a column for each of 5 clients, got 7"):
        draw(jax.random.key(0), (), jnp.int32(0), jnp.ones(5, int))


@pytest.mark.parametrize("gain", [1e-60, 1e60, 1e-60 + 1e-60j])
def test_gains_that_float32_cannot_hold_are_refused(tmp_path, gain):
    np.save(tmp_path / "gains.npy", np.array([[1.0, gain]]))
    with pytest.raises(ValueError, match=r"^path must have finite gains other than 0 in float32, got .* at \[0, 1\]"):
        gains_from_file(tmp_path / "gains.npy")
