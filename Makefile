# `make demo` and `make test` do everything on a machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint docs notebooks bench wheel accelerators accelerators-table clean

demo: $(STAMP)
	$(BIN)/fedjax-priv demo

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 6 --dist worksteal  # each takes 2 GB

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(STAMP)
	.ci/wheel

bench: $(STAMP)
	$(BIN)/fedjax-priv bench

# Compiles a few rounds for a GPU and TPUs that are not there, and holds their bounds; skipped where pip cannot have the
# compilers of this version of JAX. The table of all systems takes an hour.
accelerators: $(STAMP)
	@home=$$($(BIN)/python -m experiments.accelerators.environment .accelerators 2>&1) || { echo "skipped: $$home"; exit 0; }; \
	FEDJAX_PRIV_ACCELERATORS=$$home $(BIN)/python -m pytest -n0 tests/experiments/test_accelerators.py

accelerators-table: $(STAMP)
	$(BIN)/python -m experiments.accelerators.table --compilers .accelerators

# With outputs to results/notebooks, which the site shows; two at a time; a cell that raises fails.
notebooks: $(VENV)/.notebooks
	ls notebooks/*.ipynb | xargs -n 1 -P 2 $(BIN)/jupyter-nbconvert --log-level WARN --to notebook --execute --output-dir results/notebooks

$(VENV)/.notebooks: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[notebooks]'
	@touch $@

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "fedjax_priv needs Python 3.11 or newer, this is %d.%d: make PYTHON=python3.12 ..." % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev,crypto,data]'
	@touch $(STAMP)

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis
