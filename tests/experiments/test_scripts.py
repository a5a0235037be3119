"""The experiments: every script runs as a user runs it, and what must come out does."""

import json
import pathlib
import runpy
import sys

import jax
import numpy as np
import pytest
import xarray as xr

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent / "experiments"
SCRIPTS = sorted(
    f"{file.parent.name}.{file.stem}"
    for file in ROOT.glob("*/*.py")
    if "\n    harness.main(__file__" in file.read_text()
)
LONG = {"sparse_secagg.convergence", "wireless.accountants"}  # run for longer than they compile
NOT_TESTED = "not tested at this scale"
SAID = {  # what the verdicts must be, by the start of a claim
    "sparse_secagg.table1": {"largest upload": True, "SecAgg's upload": True, "a user sends at most alpha d": True},
    "sparse_secagg.fig2": {"rand-K": True, "top-K overlaps more": True},
    "sparse_secagg.fig3": {"of it, bytes a round": True, "larger N": NOT_TESTED},
    "sparse_secagg.fig4": {
        "mean X(l) nearly linear": True,
        "that mean is T": True,
        "at least T": False,
        "follows": True,
    },
    "sparse_secagg.fig5": {"of it, bytes a round": True, "of it, rounds": False},
    "sparse_secagg.fig6": {"of it, bytes a round": True, "of it, rounds": False},
    "sparse_secagg.repair": {
        "SparseSecAgg: the server": False,
        "repair: the same attack": True,
        "at equal bytes": True,
    },
    "fedrep.grid": {"IID: robust rules keep": True, "IID: the mean does not": True, "heterogeneous": True},
    "sparse_secagg.leakage": {},
    "sparse_secagg.convergence": {
        "E[F(w_J)] - F* below": True,
        "the error falls as 1 / J": False,
        "what rounding adds": True,
    },
    "fedrep.fig1": {"CClip: accuracy falls beyond": True},
    "fedrep.fig2": {"at equal bytes up and down": True},
    "fedrep.fig3": {"TMean is unsteady": NOT_TESTED},
    "fedrep.fig4": {},
    "fedrep.fig5": {},
    "fedrep.fig6": {"and at equal bytes up and down": True},
    "fedrep.fig7": {"SparseSecAgg's best rate": NOT_TESTED},
    "fedrep.fig8": {"FedREP loses little": NOT_TESTED},
    "fedrep.fig12": {"FedREP's buffers are less dissimilar": False},
    "fedrep.table1": {"RCGD-EF": True},
    "wireless.accountants": {
        "Theorem 1 holds for replacement": True,
        "Theorem 1 holds for removal, once": False,
        "Theorem 1 holds for removal: audit": False,
        "the exact figure for removal": True,
        "the exact figure for replacement": True,
        "knowing K_t": False,
    },
    "wireless.errata": {
        "mean participants": True,
        "eps_l of Lemma 2, II(a), p = 0.3": False,
        "eps_c of eq. 13, II(a), p = 0.9": False,
        "Theorem 1, removal": False,
        "unknown R always": False,
    },
    "wireless.fig2": {
        "Table I: orthogonal, all": True,
        "Table I: orthogonal, sampled": False,
        "Table I: wireless, all": True,
        "Table I: wireless, sampled": True,
        "2a": False,
        "2b: eps_T falls": True,
        "2b: and is a guarantee": False,
    },
    "wireless.fig3": {"3a": False},
    "wireless.fig4": {"(a) channel-aware is better": True, "(a) mean participants": NOT_TESTED},
    "wireless.fig5": {"(a) test accuracy": NOT_TESTED, "(b) channel-aware: max eps_c": False},
    "wireless.fig6": {"c = 2": False, "sampling less": False},
    "wireless.fig7": {"accuracy falls": True},
    "cdp_fl.fig3": {
        "larger sigma: higher final training loss, over the sigma that were added": True,
        "larger tau: training loss falls faster": True,
        "sigma = 0.001, tau = 10": False,
    },
    "cdp_fl.fig4": {"larger sigma: higher final gradient norm, over the paper's": False},
    "cdp_fl.fig5": {
        "better than DP-SGD at the end, eps = 10": True,
        "better than DP-SGD with as many gradient steps, eps = 10": False,
    },
    "cdp_fl.fig6": {},
    "cdp_fl.fig7": {"accuracy grows with eps, with secure": True},
    "cdp_fl.fig8": {"with secure aggregation always above, proved eps": False},
    "cdp_fl.counterexamples": {
        "(i)": False,
        "(ii)": False,
        "(iii)": False,
        "audit of (i) at eps = 3 leaves Theorem 1": False,
        "audit of (i) at eps = 3 leaves row 4": True,
    },
}


@pytest.fixture
def compiled_to_last(script):
    """Optimized if it is long; with JAX's own promotion of types where optax's Adam needs it."""
    jax.config.update("jax_disable_most_optimizations", script not in LONG)
    with jax.numpy_dtype_promotion("standard" if script.startswith("wireless") else "strict"):
        yield
    jax.config.update("jax_disable_most_optimizations", True)


def test_every_script_is_known():
    assert set(SCRIPTS) == SAID.keys()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_leaves_figure_data_manifest_and_verdicts(script, compiled_to_last, tmp_path, monkeypatch, capsys):
    name = script.partition(".")[2]
    monkeypatch.delitem(sys.modules, f"experiments.{script}", raising=False)  # another script may have imported it
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--out", str(tmp_path)])
    runpy.run_module(f"experiments.{script}", run_name="__main__")
    assert name in capsys.readouterr().out
    assert 5_000 < (tmp_path / f"{name}.png").stat().st_size < 200_000
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["scale"] == "quick" and manifest["caveats"]
    assert manifest["command"] == f"python -m experiments.{script} --out {tmp_path}"
    assert {"commit", "device_kind", "date", "jax_version", "command", "seed"} <= manifest.keys()
    with xr.open_dataset(tmp_path / f"{name}.nc", engine="h5netcdf") as data:
        assert data.data_vars and data.attrs["commit"] == manifest["commit"]
        assert all(np.isfinite(values).any() for values in data.data_vars.values())
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert all(claim["verdict"] in (True, False, NOT_TESTED) and claim["ours"] for claim in verdicts)
    for start, said in SAID[script].items():
        assert [claim["verdict"] for claim in verdicts if claim["claim"].startswith(start)] == [said], start
