# Needs only Python 3.11+ and make. Everything is installed into .venv beside this file.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
INSTALL := -m pip install --quiet --disable-pip-version-check --no-input
PIP    := $(BIN)/python $(INSTALL)
LATEST := .venv-latest

# Tests of one file stay in one process: they share what is slow to start.
BESIDE := --numprocesses auto --maxprocesses 4 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help demo test test-latest test-kube lint clients vectors storm bench zipapp lock clean

help:  ## what can be made here
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 13

demo: $(READY)  ## install, then run the articles' manifests in a lab of mixed A100, T4 and MI300X nodes
	@PATH="$$PATH:$(CURDIR)/$(VENV)/clients" $(BIN)/allot demo

test: lint clients  ## install, lint, check types and floors, run every test
	$(BIN)/python -m pytest -q $(BESIDE)

# What a release of a dependency can change for users. A warning of one says what will change, and fails nothing.
TESTS = tests/packaging tests/unit/test_extras.py tests/unit/cli tests/unit/packing tests/unit/plugin tests/unit/externalgrpc
test-latest:  ## packaging and command line with the newest release of every dependency, not the locked one; TESTS="…": others
	@$(PYTHON) -m venv $(LATEST)
	@echo "installing the newest releases into $(LATEST)" >&2
	@$(LATEST)/bin/python $(INSTALL) --upgrade --upgrade-strategy eager --editable '.[all,test]'
	$(LATEST)/bin/python -m pytest -q $(BESIDE) -W default::DeprecationWarning -W default::PendingDeprecationWarning $(TESTS)

test-kube: clients  ## on Kubernetes' own programs: builds them the first time (Go, some ten minutes) or takes $$ALLOTMENT_KUBE_BIN
	@$(BIN)/python -m tests.kube.binaries
	$(BIN)/python -m pytest -q $(BESIDE) tests/kube

lint: $(READY)  ## ruff, mypy (strict), import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet || { $(BIN)/ruff format --check; exit 1; }
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

clients: $(READY)
	@$(BIN)/python -m tests.clients.tools || echo "kubectl and helm cannot be had: tests with them will be skipped" >&2
	@$(BIN)/python -m tests.monitoring.programs || echo "tests with promtool will be skipped" >&2

vectors: $(READY)  ## SET=allocator|apiserver|cel|validation FILES="a.jsonl.gz …": score recordings of the real Kubernetes
	@$(BIN)/python -m tests.vectors $(SET) $(FILES)

storm: $(READY)  ## CYCLES=500: kill -9 under load; nothing acknowledged is lost, no device given twice, no claim stuck
	@$(BIN)/python -m tests.storm --cycles $(or $(CYCLES),500)
	@$(BIN)/python -m tests.storm.drivers --cycles $(or $(CYCLES),200)

bench: $(READY)  ## beside upstream: the allocator (needs Go), CEL, memory, the lab ($$ALLOTMENT_KUBE_BIN); bench/out/
	@$(BIN)/python -m bench

zipapp: $(READY)  ## dist/allot.pyz: Allotment as one file, for Python 3.11 to 3.14 on this platform
	@PYTHON=$(BIN)/python scripts/zipapp

lock:  ## write requirements/dev.lock anew: the newest releases that pyproject.toml allows, with hashes
	@PYTHON=$(PYTHON) scripts/lock

clean:  ## remove everything that was made
	rm -rf $(VENV) $(LATEST) build dist bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed anew whenever the project's requirements change. Exact releases, so that none of others' breaks a green tree.
$(READY): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "allotment needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo not there). Try: make PYTHON=python3.12" >&2; exit 2; }
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing into $(VENV)" >&2
	@$(PIP) --require-hashes --requirement requirements/dev.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
