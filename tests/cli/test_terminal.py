import subprocess
import sys

WORK = """
import pathlib, sys
from fedjax_priv.cli.terminal import Terminal
Terminal().print("a line\\n" * 100_000)
Terminal().print("another")
pathlib.Path(sys.argv[1]).touch()
"""


def test_work_goes_on_where_a_reader_has_closed_the_pipe(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WORK, tmp_path / "json"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.read(6) == b"a line"
        process.stdout.close()
        assert process.wait(60) == 0
    assert (tmp_path / "json").exists()
