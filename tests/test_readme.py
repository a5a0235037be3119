"""What the README shows runs."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def test_code_of_the_readme(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict = {}
    exec(compile(code, str(README), "exec"), names)
    accuracy = names["result"].accuracy.values
    assert accuracy[0] < 0.3 < 0.75 < accuracy[-1]
    assert capsys.readouterr().out


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)h][^)]*)\)", README.read_text()):
        assert (README.parent / target).exists(), target
