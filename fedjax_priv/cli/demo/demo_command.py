"""The main job in one call: the systems of four papers on the same clients, what each tolerates and what it hides."""

import pathlib

from fedjax_priv import _validate, models
from fedjax_priv.audit import sending
from fedjax_priv.cli.demo.audits import audited
from fedjax_priv.cli.demo.case_table import LEVELS, Case, Size, cases
from fedjax_priv.cli.demo.common_setting import Setting, digits, four_pixels, setting
from fedjax_priv.cli.demo.compare import largest_difference, updates
from fedjax_priv.cli.demo.table import Row, row, show, write
from fedjax_priv.runs.records import atomic_file

__all__ = ["Row", "Size", "demo"]

SIZE = Size()


def demo(
    out: pathlib.Path = pathlib.Path("results/demo"), rounds: int = 40, seed: int = 0, size: Size = SIZE
) -> list[Row]:
    """FedAvg, SecAgg and the systems of four papers: 100 clients on scikit-learn's digits, all honest or 10 Byzantine.

    Args are those of the command `demo`, and `size`: how many clients, how many of them Byzantine, and how much is
    checked. It writes the figure `demo.png` and the table `demo.json` to `out`.

    Raises:
      ValueError: `rounds` below 1, or `seed` not in [0, 2**32).
      OSError: `out` cannot be made or written.
    """
    _validate.integer(rounds=rounds)
    _validate.seed(seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    atomic_file.check_folder(out)
    common, small = setting(seed, digits(size), (32,), size), setting(seed, four_pixels(size), (), size)
    again = cases(models.num_params(small.params), size)
    results, rows = {}, []
    for name, case in cases(models.num_params(common.params), size).items():
        results[name], attacked = common.runs(case, rounds)
        found = audited(again[name], results[name], small)
        rows.append(row(name, results[name], attacked, found, _difference(common, case)))
    show(rows, rounds, size)
    write(out, rows, results)
    return rows


def _difference(common: Setting, case: Case) -> float | None:
    """In grid points; None where nothing is summed in secret."""
    if case.twin is None:
        return None
    local = sending(updates(common.local(case), common.key, common.params, common.clients))
    secure, clear = case.make(local), case.twin(local)
    return LEVELS * largest_difference(secure, clear, common.key, common.params, common.clients, common.size.compared)
