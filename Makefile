# Every target sets up what it needs: the first run makes .venv, later ones take no time over it.
# Another interpreter: make test PYTHON=python3.13     Another number of test processes: make test JOBS=8
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV   ?= .venv
JOBS   ?= 2
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
# A name can be on the path and still not run (pyenv leaves such shims), so each candidate is tried.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3; do \
            "$$p" -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: help setup demo test deep lint bench-interpreters bench-compile ptx-coverage clean distclean

help:
	@echo "make demo       the main job: real kernels, run everywhere and checked against float64 NumPy, in one table"
	@echo "make test       ruff, pyright and the test suite, with a table of tests and seconds by room"
	@echo "make deep       the exhaustive sweeps"
	@echo "make lint       ruff and pyright alone"
	@echo "make bench-interpreters   our reference beside Triton's interpreter, in an environment of its own"
	@echo "make bench-compile        cold compilation beside Triton's, stage by stage, in the same environment"
	@echo "make ptx-coverage         the instructions of PTX that kernels use here and under Triton, and what the emulator lacks"
	@echo "make clean      remove caches and build products; make distclean: the environment too"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@python='$(PYTHON)'; \
	if ! "$${python:-false}" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then \
	    echo "error: no Python 3.11 or later runs here (tried: $${python:-python3.12 python3.13 python3.11 python3})."; \
	    echo "hint: apt-get install python3 python3-venv, or name one: make PYTHON=/path/to/python"; exit 1; fi; \
	if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	    if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	        echo "error: $$python cannot make virtual environments (no venv or ensurepip)."; \
	        echo "hint: apt-get install python3-venv"; exit 1; fi; \
	    echo "making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV); fi
	$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(PY) examples/demo.py

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m pyright --pythonpath $(PY)

test: lint
	$(PY) -m pytest -n $(JOBS) -q -m "not slow and not gpu"

deep: $(READY)
	$(PY) -m pytest -n $(JOBS) --dist worksteal -q -m slow --hypothesis-profile=deep

# Triton's interpreter fails on NumPy 2.4 and later and takes torch tensors only, so the comparison has its own pins.
TRITON := .venv-triton
$(TRITON)/.ready: pyproject.toml Makefile
	"$(firstword $(PYTHON))" -m venv --clear $(TRITON)
	$(TRITON)/bin/python -m pip install --quiet --disable-pip-version-check triton==3.6.0 torch==2.13.0 'numpy<2.4' \
	    ml_dtypes mpmath threadpoolctl pytest hypothesis 'llvmlite==0.50.*' 'nvidia-nvjitlink==13.0.*'
	@touch $@

bench-interpreters: $(TRITON)/.ready
	TRITON_INTERPRET=1 PYTHONPATH=. $(TRITON)/bin/python -m tilewright.bench.interpreters --store reports/data/interpreters.jsonl

ptx-coverage: $(TRITON)/.ready
	PYTHONPATH=. $(TRITON)/bin/python -m tools.ptx_coverage

bench-compile: $(TRITON)/.ready
	PYTHONPATH=. $(TRITON)/bin/python -m tilewright.bench.compile_time --store reports/data/compile_time.jsonl

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(TRITON)
