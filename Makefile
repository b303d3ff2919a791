# Set-up, demo and tests. Needs Python 3.11+, make, and pip (apt for the browser tests); nothing has to be activated.
#
#   make demo    install, profile the bundled script here, and run recommend, report, apply, verify on it
#   make test    install the test tools, run every check and test
#   make venv    only create or refresh .venv (the command is .venv/bin/tracelens)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two cores are common in CI; more would only help the subprocess tests.
JOBS ?= 2

.PHONY: demo test venv test-tools lint types layers tests browser clean
.DEFAULT_GOAL := demo

venv: $(VENV)/.installed
test-tools: $(VENV)/.test-tools

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "TraceLens needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python3 has no venv module: trying apt"; .ci/as-root apt-get update -qq; \
	  .ci/as-root apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }

$(VENV)/.installed: pyproject.toml constraints.txt $(BIN)/python
	$(PIP) install -qq --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.test-tools: pyproject.toml constraints.txt $(VENV)/.installed
	$(PIP) install -qq --constraint constraints.txt --editable '.[test]'
	@touch $@

demo: venv
	@$(BIN)/python sample_traces/demo.py

test: test-tools browser lint types layers tests

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

layers:
	$(BIN)/lint-imports --no-cache

tests:
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Debian's chromium draws the report in the browser tests; they are skipped, with the reason, where it cannot be had.
browser:
	@command -v chromium >/dev/null || { .ci/as-root apt-get update -qq && \
	  .ci/as-root apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "chromium could not be installed: the browser tests will be skipped"

clean:
	rm -rf $(VENV) demo-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
