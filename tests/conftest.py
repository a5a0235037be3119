"""Strict settings for every test: eight host devices, strict types and ranks, warnings as errors."""

import gc
import os
import pathlib
import signal
import tempfile
from collections.abc import Iterator

import hypothesis
import jax
import pytest

from experiments import compiling

os.environ.setdefault("XLA_FLAGS", compiling.FAST_FLAGS)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_disable_most_optimizations", True)  # nearly all programs run once
jax.config.update("jax_enable_compilation_cache", False)  # here: writing it takes longer than it saves
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

gc.set_threshold(100_000, 50, 100)  # tracing makes many objects and leaves few, and a look at all of them takes long

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("fixed")

HERE = pathlib.Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A name with an address is another in each process, and processes would not agree on what to run."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"give this case a name of its own with ids=...: {item.nodeid}")


def pytest_collection_finish() -> None:
    """Imported objects stay, so garbage collection skips them."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start use one compilation cache, and can be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.TemporaryDirectory(prefix="programs-")
    config.add_cleanup(folder.cleanup)
    options = {
        "jax_compilation_cache_dir": folder.name,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    os.environ.update({name.upper(): str(value) for name, value in options.items()})


@pytest.fixture(scope="session", autouse=True)
def traced_for_a_cpu() -> Iterator[None]:
    """The forms that operations take on accelerators are not even traced, but where a test asks for them."""
    from fedjax_priv.engine.side_by_side import traced_for

    with traced_for("cpu"):
        yield


@pytest.fixture
def any_platform() -> Iterator[None]:
    """Programs are traced for every platform, as a round is that is not run by the library itself."""
    from fedjax_priv.engine.side_by_side import traced_for

    with traced_for(None):
        yield


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Drops a module's programs after it, and never looks again at what stays: else each collection takes seconds."""
    yield
    jax.clear_caches()
    gc.collect()
    gc.freeze()


@pytest.fixture
def optimised() -> Iterator[None]:
    """Programs are optimised as those of users are: for those that run long."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def raw_data() -> pathlib.Path:
    """Folder with the raw files of MNIST, CIFAR-10 and Adult; skips the test if there is none."""
    for folder in (os.environ.get("FEDJAX_PRIV_RAW_DATA"), HERE.parent.parent / "shared" / "data"):
        if folder and (pathlib.Path(folder) / "mnist").is_dir():
            return pathlib.Path(folder)
    pytest.skip("no raw data: set FEDJAX_PRIV_RAW_DATA to a folder with mnist/, adult/, cifar-10-batches-bin/")
