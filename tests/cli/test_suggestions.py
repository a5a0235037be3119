"""Words that name nothing, and hints that are about the command that was named."""

import re
import runpy
import sys

import jax
import pytest

import fedjax_priv
from fedjax_priv import systems
from fedjax_priv.cli import main, reproduce, suggestions
from fedjax_priv.cli.system_commands import COMMANDS

NAMES = ("demo", "run", "sweep")


def said(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["fedjax-priv", *arguments])
    try:
        main.main()
        status = 0
    except SystemExit as ended:
        status = ended.code
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["runn"], "command must be one of demo, run, sweep, got runn; did you mean run?"),
        (["frobnicate", "fedavg"], "command must be one of demo, run, sweep, got frobnicate"),
        (["run", "sec-ag"], "system must be one of fedavg, sec_agg, got sec_ag; did you mean sec_agg?"),
    ],
)
def test_an_unknown_word_is_answered_with_the_known_ones(arguments, line):
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        suggestions.check_words(arguments, NAMES, {"run": ["fedavg", "sec_agg"]})


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "sec-agg"], ["demo", "there"], ["--help"], ["run", "-h"]])
def test_other_words_are_left_to_the_parser(arguments):
    suggestions.check_words(arguments, NAMES, {"run": ["fedavg", "sec_agg"]})


def test_a_mistyped_system_is_one_line_and_status_2(monkeypatch, capsys):
    status, _, err = said(monkeypatch, capsys, "run", "secag")
    assert status == 2 and err.count("\n") == 1
    assert all(name in err for name in systems.__all__) and err.rstrip().endswith("did you mean secagg?")


def test_hints_are_about_the_command_that_was_named(monkeypatch, capsys):
    status, out, err = said(monkeypatch, capsys, "demo", "--roundz", "3")
    assert status == 2 and "--rounds" in out + err and "fedjax-priv list" not in out + err
    assert "rounds" not in str(main._commands(("list",))["demo"].__annotations__)
    assert {*COMMANDS} <= main._commands(()).keys()


def test_the_version_is_that_of_the_package(monkeypatch, capsys):
    status, out, _ = said(monkeypatch, capsys, "--version")
    assert status == 0 and out.startswith(f"fedjax-priv {fedjax_priv.__version__}, JAX {jax.__version__}, Python 3.")


def test_the_package_run_as_a_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fedjax_priv", "--version"])
    monkeypatch.delitem(sys.modules, "fedjax_priv.__main__", raising=False)  # runpy warns if a test imported it before
    runpy.run_module("fedjax_priv", run_name="__main__")
    assert capsys.readouterr().out.startswith(f"fedjax-priv {fedjax_priv.__version__}")


@pytest.mark.parametrize("arguments", [[], ["no_such_paper"], ["--all"]])
def test_where_the_papers_scripts_are_not_it_says_so_first(monkeypatch, capsys, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "site" / "fedjax_priv" / "cli" / "reproduce.py"))
    status, _, err = said(monkeypatch, capsys, "reproduce", *arguments)
    assert status == 2 and err.count("\n") == 1
    assert err.startswith("fedjax-priv: the papers' scripts are not in the package: run this in a checkout")
