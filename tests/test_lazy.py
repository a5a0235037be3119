"""What is imported, and when: by the package, by `--help`, and by the first use of a name."""

import importlib
import pkgutil
import sys

import numpy as np
import pytest

import fedjax_priv
from children import Child
from fedjax_priv._lazy import lazy_names

PACKAGES = [
    "fedjax_priv",
    *(module.name for module in pkgutil.walk_packages(fedjax_priv.__path__, "fedjax_priv.") if module.ispkg),
]
FIRST = {"fedjax_priv", "fedjax_priv._devices", "fedjax_priv._interrupt", "fedjax_priv._lazy"}
NEEDED = {
    "chex": "testing.check_aggregator",
    "dp_accounting": "theory.skellam.epsilon",
    "flax": "models.mlp",
    "matplotlib": "analysis.learning_curves",
    "optax": "engine.round.federated_round",
    "psutil": "runs.simulation.simulate",
    "rich": "ledger.show",
    "scipy": "audit.compare",
    "tyro": "cli.main.main",
    "xarray": "runs.simulation.simulate",
}
"""Libraries that take long to import, and a function that needs them: its module, or when it is called."""
SLOW_PARTS = "scipy.integrate", "scipy.optimize", "scipy.stats"
"""Of SciPy: every run has a ledger, and few figures of it need one."""
CALLED = {
    "dp_accounting": lambda epsilon: epsilon(np.ones(sys.modules[epsilon.__module__].ORDERS.size), 0.1),
}


def test_a_room_that_users_enter_is_there_after_import_alone():
    rooms = {module.name for module in pkgutil.iter_modules(fedjax_priv.__path__) if module.ispkg}
    assert rooms - {*fedjax_priv.__all__} == {"cli", "engine", "runs"}


def forget(*libraries):
    """The package as if it had not been imported yet, on a machine without some libraries."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("fedjax_priv", *libraries)]:
        del sys.modules[name]
    sys.modules.update(dict.fromkeys(libraries))  # importing None is an ImportError


def import_alone():
    forget(*NEEDED)
    importlib.import_module("fedjax_priv")
    assert {name for name in sys.modules if name.partition(".")[0] == "fedjax_priv"} == FIRST


def command_alone(*arguments):
    forget(*NEEDED.keys() - {"tyro"})
    sys.argv = ["fedjax-priv", *arguments]
    importlib.import_module("fedjax_priv.cli.main").main()


def forget_slow_parts():
    """Neither the package nor SciPy has been imported yet, and SciPy's slow parts are not there."""
    forget("scipy")
    del sys.modules["scipy"]
    sys.modules.update(dict.fromkeys(SLOW_PARTS))


def ledger_alone():
    forget_slow_parts()
    importlib.import_module("fedjax_priv.ledger.by_release")
    used = {"integrate": "truncated_inversion", "optimize": "best_truncation", "stats": "combined_coefficients"}
    wireless = importlib.import_module("fedjax_priv.theory.wireless")
    for part, name in used.items():  # the control
        with pytest.raises(ImportError, match=f"scipy.{part}|'{part}'"):
            getattr(wireless, name)(*((0.2, 5.0) if part == "integrate" else ()))


def interval_alone():
    forget_slow_parts()
    importlib.import_module("fedjax_priv.analysis.intervals").half_width([0.1, 0.2])


def cards_alone(paper):
    cards = importlib.import_module("experiments.cards")
    tables = lambda: {name.split(".")[1] for name in sys.modules if name.endswith(".figures")}
    cards.chosen(paper, None)
    assert tables() == {paper}
    cards.chosen(None, None)  # the control
    assert tables() == cards.PAPERS.keys()


def each_is_needed():
    """The control."""
    all_modules = dict(sys.modules)
    for library, path in NEEDED.items():
        forget(library)
        with pytest.raises(ImportError, match=library):
            use(path, CALLED.get(library, lambda function: None))
        sys.modules.update(all_modules)


def use(path, call):
    module, _, name = path.rpartition(".")
    call(getattr(importlib.import_module(f"fedjax_priv.{module}"), name))


def test_an_import_of_the_package_loads_no_library_but_jax():
    Child(import_alone).ended()


def test_help_loads_nothing_that_takes_long():
    assert "reproduce" in Child(command_alone, "--help").ended()[0]


def test_the_ledger_loads_no_slow_part_of_scipy():
    Child(ledger_alone).ended()


def test_an_interval_loads_no_slow_part_of_scipy():
    Child(interval_alone).ended()


def test_the_cards_of_a_paper_import_no_experiment_of_another():
    Child(cards_alone, "wireless").ended()


def test_what_takes_long_is_needed_later():
    Child(each_is_needed).ended()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there_and_listed(package):
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert {*names} <= {*dir(module)}
    assert all(getattr(module, name) is getattr(module, name) for name in names)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match=r"^module 'fedjax_priv.layers' has no attribute 'clipp'$"):
        fedjax_priv.layers.clipp  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'clipp'"):
        from fedjax_priv.layers import clipp  # noqa: F401


def test_a_name_is_imported_once(monkeypatch):
    monkeypatch.delitem(vars(fedjax_priv.channels), "erasure", raising=False)
    assert "erasure" not in vars(fedjax_priv.channels)
    assert fedjax_priv.channels.erasure is vars(fedjax_priv.channels)["erasure"]
    get, names = lazy_names("fedjax_priv.channels")
    assert get("erasure") is fedjax_priv.channels.erasure and "erasure" in names()
