"""What `Keep` takes, and what it refuses before the first round."""

import functools

import kept_runs
import numpy as np
import pytest
from kept_runs import SMALL

from fedjax_priv import Keep
from fedjax_priv.runs.records import manifest, run_folder

run = functools.partial(kept_runs.run, system=SMALL)


def test_resume_is_yes_or_no(tmp_path):
    with pytest.raises(ValueError, match=r"^keep\.resume must be one of True, False, got 'yes'$"):
        run(keep=Keep(tmp_path / "a")._replace(resume="yes"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (Keep("a", config={"a": 2**70, "b": 1}), r"names and values that a netCDF file can hold, got {'a': 1180591"),
        (Keep("a", config={"": 1, "b": 1}), r"that a netCDF file can hold, got {'': 1}$"),
        (Keep("a", config={"a": "\0"}), r"that a netCDF file can hold, got {'a': '\\x00'}$"),
        (Keep("a", config={"a": "\ud800"}), r"that a netCDF file can hold, got {'a': '\\ud800'}$"),
        (Keep("a", config={"_NCProperties": 1}), r"that a netCDF file can hold, got {'_NCProperties': 1}$"),
        (Keep("a", config={"coordinates": "x"}), r"that a netCDF file can hold, got {'coordinates': 'x'}$"),
        (Keep("a", config={"rounds_done": 7}), r"^keep.config must not use names .*, got \['rounds_done'\]$"),
        (Keep("a", config=3), r"^keep\.config must be a dict, got int$"),  # pyright: ignore[reportArgumentType]
        (Keep(None), r"^keep\.folder must be a path, such as 'results/a', got None$"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_the_result_cannot_state_is_refused_before_the_first_round(tmp_path, monkeypatch, keep, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        run(keep=keep)
    assert not [*tmp_path.iterdir()]


def test_config_is_kept_beside_all_that_a_result_states(tmp_path):
    """Each attribute is of the manifest or refused as a name of `config`."""
    config = {"system": "toy", "rate": np.float32("nan"), "path": "a/b", "yes": True}
    result = run(rounds=1, keep=Keep(tmp_path / "a", config=config))
    assert result.attrs.keys() == run_folder.read_manifest(tmp_path / "a").keys() | (
        manifest.OF_THE_END & {*result.attrs}
    )
    assert (result.attrs["path"], result.attrs["yes"]) == ("a/b", 1) and np.isnan(result.attrs["rate"])
