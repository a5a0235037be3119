"""Imports point one way: a file may import what stands before it."""

import ast
import os
import pathlib

import fedjax_priv
from children import Child, count_devices, import_again

ROOT = pathlib.Path(fedjax_priv.__file__).parent
ORDER = (
    {"_devices", "_keyless", "_validate", "atomic", "option_types", "reproduce", "status"},
    {"base", "store", "keep", "launch", "options", "sigterm", "programs"},
    {"axes", "choice", "host_rows", "keys", "rows"},
    {"crypto"},
    {"blocks"},
    {"layers", "aggregators", "data", "models", "losses", "interchange"},
    {"channels", "transaction"},
    {"clients"},
    {"attacks"},
    {"metrics", "manifest", "progress", "results", "round", "wall_clock"},
    {"systems", "processes", "checkpoint", "plots", "leakage", "robustness", "worst_case", "link_measures", "testing"},
    {"byzantine", "layout", "digests", "arguments", "journal", "report"},
    {"experiment"},
    {"evaluation"},
    {"engine"},
    {"pool_engine", "runner"},
    {"simulation", "grid", "memory"},
    {"groups"},
    {"batches"},
    {"sweep"},
    {"bench", "commands"},
    {"theory"},
    {"ledger"},
    {"audit"},
    {"demo"},
    {"cli"},
)
LEVEL = {part: level for level, parts in enumerate(ORDER) for part in parts}


def imports_of(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedjax_priv":
            names = [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
            yield from names
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("fedjax_priv."))


def test_imports_point_one_way():
    files = [file for file in ROOT.rglob("*.py") if file != ROOT / "__init__.py"]
    assert {file.relative_to(ROOT).parts[0].removesuffix(".py") for file in files} == LEVEL.keys()
    for file in files:
        part = file.relative_to(ROOT).parts[0].removesuffix(".py")
        for imported in imports_of(file):
            assert imported == part or LEVEL[imported] < LEVEL[part], f"{file.relative_to(ROOT)} imports {imported}"


def test_importing_starts_no_backend_and_leaves_a_choice_of_devices_alone():
    """One CPU device a core, unless the program has chosen."""
    assert Child(import_again, jax_num_cpu_devices=3).ended()[0] == "3\n"
    assert int(Child(count_devices).ended()[0]) == len(os.sched_getaffinity(0))
