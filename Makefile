# Requires only Python 3.11 or later and make. Everything is installed into .venv next to this file.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
INSTALL := -m pip install --quiet --disable-pip-version-check --no-input
PIP    := $(BIN)/python $(INSTALL)
LATEST := .venv-latest
DOCS   := build/docs

# The tests of one file run in one process: they share fixtures that are slow to start. Use five processes even on
# two cores, because many tests spend most of their time waiting. The order of files is that of tests/conftest.py.
PARALLEL := --numprocesses 5 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-latest test-kube test-e2e test-operators test-mutations test-release lint bytecode clients vectors storm power-cut test-the-tests bench web headlamp docs release zipapp lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 13

demo: $(READY)  ## install Allotment, then run the example manifests in a lab with A100, T4 and MI300X nodes; WEB=1: then serve its page
	@PATH="$$PATH:$(CURDIR)/$(VENV)/clients" $(BIN)/allot demo $(if $(WEB),--web)

# Allow Python to cache bytecode: otherwise, each of the hundreds of programs that the tests start would compile the
# package again.
test test-kube test-operators: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)  ## install, lint, check types and layers, and run all tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint bytecode clients
	$(BIN)/python -m pytest -q $(PARALLEL)

# Each test process imports all tests: without cached bytecode, each of them would compile everything.
bytecode: $(READY)
	@$(BIN)/python -m pytest -qq --collect-only >/dev/null || true  # the tests report errors

# Tests for what a new release of a dependency can break for users. Deprecation warnings do not make these tests fail.
TESTS = tests/packaging tests/unit/test_extras.py tests/unit/cli tests/unit/packing tests/unit/kubelet_plugin tests/unit/externalgrpc
test-latest:  ## test packaging and commands with the newest release of every dependency; TESTS="…" selects other tests
	@$(PYTHON) -m venv $(LATEST)
	@echo "installing the newest releases into $(LATEST)" >&2
	@$(LATEST)/bin/python $(INSTALL) --upgrade --upgrade-strategy eager --editable '.[all,test]'
	$(LATEST)/bin/python -m pytest -q $(PARALLEL) -W default::DeprecationWarning -W default::PendingDeprecationWarning $(TESTS)

test-kube: clients  ## test with Kubernetes' own programs of two releases, built on first use (which requires Go and takes twenty minutes); $ALLOTMENT_KUBE_RELEASE, $ALLOTMENT_KUBE_BIN: see CONTRIBUTING.md
	@$(BIN)/python -m tests.kube.binaries
	$(BIN)/python -m pytest -q $(PARALLEL) tests/kube

test-mutations: $(READY)  ## plant 400 small faults in the product, and count those that its tests see (hours)
	$(BIN)/python -m tests.mutation

test-e2e: $(READY)  ## run Kubernetes' own end-to-end tests against a lab; the first time, this builds them (Go, twenty minutes)
	$(BIN)/python -m tests.e2e $(E2E)

test-operators: clients  ## run public operators and their own suites on labs, built on first use (which requires Go and takes half an hour)
	$(BIN)/python -m pytest -q tests/operators

test-release: $(READY)  ## build a release twice, compare both, and install it in each way (the first time, this requires the network)
	@$(MAKE) --no-print-directory clients
	ALLOTMENT_TEST_RELEASE=1 $(BIN)/python -m pytest -q $(PARALLEL) tests/packaging/test_release.py tests/packaging/test_installing.py

lint: $(READY)  ## run ruff, mypy (strict), basedpyright for the types of the API, and import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet || { $(BIN)/ruff format --check; exit 1; }
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

clients: $(READY)
	@$(BIN)/python -m tests.clients.tools || echo "kubectl and helm are not available: their tests are skipped" >&2
	@$(BIN)/python -m tests.monitoring.programs || echo "promtool is not available: its tests are skipped" >&2
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory frontend/node_modules/.ready >/dev/null; fi \
	  || echo "npm packages are not available: axe-core and the build of the page are not tested" >&2

vectors: $(READY)  ## replay recordings of Kubernetes; SET=allocator|apiserver|cel|validation FILES="a.jsonl.gz …"
	@$(BIN)/python -m tests.vectors $(SET) $(FILES)

storm: $(READY)  ## kill processes (kill -9) under load, CYCLES=500 times, then pause them; check that no write, event, node or pod is lost, no device is allocated twice and no claim is stuck
	@$(BIN)/python -m tests.storm --cycles $(or $(CYCLES),500)
	@$(BIN)/python -m tests.storm.drivers --cycles $(or $(CYCLES),200)
	@$(BIN)/python -m tests.storm.pauses

test-the-tests: $(READY)  ## plant faults in a lab, a driver and their storage; check that the storms and the power cuts notice each
	@$(BIN)/python -m tests.planted

power-cut: $(READY)  ## cut the power of a simulated disk at POINTS=10000 points of recorded programs; check that nothing acknowledged is lost (requires Linux and a C compiler)
	@$(BIN)/python -m tests.power_cut --points $(or $(POINTS),10000)

bench: $(READY)  ## compare with upstream: allocator (requires Go), CEL, memory, lab ($ALLOTMENT_KUBE_BIN); results are in bench/out/
	@$(BIN)/python -m bench

release: $(READY)  ## build all files of a release in dist/ with SHA-256 sums; URL=… is where they will be published
	@rm -rf dist
	@$(BIN)/python -m release $(if $(URL),--url "$(URL)")

zipapp: $(READY)  ## build dist/allot.pyz, a single file that contains Allotment, for Python 3.11 to 3.14 on this platform
	@$(BIN)/python -m release.zipapp

web: frontend/node_modules/.ready  ## check, test and build the page of allot web in src/allotment/web/static (requires Node 18 or later)
	@cd frontend && npm run --silent check && npm run --silent test && npm run --silent build

frontend/node_modules/.ready: frontend/package-lock.json
	@cd frontend && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

headlamp: headlamp/node_modules/.ready  ## check, test and build the plugin for Headlamp in headlamp/dist (requires Node; the first time, 850 MB of npm packages)
	@cd headlamp && npm run --silent tsc && npm run --silent test && npm run --silent build

headlamp/node_modules/.ready: headlamp/package-lock.json
	@cd headlamp && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

docs: $(DOCS)/.ready  ## build the documentation as a site in build/site
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build
	@echo "built build/site; to read it while editing: $(DOCS)/bin/mkdocs serve"

# MkDocs has an environment of its own: what it needs is neither for users nor for the tests.
$(DOCS)/.ready: requirements/docs.lock
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python $(INSTALL) --require-hashes --requirement requirements/docs.lock
	@touch $@

lock:  ## update requirements/dev.lock and docs.lock to the newest releases that are allowed, with hashes
	@PYTHON=$(PYTHON) scripts/lock

clean:  ## remove everything that was built
	rm -rf $(VENV) $(LATEST) build dist bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Reinstall when the project's requirements change. Dependencies are pinned, so that new releases cannot break the build.
$(READY): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Allotment requires Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo 'not found'). Try: make PYTHON=python3.12" >&2; exit 2; }
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing into $(VENV)" >&2
	@$(PIP) --no-compile --require-hashes --requirement requirements/dev.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
