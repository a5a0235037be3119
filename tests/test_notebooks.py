"""Each notebook is a script and the same cells without outputs; `make notebooks` executes them."""

import pathlib

import pytest

jupytext = pytest.importorskip("jupytext")  # of the extra dev

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "notebooks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.py"))


def cells(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def test_every_notebook_has_both_forms_and_a_line():
    assert NAMES and sorted(file.stem for file in FOLDER.glob("*.ipynb")) == NAMES
    text = (FOLDER / "README.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_forms_are_one_notebook_without_outputs(name):
    """If not: `jupytext --to ipynb notebooks/NAME.py`."""
    script, notebook = (jupytext.read(FOLDER / f"{name}.{form}") for form in ("py", "ipynb"))
    assert cells(script) == cells(notebook)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)
