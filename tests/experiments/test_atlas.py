"""What is measured of the cells of the atlas, and what is said of them; nothing is trained here."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from experiments.atlas import atlas, training
from experiments.atlas.audits import Auditor
from experiments.atlas.measures import NOT_RUN, POSSIBLE, _accuracies, cells, dataset, groups_of, uncovered
from experiments.atlas.picture import pareto
from experiments.atlas.stacks import TRANSPORTS, Cell, rules
from experiments.atlas.table import table
from experiments.atlas.training import ROWS, Config, Program, acts_on, problem, programs, train
from fedjax_priv.audit import sending
from fedjax_priv.theory import gaussian


def accuracies(**by_attack):
    return xr.DataArray(list(by_attack.values()), dims=("attack", "seed"), coords={"attack": [*by_attack]})


def test_the_worst_attack_is_of_all_where_one_costs_the_mean_ten_points():
    """One that is made against the rule costs the mean nothing."""
    mean = accuracies(none=[0.9, 0.8], strong=[0.1, 0.1], made=[0.8, 0.8])
    rule = accuracies(none=[0.8, 0.8], strong=[0.8, 0.8], made=[0.7, 0.5])
    found = _accuracies(rule, mean)
    assert found["attack"] == "made" and found["worst"] == pytest.approx(0.6) and found["honest"] == 0.8
    assert found["lost"] == pytest.approx(0.75) and found["mean"] == pytest.approx(0.85)
    assert _accuracies(mean, mean)["attack"] == "strong"
    assert found["width"] == pytest.approx(12.7062 * 0.1, rel=1e-4)  # Student, one degree of freedom
    untested = _accuracies(rule, accuracies(none=[0.9, 0.8], strong=[0.8, 0.8], made=[0.8, 0.8]))
    assert untested["attack"] == "" and np.isnan(untested["worst"])


@pytest.mark.parametrize(
    ("size", "dropout", "skips"), [(2, 0.1, 0.0002), (2, 0.3, 0.252), (4, 0.1, 0.062), (4, 0.3, 0.828)]
)
def test_too_few_buckets_are_left_as_often_as_computed_by_hand(size, dropout, skips):
    assert atlas.too_few(size, dropout) == pytest.approx(skips, rel=0.01, abs=5e-5)


def test_the_whole_grid_has_48_programs_and_801_cells():
    made = list(programs(Config()))
    assert len(made) == 48 and sum(len(one.rules) for one in made) * len(Config().dropouts) == 801


def test_rounds_that_went_on_without_a_guarantee_by_hand():
    """32 clients in 4 rows: a median of M rows tolerates fewer than M / 2 with an attacker; clients 0 to 2 attack."""
    groups = np.tile(np.arange(32) % 4, (1, 5, 1))  # attackers in three rows
    groups[0, 4] = np.arange(32) // 8  # in one
    counted, status = np.ones((1, 1, 5, 32), bool), np.zeros((1, 1, 5), int)
    counted[0, 0, 1, :2] = False  # one row is attacked, of four
    counted[0, 0, 2, 0], counted[0, 0, 2, 3::4] = False, False  # two, of three
    status[0, 0, 3] = 1  # would be three of four, but it failed
    runs = xr.Dataset({
        "counted": (("attack", "seed", "round", "client"), counted), "status": (("attack", "seed", "round"), status),
    })  # fmt: skip
    assert uncovered(runs, groups, rules()["median"]) == 2 / 5
    assert uncovered(runs, groups, rules()["geometric median"]) == 2 / 5
    assert np.isnan(uncovered(runs, groups, rules()["mean"]))


def test_rows_of_clients_are_those_of_the_runs(monkeypatch):
    """A client of a row that failed is not counted, whoever it is, and whatever it has learned."""
    monkeypatch.setattr(training, "_local", lambda *_: sending(jnp.zeros((32, shared.size))))
    config = Config(rounds=15, repeats=2, rules=("median",), attacks=("none",), dropouts=(0.3,))
    shared, program = problem(config), Program("buckets of 4", "none", "dense", ("median",))
    runs = train(config, shared, program).isel(rule=0, attack=0, dropout=0)
    groups, counted = groups_of(config, shared, program), runs.counted.values == 1
    survivors = lambda row: ((groups == row) & counted).sum(-1)
    alone = np.stack([survivors(row) for row in range(8)])
    assert groups.shape == counted.shape == (2, 15, 32) and (np.sort(groups)[0, 0] == np.arange(32) // 4).all()
    assert set(alone.ravel()) == {0, 3, 4}, "a bucket of four opens where three are left"
    assert len(np.unique(groups.reshape(-1, 32), axis=0)) == 30


def test_attackers_choose_rows_where_clients_share_them():
    assert {name: acts_on(name) for name in TRANSPORTS} == {
        "plain": "attack", "SecAgg": "attack", "thresholded": "attack", "buckets of 2": ROWS, "buckets of 4": ROWS,
    }  # fmt: skip


def measured(worst, skipped=0.0, up=1.0):
    numbers = dict(honest=0.9, worst=worst, width=0.1, lost=0.8, mean=0.9, up=up, down=1.0, epsilon=np.nan)
    return numbers | {"skipped": skipped, "attack": "IPM", "why": "no noise is added by the system"}


AUDITED = ("audits-stand", "twins-are-caught")


def outcome(worst, skipped):
    """Of three cells."""
    cell = Cell("buckets of 2", "trimmed mean", "none", "dense", 0.3)
    clear = cell._replace(transport="plain", dropout=0.0)
    found = {cell: measured(0.5, skipped, up=2.0), clear: measured(worst), clear._replace(rule="Krum"): measured(0.4)}
    data = dataset(Config(), found).assign_attrs(programs=1, runs=3)
    return data, {claim.id: claim.verdict for claim in atlas.claims(Config(), data)}


def test_claims_can_fail():
    data, good = outcome(0.85, 0.25)
    tested = {"some-rule-keeps": True, "skips-as-predicted": True}
    assert good == {"runs-or-is-refused": None} | tested | dict.fromkeys(AUDITED)
    assert outcome(0.7, 0.6)[1] == good | {"some-rule-keeps": False, "skips-as-predicted": False}
    assert outcome(0.7, 1.0)[1]["runs-or-is-refused"] is False, "a stack that never takes a step does not run"
    assert [row["worst"] for _, row in pareto(data)] == [0.85]
    assert all(line for line in atlas.caveats(Config(), data))
    assert not any("more attacked rows" in line for line in atlas.caveats(Config(), data))
    data.uncovered[{"stack": [0, 5, 9]}] = 0.0
    assert "no round went on with more attacked rows than the rule tolerates" in atlas.caveats(Config(), data)
    data.uncovered[{"stack": [0, 5, 9]}] = [0.25, 0.5, 0.0]
    cell = [*cells(data)][5][0]
    assert (
        f"up to 50% ({cell.rule} in {cell.transport} at dropout {cell.dropout:g})" in atlas.caveats(Config(), data)[-3]
    )


@pytest.mark.parametrize(
    ("code", "skipped", "verdict"),
    [(POSSIBLE, 0.9, True), (POSSIBLE, 1.0, False), (NOT_RUN, 0.9, None), (NOT_RUN, 1.0, False)],
)
def test_a_grid_of_which_nothing_is_left_is_complete_if_all_take_a_step(code, skipped, verdict):
    rows, run = pd.DataFrame({"code": [POSSIBLE, "refused", code]}), pd.DataFrame({"skipped": [0.0, skipped]})
    assert atlas._complete(rows, run).verdict is verdict


def test_claims_about_audits_can_fail():
    cell = Cell("plain", "median", "local", "dense", 0.0)
    said = lambda **game: {
        one.id: one.verdict
        for one in atlas.claims(Config(), dataset(Config(), {cell: measured(0.9) | dict(epsilon=9.0, once=4.0) | game}))
    }
    good = said(shown=3.0, contradicted=0.0, twin=5.0, caught=1.0)
    assert [good[name] for name in AUDITED] == [True, True]
    assert said(shown=5.0, contradicted=1.0, twin=5.0, caught=1.0)["audits-stand"] is False
    missed = said(shown=3.0, contradicted=0.0, twin=3.0, caught=0.0)
    assert missed["twins-are-caught"] is False and missed["audits-stand"] is None
    assert said(shown=5.0, contradicted=1.0, twin=3.0, caught=0.0)["audits-stand"] is False
    without = said(shown=3.0, contradicted=0.0)
    assert [without[name] for name in AUDITED] == [None, None], "no twin was played"


def test_a_game_is_played_once_for_a_release_and_catches_a_twin_without_noise():
    """The eps of a round is that of a Gaussian mechanism of 2 C over the deviation of the noise."""
    config = Config(trials=500)
    auditor = Auditor(config, problem(config))
    program = Program("plain", "local", "dense", ("mean",))
    game = auditor(program)
    assert game is not None
    exact = gaussian.epsilon(config.delta, 2 / config.deviation)
    assert game.once == pytest.approx(exact) and exact / 2 < game.shown < exact < game.twin
    assert (game.contradicted, game.caught) == (0, 1)
    assert auditor(program._replace(compression="rand-K")) is game, "compressed alike, clipped and noised alike"
    assert auditor(program._replace(noise="none")) is None is auditor(program._replace(compression="ConSpar"))


def test_the_table_has_every_stack_with_its_numbers_or_its_reason():
    data, _ = outcome(0.85, 0.25)
    shown = table(data)
    assert shown.count("<tr>") == 1 + 1800 == 1 + len(list(cells(data)))
    assert "<td>85.0%</td>" in shown and shown.count("<td>A: aggregate must be") == 630
