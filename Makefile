# The project's tasks. Each first makes the virtual environment it needs, once:
#   make demo            train a small GPT on four emulated NPUs
#   make test            all tests, single-process and multi-rank
#   make lint            format, lint, types, direction of imports
#   make bench           collectives beside the MPI's own
#   make nightly         the tests that take too long for every change
#   make gallery         docs/gallery.md and its pictures, from the table of algorithms
# VENV=folder puts the environment elsewhere; PYTHON=python3.12 makes it with another interpreter.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

RUN := $(VENV)/.installed-mpich
TEST := $(VENV)/.installed-mpich-test
LINT := $(VENV)/.installed-lint

.PHONY: demo test lint bench nightly gallery

demo: $(RUN)
	$(BIN)/hcom-run -n 4 examples/train_gpt.py --config examples/parallel_config.yaml --verify 10

test: $(TEST)
	$(BIN)/python tests/warm.py
	$(BIN)/python -m pytest -q tests --ignore tests/ranks
	$(BIN)/python tests/run_ranks.py

lint: $(LINT)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(RUN)
	$(BIN)/hcom-run -n 2 benchmarks/all_reduce.py
	$(BIN)/hcom-run -n 4 benchmarks/all_reduce.py

nightly: $(TEST)
	$(BIN)/python -m pytest -q tests --ignore tests/ranks -m nightly
	HCCL_EXEC_TIMEOUT=300 $(BIN)/python tests/run_ranks.py --sizes 1,2,3,4,5,8 --hang 600 --limit 3600 -m nightly

gallery: $(RUN)
	$(BIN)/python docs/make_gallery.py

# One stamp for each set of extras; the name holds them: .installed-mpich-test is [mpich,test].
comma := ,
$(VENV)/.installed-%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || { echo "Making a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing this project with [$(subst -,$(comma),$*)] into $(VENV); the first time takes a minute or two"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[$(subst -,$(comma),$*)]'
	@touch $@
