"""The stored searches for certificates: their rows reach what the page prints, in NumPy's float64."""

import json
import pathlib
import re

import numpy as np
import pytest

from aggregators import references
from experiments import certificates
from fedjax_priv.theory import robust_rules

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORED = json.loads((ROOT / "experiments" / "results" / "certificates" / "certificates.json").read_text())
PAGE = (ROOT / "docs" / "certificates.md").read_text()
SETTINGS = {name: [f"{n},{f}" for n, f in certificates.settings(name)] for name in certificates.RULES}
CASES = [(name, setting) for name in certificates.RULES for setting in SETTINGS[name]]

REFERENCES = {
    "trimmed_mean": references.trimmed,
    "coordinate_median": lambda x, f: np.median(x, 0),
    "geometric_median": lambda x, f: references.geometric_median(x),
    "krum": references.krum,
    "krum_byzfl": lambda x, f: references.krum(x, f, excess=1),
    "multi_krum": references.multi_krum,
    "meamed": references.meamed,
    "mixed_trimmed_mean": lambda x, f: references.trimmed(references.mixed(x, f), f),
    "smea": references.smea,
    "mda": references.mda,
    "caf": references.caf,
}

KNOWN = {
    "trimmed_mean": (0.667, 0.600, 0.571, 0.300), "coordinate_median": (1.50, 1.667, 1.75, 1.167),
    "geometric_median": (1.50, 1.667, 1.75, 1.407), "krum": (7.83, 6.776, 5.58, 2.491),
    "krum_byzfl": (4.89, 4.72, 4.405, 2.147), "multi_krum": (2.71, 2.44, 2.30, 1.202),
    "meamed": (3.20, 3.00, 2.91, 1.38), "mixed_trimmed_mean": (2.667, 2.400, 2.286, 1.20),
    "smea": (2.66,), "mda": (2.926,), "caf": (1.080, 1.235, 1.073, 0.590),
}  # fmt: skip
"""What some input is known to reach, from other searches than this one."""

PROVED = {
    "trimmed_mean": robust_rules.trimmed_mean_kappa,
    "coordinate_median": robust_rules.coordinate_median_kappa,
    "geometric_median": robust_rules.geometric_median_kappa,
    "mixed_trimmed_mean": lambda n, f: robust_rules.mixed_kappa(robust_rules.trimmed_mean_kappa(n, f), n, f),
    "krum": robust_rules.krum_kappa,
    "krum_byzfl": lambda n, f: robust_rules.krum_kappa(n, f, "byzfl"),
    "multi_krum": robust_rules.multi_krum_kappa,
    "meamed": robust_rules.meamed_kappa,
    "smea": robust_rules.smea_kappa,
    "mda": robust_rules.mda_kappa,
}


@pytest.mark.parametrize(("name", "setting"), CASES)
def test_stored_rows_reach_the_stored_value(name, setting):
    n, f = map(int, setting.split(","))
    entry = STORED["rules"][name][setting]
    rows = np.array(entry["rows"], np.float64)
    assert rows.shape == (n, certificates.PARAMS)
    honest = rows[f:]
    error = ((REFERENCES[name](rows, f) - honest.mean(0)) ** 2).sum()
    assert error / ((honest - honest.mean(0)) ** 2).sum(1).mean() == pytest.approx(entry["kappa"], rel=2e-3)


@pytest.mark.parametrize("name", certificates.RULES)
def test_a_value_is_not_below_what_is_known_nor_above_what_is_proved(name):
    for setting, known in zip(SETTINGS[name], KNOWN[name], strict=True):
        found = STORED["rules"][name][setting]["kappa"]
        assert found >= known - 0.005, (setting, found)
        if name in PROVED:
            assert found <= float(PROVED[name](*map(int, setting.split(",")))) * (1 + 1e-4)


ROWS_OF_THE_PAGE = {
    "trimmed_mean": "`trimmed_mean`", "coordinate_median": "`coordinate_median`",
    "geometric_median": "`geometric_median`", "krum": "`krum`, n - f - 2 neighbours",
    "krum_byzfl": "`krum`, n - f - 1 neighbours", "multi_krum": "`multi_krum`", "meamed": "`meamed`",
    "mixed_trimmed_mean": "`trimmed_mean` after `nearest_neighbour_mixing`",
    "smea": "`smea`", "mda": "`mda`", "caf": "`caf`",
}  # fmt: skip


@pytest.mark.parametrize("name", certificates.RULES)
def test_the_page_prints_what_is_stored(name):
    first, more = (
        [cell.strip() for cell in line.split("|")[2:-1]]
        for line in PAGE.splitlines() if line.startswith(f"| {ROWS_OF_THE_PAGE[name]} |")
    )  # fmt: skip
    printed = [first[1], *(re.sub(r" \(.*\)", "", cell) for cell in more)]
    found = {setting: f"{STORED['rules'][name][setting]['kappa']:.3f}" for setting in SETTINGS[name]}
    assert printed == [found.get(f"{n},{f}", "-") for n, f in certificates.SETTINGS]


def test_the_page_says_how_many_searches_a_value_is_the_best_of():
    for name, entries in STORED["rules"].items():
        for entry in entries.values():
            searches, steps = (6, 60) if name in certificates.SHORT else (24, 200)
            assert entry["starts"] * len(entry["seeds"]) >= searches, name
            assert entry["steps"] == steps, name
    short = "`geometric_median`, `caf`, `mda` and `smea`"
    said = f"best of 24 searches of 200 steps or more (6 searches of 60 steps for {short})"
    assert said in " ".join(PAGE.split())


def test_more_searches_keep_the_larger_value():
    old, new = ({"kappa": kappa, "seeds": seeds, "rows": []} for kappa, seeds in ((2.0, [0]), (1.0, [3])))
    assert certificates.better(None, new) is new
    assert certificates.better(old, new) == certificates.better(new, old) == old | {"seeds": [0, 3]}
