"""Long experiments keep their runs, and continue them."""

import pathlib

import pytest

from experiments import kept
from experiments.problem import Task
from experiments.sparse_secagg import training as secure_training
from experiments.wireless import training
from experiments.wireless.training import Setting
from fedjax_priv.runs.records.run_writer import Keep

SETTING = Setting(Task("digits"), groups=(6,), snr_db=(10.0,), batch_size=4, evaluations=2, repeats=1)
AXES = {"participation": [0.5], "clip": [1.0], "noise_variance": [0.1]}


def test_runs_are_kept_where_the_experiment_says():
    assert kept.keep("a", 1, setting="x") is None
    with kept.keeping(pathlib.Path("runs")):
        assert kept.keep("a b", 1, setting=3) == Keep(pathlib.Path("runs/a-b-1"), None, True, {"setting": "3"})
    assert kept.keep("a", setting="x") is None


class Asked(Exception):
    """Carries what `sweep` was asked to keep."""


def asked(monkeypatch, script, run):
    def sweep(*args, keep, **how):
        raise Asked(keep)

    monkeypatch.setattr(script, "sweep", sweep)
    with kept.keeping(pathlib.Path("runs")), pytest.raises(Asked) as found:
        run()
    return found.value.args[0]


def test_different_runs_are_kept_apart_and_another_setting_is_refused(monkeypatch):
    wireless = lambda setting=SETTING, **axes: asked(
        monkeypatch, training, lambda: training.run(setting, AXES | axes, rounds=2, seed=0)
    )
    known, more = SETTING._replace(known_count=True), SETTING._replace(groups=(7,))
    kinds = [wireless(), wireless(known), wireless(more), wireless(clip=[0.1]), wireless(participation=[0.9])]
    assert len({keep.folder for keep in kinds}) == len(kinds) and all(keep.resume for keep in kinds)
    assert wireless(SETTING._replace(batch_size=5)).config != wireless().config

    config = secure_training.Config(secure_training.Setting(Task("digits", "softmax")), 0.9, (4,), (2,))
    secure = lambda config: asked(monkeypatch, secure_training, lambda: secure_training.compare(config))
    shards = config._replace(setting=config.setting._replace(partition="shards", num_shards=36))
    kinds = [secure(config), secure(config._replace(num_clients=(5,))), secure(shards)]
    assert len({keep.folder for keep in kinds}) == 3 and len({keep.config["setting"] for keep in kinds}) == 2
