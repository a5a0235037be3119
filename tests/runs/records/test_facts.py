"""Facts that a resumed run must find again."""

import pytest

from fedjax_priv.runs.records import facts


@pytest.mark.parametrize("name", ["program of 10 rounds", "program 0.0 of 10 rounds"])
def test_of_another_program_it_is_said_what_a_program_is(name, tmp_path):
    """A sweep has several, with numbers."""
    with pytest.raises(ValueError, match=r"was abc \(a program is what system, model, loss and evaluate compile to"):
        facts.check_same(tmp_path, {name: "abc"}, {name: "xyz"})


def test_other_facts_need_no_such_word(tmp_path):
    with pytest.raises(ValueError, match="params is xyz, was abc$"):
        facts.check_same(tmp_path, {"params": "abc"}, {"params": "xyz"})
