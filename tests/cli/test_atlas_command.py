"""`fedjax-priv atlas`: what it calls possible can be made, and what it refuses cannot."""

import json
import sys
from collections import Counter

import pytest

from fedjax_priv import systems
from fedjax_priv.cli import atlas_command
from fedjax_priv.cli.main import main
from helpers import refuses, towards_target


@pytest.fixture(scope="module")
def rows():
    return atlas_command.atlas(8, 1, 2)


def test_it_says_what_compose_does(rows):
    """Of all 324 stacks: each is made, or refused in the very words of the table."""
    assert len(rows) == 9 * 3 * 2 * 6
    local = towards_target()
    for row in rows:
        stack = atlas_command._stack(*row[:4], 8, 1, 2)
        choices = {name: value for name, value in stack._asdict().items() if value != stack._field_defaults.get(name)}
        try:
            grid = {"levels": 2.0**10} if stack.in_field else {}
            said = systems.compose(local, num_params=12, mesh=None, **grid, **choices) and ""
        except ValueError as error:
            said = str(error)
        assert said == row.why, row


def test_counts_by_hand(rows):
    """Robust rules need rows: 7 of 9 transports have one, whatever else is chosen; top-K has no noise after it."""
    codes = Counter(row.code for row in rows)
    assert sum(row.transport not in ("in the clear", "secagg, buffers") for row in rows if row.rule == "median") == 126
    assert codes["A"] == 126, "A is asked first"
    assert {row.code for row in rows if row.compress == "top_k" and row.private == "local"} == {*"ABE"}
    assert not any(row.marks for row in rows if row.code)


def test_the_command_writes_a_row_for_each_stack(tmp_path, monkeypatch, capsys):
    file = tmp_path / "atlas.json"
    monkeypatch.setattr(sys, "argv", ["fedjax-priv", "atlas", "--num-clients", "8", "--num-byzantine", "1",
                                      "--buffer-size", "2", "--json", str(file)])  # fmt: skip
    main()
    assert [row["code"] for row in json.loads(file.read_text())] == [row.code for row in atlas_command.atlas(8, 1, 2)]
    assert "B: compress must be" in capsys.readouterr().out


test_numbers_out_of_range = refuses(
    atlas_command.atlas,
    (1, 0, 2, "num_clients must be an integer >= 2, got 1"),
    (8, 0, 1, "buffer_size must be an integer >= 2, got 1"),
    (8, 0, 3, "num_clients must be a multiple of buffer_size = 3, got 8"),
    (8, 4, 2, "num_byzantine must be below num_clients / 2 = 4, got 4"),
    (8, -1, 2, "num_byzantine must be an integer >= 0, got -1"),
    whole=True,
)
