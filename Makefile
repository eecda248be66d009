# The only vocabulary of this repository. `make help` explains every target.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BUILD := build
VENV := .venv
BIN := $(VENV)/bin
UV := $(BUILD)/uv/bin/uv
STAMPS := $(BUILD)/stamps
PYTEST := $(BIN)/pytest
PYTEST_ARGS ?=

include jobruntime/jvm/jvm.mk
include tests/support/servers/servers.mk
include bench/engines.mk
include bench/flink.mk
include charts/chart.mk
include e2e/cluster.mk
include e2e/gitops/gitops.mk
include e2e/faults/faults.mk
include bench/dashboard.mk
include docs/docs.mk
include release/release.mk
include tests/spark/internals/compat.mk

.PHONY: help demo demo-kubernetes demo-kubernetes-needs unit test coverage mutants census lint types format crds lock bench e2e e2e-full page fuzz failed-batches clean venv

help: ## Show this list
	@echo "Usage: make TARGET. Everything a target needs is installed by it, into build/ and .venv/."
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}'

$(UV): requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1); install it, or name another with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; } || { echo "Python's venv module is missing; install the package python3-venv."; exit 1; }
	$(PYTHON) -m venv --clear $(BUILD)/uv
	$(BUILD)/uv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

# Drivers and workers are processes: each would compile every module it imports.
COMPILE := $(BIN)/python -m compileall -q jobruntime/src operator/src

venv: $(STAMPS)/venv ## Create .venv with the locked requirements and both packages, editable
$(STAMPS)/venv: $(UV) requirements/dev.txt jobruntime/pyproject.toml operator/pyproject.toml
	@mkdir -p $(STAMPS)
	[ -x $(BIN)/python ] || $(UV) venv -q --python $(PYTHON) $(VENV)
	$(UV) pip sync -q --python $(BIN)/python --compile-bytecode --require-hashes requirements/dev.txt
	$(UV) pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e jobruntime -e operator
	@touch $@

lock: $(UV) ## Resolve the requirements anew into hashed lock files without an index address
	$(UV) pip compile $(LOCK) pyproject.toml operator/pyproject.toml jobruntime/pyproject.toml --extra spark --extra kafka --extra postgres --extra iceberg --group dev -o requirements/dev.txt
	$(UV) pip compile $(LOCK) -c requirements/dev.txt jobruntime/pyproject.toml --extra spark --extra kafka --extra postgres --extra iceberg -o requirements/job.txt
	$(UV) pip compile $(LOCK) -c requirements/dev.txt operator/pyproject.toml jobruntime/pyproject.toml -o requirements/operator.txt
	$(UV) pip compile $(LOCK) requirements/tools.in -o requirements/tools.txt
	$(UV) pip compile $(LOCK) -c requirements/dev.txt requirements/build.in -o requirements/build.txt
	$(UV) pip compile $(LOCK) requirements/docs.in -o requirements/docs.txt
	$(UV) pip compile $(LOCK) -c requirements/dev.txt requirements/fuzz.in -o requirements/fuzz.txt
	for spark in 4.1 4.3; do $(UV) pip compile $(LOCK) requirements/spark-$$spark.in -o requirements/spark-$$spark.txt; done
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate \
	--no-emit-package statefulspark --no-emit-package statefulspark-operator

lint: $(STAMPS)/venv ## Check style, imports between packages, that generated files are current, and that nothing breaks a release
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m statefulspark_operator.cli crds --check crds charts/statefulspark-operator/crds
	$(BIN)/python -m release.schemas --check
	$(BIN)/python -m statefulspark_operator.cli crds --compatible-with release/surfaces
	$(BIN)/python -m release.surface --check

format: $(STAMPS)/venv ## Format the code and fix what can be fixed by itself
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format -q .

types: $(STAMPS)/venv ## Check types: strictly in the sources; in tests, that names exist and calls fit
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

crds: $(STAMPS)/venv ## Write the CRDs from the models into crds/ and the chart, and their JSON Schemas for editors
	$(BIN)/python -m statefulspark_operator.cli crds --write crds charts/statefulspark-operator/crds
	$(BIN)/python -m release.schemas --write

# Bytecode of tests is kept, also where the environment says otherwise: each process of a test would compile what it imports.
unit test coverage: export PYTHONDONTWRITEBYTECODE :=
# Processes that a test starts, such as Spark's, import what it imports.
unit test coverage: export PYTHONPATH := $(abspath tests/support)

# A file of tests stays in one process, and no more than two sessions of Spark run at a time.
SIDE_BY_SIDE = -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

unit: $(STAMPS)/venv ## Run the tests of the rules in two minutes: no server, no Java, no root
	$(PYTEST) $(SIDE_BY_SIDE) -m "not spark and not s3 and not api and not slow" tests/unit tests/golden tests/architecture

TEST_NEEDS := $(STAMPS)/venv jars $(JVM_ARCHIVE) servers $(BUILD)/bin/cluster $(BUILD)/bin/versitygw $(BUILD)/bin/helm $(BUILD)/bin/promtool $(BUILD)/bin/kstatus
.PHONY: test-needs
test-needs: $(TEST_NEEDS)
test coverage: export STATEFULSPARK_JVM_ARCHIVE := $(abspath $(JVM_ARCHIVE))

test: $(TEST_NEEDS) ## Run every test that needs no root: pure rules, real S3, Spark, Kafka, PostgreSQL, API server
	@$(COMPILE)
	$(PYTEST) $(or $(PYTEST_ARGS),$(SIDE_BY_SIDE) --junitxml=$(BUILD)/tests/tests.xml)

coverage: $(TEST_NEEDS) ## The same tests, and which lines and branches of the packages they ran
	@$(COMPILE)
	$(PYTEST) $(SIDE_BY_SIDE) --cov --cov-report=term:skip-covered

mutants: $(STAMPS)/venv ## Change the pure rules one by one: a test has to notice, or the survivor is listed (GROUPS=fast, one or more names)
	PYTHONPATH=tests/support $(BIN)/python -m mutation --workers $(WORKERS) $(GROUPS)
GROUPS ?=
WORKERS ?= 2

census: $(STAMPS)/venv ## Count modules, lines, functions and single-use helpers, and the modules that a row, a checkpoint and a change go through
	PYTHONPATH=tests/support $(BIN)/python -m census
	PYTHONPATH=tests/support $(BIN)/python -m walkthroughs

fuzz: $(STAMPS)/venv $(UV) ## Look for input that crashes a reader, and for undescribed answers of the API (SECONDS_EACH=30, NAMES="chunk")
	$(UV) pip install -q --python $(BIN)/python --no-deps --require-hashes -r requirements/fuzz.txt
	PYTHONPATH=tests/support $(BIN)/python -m fuzzing --seconds $(SECONDS_EACH) $(NAMES)
SECONDS_EACH ?= 30
NAMES ?=

failed-batches: $(STAMPS)/venv jars ## Fail batches after their commit, and compare all state with a model, for hours (FAILED=100000 SEED=44)
	PYTHONPATH=tests/support $(BIN)/python -m failedbatches --seed $(or $(SEED),44) --failed $(FAILED)
FAILED ?= 100000

demo: $(STAMPS)/venv jars ## Real flights on this machine: kill the driver, change the job, go back, compare with the truth (no root, no Kubernetes)
	PYTHONPATH=e2e $(BIN)/python -m demo_local $(DEMO_ARGS)
DEMO_ARGS ?=

demo-kubernetes: ## The same through a real cluster of its own, with pods and an operator (root; DEMO_EXECUTORS=2: with executor pods)
	@echo "This builds, side by side, a Kubernetes from its sources, two images, jars and Python packages. On two cores that takes"
	@echo "about 16 minutes the first time; what is already in build/ is not built again. Then the demo itself takes some minutes."
	@$(MAKE) --no-print-directory --jobs=4 demo-kubernetes-needs
	PYTHONPATH=e2e $(BIN)/python -m demo
demo-kubernetes-needs: $(STAMPS)/venv jars images $(CLUSTER_NEEDS)

e2e: $(STAMPS)/venv jars images $(CLUSTER_NEEDS) ## One scenario for each kind of trouble, on a real cluster (needs root, or KUBECONFIG)
	$(PYTEST) e2e/scenarios --representative $(PYTEST_ARGS)

e2e-full: $(STAMPS)/venv jars images $(CLUSTER_NEEDS) $(GITOPS_AGENT) chromium ## Every scenario, from where an earlier run with this code ended; report in build/e2e
	$(PYTEST) e2e --report $(BUILD)/e2e/report.jsonl $(PYTEST_ARGS)

page: $(STAMPS)/venv chromium ## The page of a driver in headless Chromium, every state; pictures in build/page (needs root, or Chromium)
	$(PYTEST) e2e/page $(PYTEST_ARGS)

bench: $(STAMPS)/venv jars $(BUILD)/bin/versitygw ## Measure, side by side, as ratios
	@$(COMPILE)
	$(BIN)/python -m bench

clean: ## Remove everything that was built; the cluster is taken down first
	@if [ -x $(BUILD)/bin/cluster ]; then for dir in $(CLUSTER_DIR) $(BUILD)/demo/cluster $(BUILD)/e2e/cluster; do $(BUILD)/bin/cluster down --dir $$dir || true; done; fi
	rm -rf $(BUILD) $(VENV) jobruntime/src/statefulspark/jars .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
