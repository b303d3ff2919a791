# Set-up, demo and tests. Needs Python 3.11+, make, and pip (apt for the browser tests); nothing has to be activated.
#
#   make demo    install, profile the bundled script here, and run recommend, report, apply, verify on it
#   make check   lint, types, layers and the tests that start no program: some ninety seconds on two cores
#   make test    install the test tools, run every check and test; T=PATH: the tests of one file or folder
#   make bench   measure how fast traces are read, beside json.loads and HTA, and the commands on the sample Runs
#                (some ten minutes; QUICK=1: two minutes)
#   make fuzz    damaged traces for BUDGET=300 seconds, from case SEED=0
#   make corpus  patch every training script under TRACELENS_CORPUS=DIR in scratch copies, and check the results
#   make dynamic the scripts of tests/dynamic/manifest.json under TRACELENS_DYNAMIC=DIR, original against patched; GPUS=N
#   make screenshots   draw the pictures of docs/images/ anew
#   make docs    write the generated parts of README and docs, build the documentation site
#   make venv    only create or refresh .venv (the command is .venv/bin/tracelens)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two cores are common in CI; JOBS=0 runs the tests in one process, for a debugger.
JOBS ?= 2
# The suite starts hundreds of Python processes: without bytecode each would compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: matrix dynamic corpus bench fuzz demo test venv test-tools check text lint types layers pure tests browser docs clean
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

# This installs what `venv` installs and more: in a clean checkout pip resolves and builds once.
$(VENV)/.test-tools: pyproject.toml constraints.txt $(BIN)/python
	$(PIP) install -qq --constraint constraints.txt --editable '.[test]'
	@touch $(VENV)/.installed $@

demo: venv
	@$(BIN)/python sample_traces/demo.py

# The checks of the text run beside the tests, also where one has failed; what each prints is kept together.
check: test-tools
	@$(MAKE) --no-print-directory -k -j 2 --output-sync=target pure types lint layers \
	  || { echo "make check: failed; the lines with *** above name what, each below its own output"; exit 1; }

# So do those of all tests; pytest's progress is seen at once, the rest when it is there. pip and apt install together.
test:
	@$(MAKE) --no-print-directory -j 2 --output-sync=target test-tools browser
	@$(MAKE) --no-print-directory -k -j 2 $(if $(T),,text) tests \
	  || { echo "make test: failed; the lines with *** name what; make lint types layers shows the text's part alone"; exit 1; }

text:
	@said=$$($(MAKE) --no-print-directory -k lint types layers 2>&1); failed=$$?; echo "$$said"; exit $$failed

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

layers:
	$(BIN)/lint-imports --no-cache

PYTEST = $(BIN)/python -m pytest --dist worksteal -n

# All tests: one process more than JOBS, as one of them waits a third of its time for the programs that it starts.
tests:
	$(PYTEST) $(if $(filter 0,$(JOBS))$(T),$(JOBS),$(shell expr $(JOBS) + 1)) $(T)

# A test that starts programs says so (tests/support/purity.py), so that a new test is here without a mark.
pure:
	$(PYTEST) $(JOBS) -q -m "not programs and not browser and not gpu and not slow" $(T)

# Debian's chromium draws the report in the browser tests; they are skipped, with the reason, where it cannot be had.
browser:
	@command -v chromium >/dev/null || { .ci/as-root apt-get update -qq && \
	  .ci/as-root apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "chromium could not be installed: the browser tests will be skipped"

# Everything else on the machine should rest meanwhile. KEEP=1 writes docs/performance.md and its raw results.
bench: test-tools
	$(BIN)/python tests/bench/run.py $(if $(QUICK),--quick) $(if $(KEEP),--keep)
	$(BIN)/python tests/bench/commands.py --turns $(if $(QUICK),1,3)
	$(BIN)/python tests/bench/curves.py $(if $(QUICK),--quick --turns 1)
	$(BIN)/python tests/bench/against_hta.py $(if $(QUICK),--turns 1 --times 1) $(if $(KEEP),,--json /dev/null)

BUDGET ?= 300
SEED ?= 0
fuzz: test-tools
	$(BIN)/python -m tests.fuzz --seconds $(BUDGET) --seed $(SEED)

# Reads DIR only. The last line counts files by verdict; a failed one fails the target.
corpus: test-tools
	@$(BIN)/python -m tests.corpus.static "$(TRACELENS_CORPUS)"

# Writes one JSON per script to build/dynamic; with GPUS=0 numbers only. Copy them to docs/data/dynamic for the table.
GPUS ?= 0
dynamic:
	$(PYTHON) tests/dynamic/run.py "$(TRACELENS_DYNAMIC)" --results build/dynamic --gpus $(GPUS)

screenshots: test-tools browser
	$(BIN)/python docs/images/screenshots.py

# README and docs as the program prints them, then the site below docs/_build; `make test` fails where they differ.
docs: test-tools
	$(BIN)/python docs/generate.py
	$(BIN)/python -m sphinx -W -q docs docs/_build

# Slow rows of the capture matrix: launchers, other people's loops, another Python where there is one with torch; then
# the table of docs/capture.md.
OTHER_PYTHON ?= python3.12
OTHER = $(VENV)/other

$(OTHER)/.installed: constraints.txt
	$(OTHER_PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install -qq --constraint constraints.txt torch numpy
	@touch $@

matrix: test-tools
	$(PIP) install -qq --constraint constraints.txt --editable '.[matrix]'
	-$(MAKE) --no-print-directory $(OTHER)/.installed
	TRACELENS_MATRIX=1 TRACELENS_OTHER_PYTHON=$(abspath $(OTHER)/bin/python) $(BIN)/python -m pytest tests/matrix -n $(JOBS) --junitxml .pytest_cache/matrix.xml
	$(BIN)/python tests/matrix/collect.py docs/data/capture/matrix_cpu.json .pytest_cache/matrix.xml
	$(BIN)/python tests/matrix/collect.py --table

clean:
	rm -rf $(VENV) demo-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
