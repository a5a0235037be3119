"""Two axes of a sweep as a picture: each cell has the mean over seeds of the last evaluation."""

import numpy as np
import pytest
import xarray as xr

from children import Child, never_imported
from fedjax_priv.analysis import heat_map
from helpers import refuses

RULES, ATTACKS = ["mean", "krum", "median"], ["none", "foe"]


def grid(accuracy):
    """`[rule, attack, seed, evaluation]`; a run that was not run has no time."""
    dims = ("rule", "attack", "seed", "evaluation")
    coords = {"rule": RULES, "attack": ATTACKS, "seed": [0, 1], "evaluation": [0, 9]}
    seconds = np.ones(accuracy.shape)
    seconds[2, 1] = np.nan
    return xr.Dataset({"accuracy": (dims, accuracy), "seconds": (dims, seconds)}, coords)


ACCURACY = np.random.default_rng(0).uniform(size=(3, 2, 2, 2))
ACCURACY[1, 0, 1, 1] = np.nan  # diverged
ACCURACY[2, 1] = np.nan  # not run
GRID = grid(ACCURACY)


@pytest.mark.parametrize("turned", [False, True])
def test_each_cell_has_its_number_where_its_labels_say(turned):
    rows, columns = ("attack", "rule") if turned else ("rule", "attack")
    axes, bar = heat_map(GRID, rows, columns).axes
    down, across = ([label.get_text() for label in ticks] for ticks in (axes.get_yticklabels(), axes.get_xticklabels()))
    assert (down, across) == ((ATTACKS, RULES) if turned else (RULES, ATTACKS))
    assert (axes.get_xlabel(), axes.get_ylabel()) == (columns, rows)
    assert bar.get_ylabel() == "accuracy, last evaluation, mean of 2 seeds"
    written = {text.get_position(): text.get_text() for text in axes.texts}
    expected = {}
    for i, row in enumerate(down):
        for j, column in enumerate(across):
            seeds = GRID.accuracy.sel({rows: row, columns: column}).values[:, -1]
            expected[j + 0.5, i + 0.5] = f"{seeds.sum() / 2:.3g}"
    del expected[(2.5, 1.5) if turned else (1.5, 2.5)]
    assert written == expected and "nan" in written.values()
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is on top


def test_a_single_seed_and_numbers_as_labels():
    one = GRID.isel(seed=0).assign_coords(rule=[0.1, 0.2, 0.3])
    axes, bar = heat_map(one, "rule", "attack").axes
    assert bar.get_ylabel() == "accuracy, last evaluation"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0.1", "0.2", "0.3"]
    assert axes.texts[0].get_text() == f"{ACCURACY[0, 0, 0, 1]:.3g}"


def test_letters_are_white_on_dark_cells_alone():
    accuracy = np.broadcast_to(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])[:, :, None, None], (3, 2, 2, 2))
    axes, _ = heat_map(grid(accuracy), "rule", "attack").axes
    assert [text.get_color() for text in axes.texts[:2]] == ["white", "black"]


test_wrong_arguments_are_named = refuses(
    lambda result, *axes: heat_map(result, *axes),
    (GRID, "rule", "attack", "loss", "^y must be one of 'accuracy', 'seconds', got 'loss'$"),
    (
        GRID,
        "rule",
        "rule",
        r"^rows and columns must be the axes .*, here \['rule', 'attack'\], got 'rule' and 'rule'; ",
    ),
    (GRID, "rule", "seed", "^rows and columns must be the axes of result but 'seed'"),
    (GRID.isel(attack=0), "rule", "attack", r"here \['rule'\], got"),
    (GRID.expand_dims(ratio=[0.1, 0.2]), "rule", "attack", r"any other axis by result.sel\(...\)$"),
)


def test_it_is_drawn_without_pyplot(tmp_path):
    heat_map(GRID, "rule", "attack").savefig(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 5_000
    Child(never_imported, "matplotlib.pyplot").ended()
