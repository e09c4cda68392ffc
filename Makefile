# Each target is enough by itself in a fresh clone: it finds or installs LLVM, makes .venv, and
# installs the package there. A second call is fast.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup run test bench format clean

help:
	@echo "make run      take a small kernel through the whole trip and show it"
	@echo "make test     ruff, mypy, and every test"
	@echo "make bench    time the commands against their floor"
	@echo "make setup    only find or install what is needed: LLVM, .venv, the package"
	@echo "make format   format the sources"
	@echo "make clean    remove build/ and the caches, but not .venv"

$(READY): pyproject.toml scripts/setup.sh
	@scripts/setup.sh $(VENV)
	@touch $@

# LLVM can go away after .venv was made, and bytecode is stale after every edit: both are checked
# at each call, in well under a second.
setup: $(READY)
	@scripts/setup.sh $(VENV) --check

run: setup
	@scripts/demo.sh $(BIN) build/demo

test: setup
	@scripts/test_inputs.sh $(BIN)/python build
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/python -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)

bench: setup
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.emulator

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis
