"""What the README shows runs."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def test_code_of_the_readme(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(compile(code, str(README), "exec"), names)
    accuracy = names["result"].accuracy.values
    assert accuracy[0] < 0.3 < 0.75 < accuracy[-1]
    assert names["grid"].attrs["programs"] == 2 and names["grid"].accuracy.shape == (3, 2, 3, 2)
    assert (tmp_path / "results" / "secagg" / "result.nc").exists()
    assert capsys.readouterr().out


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)h][^)]*)\)", README.read_text()):
        assert (README.parent / target).exists(), target
