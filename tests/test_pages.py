"""The code in the README and in the pages of `docs` runs, and the files and tests they name exist."""

import ast
import importlib.util
import operator
import pathlib
import re
import shlex

import jax
import numpy as np
import pytest

from children import command
from experiments import cards
from fedjax_priv import data, ledger
from fedjax_priv.cli import commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "coming_from").glob("*.md")])
EXPERIMENTS = sorted((ROOT / "experiments").glob("*/README.md"))
INDEX, GUIDE = ROOT / "docs" / "index.md", ROOT / "docs" / "guide.md"
EXACT = {ROOT / "docs" / "secure_sums.md"}
"""Pages that print integers, the same on any machine."""
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
NAME = operator.attrgetter("name")


def shown(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def run(pages, folder, monkeypatch, after_block=lambda page, printed: None):
    """Run the blocks of pages one after the other; the names they leave behind."""
    monkeypatch.chdir(folder)
    names: dict = {}
    for page in pages:
        for code, printed in re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", page.read_text(), re.DOTALL):
            exec(compile(code, str(page), "exec"), names)
            after_block(page, printed)
    return names


def assert_printed(printed, promised, rel):
    """The same text, with numbers that differ by `rel` at most."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", promised).split()
    numbers = ([float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (printed, promised))
    np.testing.assert_allclose(*numbers, rtol=rel)


def test_code_of_the_readme_and_of_the_guide_which_goes_on_from_it(capsys, monkeypatch, tmp_path):
    assert shown(INDEX) == shown(README)
    names = run([README, GUIDE], tmp_path, monkeypatch)
    accuracy = names["result"].accuracy.values
    assert accuracy[0] < 0.3 < 0.75 < accuracy[-1]
    assert names["grid"].attrs["programs"] == 2 and names["grid"].accuracy.shape == (3, 2, 2, 2)
    assert (tmp_path / "results" / "fedavg" / "result.nc").exists()
    assert capsys.readouterr().out


def pages_of_other_code():
    """One page of each code: several of `coming_from` show the same."""
    first = {}
    for page in DOCS:
        if shown(page) and page not in (INDEX, GUIDE):
            first.setdefault("".join(shown(page)), page)
    return [*first.values()]


@pytest.mark.parametrize("page", pages_of_other_code(), ids=NAME)
def test_code_of_a_page(page, capsys, monkeypatch, tmp_path):
    def compare(page, promised):
        printed = capsys.readouterr().out
        if promised and page in EXACT:
            assert printed == promised
        elif promised:
            assert_printed(printed, promised, rel=0.03)  # training is rounded otherwise on other machines

    run([page], tmp_path, monkeypatch, compare)


def lines_of_a_shell():
    """Those that run a system; without what starts them on other machines."""
    text = "\n".join(page.read_text() for page in [README, *DOCS]).replace("\\\n", " ")
    return sorted({*re.findall(r"^    .*?fedjax-priv ((?:run|sweep) (?!.*--help).*?)(?: &)?$", text, re.MULTILINE)})


@pytest.mark.parametrize("line", lines_of_a_shell())
def test_a_line_for_a_shell_comes_to_its_first_round(line, monkeypatch, tmp_path):
    """Without other processes and the search for noise, and with zeros for MNIST."""

    def first_round(algorithm, key, params, samples, **_):
        state = jax.eval_shape(algorithm.init, key, params, samples)
        jax.eval_shape(algorithm.step, key, state, samples)
        raise KeyboardInterrupt

    def first_point(make, axes, key, init, samples, **_):
        point = {axis: values[0] for axis, values in axes.items() if axis != "seed"}
        first_round(make(**point), key, init(key), samples)

    x, y = np.zeros((60_000, 28, 28, 1), np.float32), np.arange(60_000, dtype=np.int32) % 10
    monkeypatch.setattr(data, "mnist", lambda _: data.Dataset(x, y, x[:9], y[:9], num_classes=10))
    monkeypatch.setattr(ledger, "noise_for", lambda *_, **__: 1.0)
    monkeypatch.setattr(ledger, "rounds_within", lambda *_, most, **__: most)
    monkeypatch.setattr(commands, "join", lambda _: None)
    monkeypatch.setattr(commands, "simulate_kept", first_round)
    monkeypatch.setattr(commands, "sweep_runs", first_point)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        command(*shlex.split(line))
    assert stopped.value.code == 130


@pytest.mark.parametrize("page", [README, *DOCS, *EXPERIMENTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_of_a_page_names_a_module_and_a_card(page):
    """Not what stands for any card, as PAPER and FIGURE do."""
    text = " ".join(page.read_text().split())
    for module in re.findall(r"python -m ([\w.]+\w)", text):
        assert importlib.util.find_spec(module), module
    names = r"([a-z]\w+) ([a-z]\w+)(?: --scale ([a-z]+))?"
    for paper, figure, scale in re.findall(rf"(?:python -m experiments|fedjax-priv reproduce) {names}", text):
        assert cards.chosen(paper, figure, scale or "quick"), f"{paper} {figure}"


@pytest.mark.parametrize("page", [README, *DOCS], ids=NAME)
def test_what_a_page_names_is_there(page):
    for target in re.findall(r"\]\(([^)h#][^)#]*)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:docs|experiments|fedjax_priv|notebooks|tests)/[^`\s:]*)(?=[`:])", page.read_text()):
        assert (ROOT / path).exists(), path
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
        functions = [node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")]
        assert name in functions, f"{path}::{name}"
