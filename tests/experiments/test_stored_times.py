"""The tables of the README and of `docs/speed.md` print what is stored in `experiments/results/`."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
README, SPEED = (ROOT / "README.md").read_text(), (ROOT / "docs" / "speed.md").read_text()
PEERS = ("fedjax_priv", "fedjax", "pfl2", "numpy", "plain_jax_map")
CLIPPING = ("fedjax_priv", "fedjax_priv, plain JAX", "not clipped", "NumPy", "Opacus, ghost", "vmap of samples")
DEMO = ("accuracy", "attacked", "up_bytes", "claimed", "proved", "at_least")
ONE_OF_A_MILLION = "round with a cohort of 1,000 out of 1,000,000 clients, against one out of 10,000"
RULES = {
    "coordinate median": "coordinate_median", "MeaMed": "meamed", "CAF": "caf", "Krum": "krum",
    "nearest-neighbour mixing": "nearest_neighbour_mixing", "trimmed mean": "trimmed_mean",
    "geometric median, 3 Weiszfeld steps": "geometric_median", "centered clipping": "centered_clipping",
    "MoNNA": "monna", "mean": "mean", "clipping": "clipping", "ARC": "arc",
}  # fmt: skip
SUMS = {
    "SparseSecAgg, d = 165,000, alpha = 0.1 | 100": "sparse:100", " | 1,000": "sparse:1000",
    " | 4,000": "sparse:4000", "the same, 100 neighbours | 10,000": "sparse_100_neighbours:10000",
    "thresholded opening, d = 165,000, alpha = 0.1 | 100": "thresholded:100",
    "SecAgg, d = 159,010 | 100": "secagg:100", "SecAgg+, 20 neighbours | 100": "secagg_20_neighbours:100",
    "LightSecAgg | 100": "lightsecagg:100", "one-shot aggregation | 100": "one_shot:100",
    "pairwise masks alone in NumPy, d = 159,010 | 100": "numpy_masks:100",
}  # fmt: skip


FIRST_ROUND = {
    "FedAvg": "fedavg", "wireless": "wireless", "CDP-FL": "cdp_fl", "SecAgg": "secagg",
    "SparseSecAgg": "sparse_secagg", "FedREP": "fedrep",
}  # fmt: skip


def stored(name):
    return json.loads((ROOT / "experiments" / "results" / name).read_text())


def cells(page, row):
    """What follows the row's name, of one column or two, in the one table that has it."""
    columns = row.count("|") + 1
    rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in page.splitlines() if line.startswith("|"))
    (found,) = (line[columns:] for line in rows if " | ".join(line[:columns]) == row)
    return found


def agrees(printed, value):
    """Whether a number is the value, rounded to the digits that it has."""
    number = printed.split()[0].rstrip("%").replace(",", "")
    return abs(float(number) - value) <= 0.501 * 10.0 ** -len(number.partition(".")[2])


def assert_row(page, row, values):
    printed = cells(page, row)
    assert len(printed) == len(values)
    for text, value in zip(printed, values, strict=True):
        assert agrees(text, value) if value is not None else text in ("", "-"), (row, text, value)


@pytest.mark.parametrize("page", [README, SPEED], ids=["README", "speed"])
def test_rounds_of_other_libraries(page):
    seconds = {(line["work"], line["peer"]): line["seconds"] for line in stored("peers/mlp.json")["summary"]}
    assert_row(page, "MLP 784-200-10, 100 clients x 15 steps of 20", [seconds["mlp100", peer] for peer in PEERS])
    assert_row(page, "the same, 1,000 x 3", [seconds["mlp1000", peer] for peer in PEERS])


def test_the_demo():
    for row in stored("demo/demo.json"):
        in_percent = {"accuracy": 100 * row["accuracy"], "attacked": 100 * row["attacked"]}
        sent = {"up_bytes": row["up_bytes"] or row["channel_uses"]}
        assert_row(README, row["system"], [(row | in_percent | sent)[name] for name in DEMO])


def test_rules_against_byzfl():
    found = stored("aggregators/aggregators.json")
    for row, name in RULES.items():
        assert_row(SPEED, row, [found[name]["milliseconds"], found[name]["times_faster"]])


def test_secure_sums():
    found = stored("secure_sums/secure_sums.json")
    for row, name in SUMS.items():
        assert_row(SPEED, row, [found[name]["seconds"]])


def test_the_first_round():
    found = stored("scaling/first_round.json")
    for row, name in FIRST_ROUND.items():
        first, again, alone = (found[name][kind] for kind in ("first", "again", "one device"))
        assert_row(SPEED, row, [first["whole"], first["compile"], alone["compile"], again["whole"]])
    for name, text in (("import fedjax_priv", "import fedjax_priv"), ("--help", "fedjax-priv --help")):
        (printed,) = re.findall(rf"`{text}` (?:takes )?([\d.]+) s", SPEED)
        assert agrees(printed, found["alone"][name])


def test_clipped_gradients():
    found = stored("clipping/clipping.json")
    for row in ("MLP 784-200-10", "softmax regression", "CNN of Tramer and Boneh for MNIST"):
        name = "CNN" if row.startswith("CNN") else row
        assert_row(SPEED, row, [found[name].get(column) for column in CLIPPING])


def test_large_pages_sweeps_and_populations():
    pages, scaling = stored("scaling/large_pages.json"), stored("scaling/scaling.json")
    for name in (name for name in pages if name not in ("mode", "manifest")):
        (row,) = {line.split(" | ")[0][2:] for line in SPEED.splitlines() if line.startswith(f"| {name}")}
        assert_row(SPEED, row, [pages[name][kind]["milliseconds"] for kind in ("usual", "large")])
    assert_row(SPEED, ONE_OF_A_MILLION, [scaling["population"]["ratio"]])
    runs = scaling["sweep_of_64_runs"]
    assert "1/34 of" in SPEED and "34 times" in README and agrees("34", runs["separate_over_sweep"])
    assert "1/11 of" in SPEED and "11 times" in README and agrees("11", runs["warm_over_sweep_compiled"])
    grid = stored("grid/grid.json")
    assert "27 times" in SPEED and "27 times" in README and agrees("27", grid["times_faster"])
