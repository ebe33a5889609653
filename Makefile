# The same entry points for people and for CI. `make help` lists them.
#
# Set-up is remembered by stamp files inside .venv, so a second run does none of it;
# a changed lock file makes its stamp old and installs again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Tests after lint, never beside it: both are heavy and the last output must be pytest's summary.
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; override with `make PYTHON=/path/to/python`.
ifndef PYTHON
PYTHON := $(shell for candidate in python3.11 python3 python3.12 python3.13; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$candidate; break; fi; done)
PYTHON := $(or $(PYTHON),python3)
endif
VENV := .venv
BIN := $(VENV)/bin
SOURCES := services shared muster loadtest tests deploy
VENV_STAMP := $(VENV)/made.stamp
RUN_STAMP := $(VENV)/run.stamp
DEV_STAMP := $(VENV)/dev.stamp
LINT_STAMP := $(VENV)/lint.stamp
LOCK_STAMP := .venv-lock/lock.stamp
# Byte code is compiled on first import: nobody needs all of a big client library up front.
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes
COMPILE = .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --no-emit-find-links

ARGS ?=
WORLD ?= examples/manifests
# One file or folder of tests: make test T=tests/unit
T ?= tests
PYTEST_WORKERS ?= 2

.PHONY: help run test check parity seeds lint tidy format bench bench-workloads bench-scale bench-plugins bench-cluster soak schemas manifests image docs venv servers e2e cluster lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

run: $(RUN_STAMP) ## Set everything up and schedule the bundled example (WORLD=..., ARGS=...)
	@$(BIN)/muster run $(WORLD) $(ARGS)

test: $(DEV_STAMP) ## Run the tests, two workers (T=path, ARGS=..., PYTEST_WORKERS=...)
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadgroup $(T) $(ARGS)

check: lint test ## Format, lint, types, import contracts, then all tests (tidy tests among them)

# All of them reach nine tenths of the statements of 1.35 that decide, and a little less of the
# others; what ARGS picks may reach less.
parity: $(DEV_STAMP) ## Compare 10,000 cases with each release of kube-scheduler (ARGS="--version V --cases N --seed S --kind K")
	@bash deploy/servers/install.sh parity-cover-{1.35,1.36,1.37}
	@reached="$$(mktemp -d)"; trap 'rm -rf "$$reached"' EXIT; \
		GOCOVERDIR="$$reached" $(BIN)/python -m tests.parity $(ARGS); \
		for each in "$$reached"/*; do \
			case "$$each" in *1.35) least=90 ;; *) least=85 ;; esac; \
			$(BIN)/python -m tests.parity.comparison.go_coverage "$$each" $(if $(ARGS),,--at-least $$least); \
		done
	@$(if $(ARGS),,bash deploy/servers/install.sh claims-{1.35,1.36,1.37} && $(BIN)/python -m tests.parity.claims)

seeds: $(DEV_STAMP) ## Simulate 510 seeds of faults (the tests sample 180), 510 with batching on and off, and plant all bugs
	@MUSTER_SEEDS=510 $(MAKE) test T="tests/simulation tests/parity tests/properties"

lint: $(LINT_STAMP) ## Everything of `check` except the tests; what has not changed since is not linted again

# Folders are among them because their times tell of deleted files.
LINTED = $(shell find $(SOURCES) -name __pycache__ -prune -o \( -name '*.py' -o -type d \) -print)

$(LINT_STAMP): $(DEV_STAMP) pyproject.toml $(LINTED)
	@touch $@.begun
	@$(BIN)/ruff format --check --quiet $(SOURCES) || \
		{ $(BIN)/ruff format --check $(SOURCES) || true; echo "run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@mv $@.begun $@

tidy: $(DEV_STAMP) ## Only the style tests
	@$(BIN)/python -m pytest -q tests/tidy

format: $(DEV_STAMP) ## Format the sources and apply the safe fixes
	@$(BIN)/ruff check --quiet --fix $(SOURCES) || true
	@$(BIN)/ruff format $(SOURCES)

bench: $(RUN_STAMP) ## Measure the speed table (ARGS=...)
	@$(BIN)/python -m loadtest $(ARGS)

bench-workloads: $(RUN_STAMP) ## Play scheduler_perf's workloads in one process (ARGS=--help)
	@$(BIN)/python -m loadtest.workloads $(ARGS)

bench-scale: $(RUN_STAMP) ## Measure floods on up to 100,000 nodes (ARGS=--help)
	@$(BIN)/python -m loadtest.scale $(ARGS)

bench-plugins: $(RUN_STAMP) ## Measure plugins node by node beside the same with columns
	@$(BIN)/python -m loadtest.plugins

bench-cluster: $(DEV_STAMP) ## Measure beside kube-scheduler on a real API server (ARGS=--help)
	@$(BIN)/python -m loadtest.cluster $(ARGS)

soak: $(DEV_STAMP) ## Run Muster on a real API server for minutes, under kills or beside others (ARGS=--help)
	@$(BIN)/python -m tests.soak $(ARGS)

schemas: $(DEV_STAMP) ## Write schemas/ and the generated pages of docs/reference/ from the code
	@set -e; for what in muster.generate.schemas muster.generate.diagrams muster.generate.reference \
		tests.contract.add_golden tests.contract.add_snapshots; do $(BIN)/python -m $$what; done

manifests: ## Render the kustomize bases of deploy/kustomize from the Helm chart
	@bash deploy/kustomize/render.sh

image: $(RUN_STAMP) ## Build the OCI image into build/image, without a daemon
	@$(BIN)/python -m deploy.image.build build

docs: $(DEV_STAMP) ## Build the documentation as a site into site/; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

venv: $(DEV_STAMP) ## Make the virtual environment with the development requirements

servers: ## Install the real servers that integration tests use
	@bash deploy/servers/install.sh

e2e: $(DEV_STAMP) ## Run Kubernetes' own tests of scheduling with Muster as default-scheduler (ARGS=--help)
	@bash deploy/servers/install.sh e2e-1.37
	@$(BIN)/python -m tests.support.upstream_e2e $(ARGS)

cluster: $(DEV_STAMP) ## Run a real Kubernetes cluster without containers until Ctrl-C (ARGS=--help)
	@$(BIN)/python -m tests.support.try_cluster $(ARGS)

lock: $(LOCK_STAMP) ## Make the lock files again from requirements/*.in
	@cd requirements && ../$(COMPILE) $(ARGS) run.in -o run.txt
	@cd requirements && ../$(COMPILE) $(ARGS) -c run.txt plots.in -o plots.txt
	@cd requirements && ../$(COMPILE) $(ARGS) -c run.txt dev.in -o dev.txt
	@cd requirements && ../$(COMPILE) $(ARGS) lock.in -o lock.txt

clean: ## Remove the virtual environments, caches and run directories (not the servers)
	@rm -rf $(VENV) .venv-lock .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache runs site
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv"; \
		exit 1; }
	@touch $@

# The project itself is linked, not built: a path file and a launcher need neither network nor
# build tools, and what runs is always what is in the working tree. Both name their places relative
# to themselves (the launcher's second line is one for the shell), so a checkout can be moved.
define LINK
import os, pathlib, sysconfig
site = pathlib.Path(sysconfig.get_path("purelib"))
(site / "muster-working-tree.pth").write_text(os.path.relpath(pathlib.Path.cwd(), site) + "\n")
launcher = pathlib.Path(sysconfig.get_path("scripts")) / "muster"
launcher.write_text(
    "#!/bin/sh\n"
    '"exec" "$$(dirname $$(readlink -f $$0))/python" "$$0" "$$@"\n'
    "import sys\n\nfrom muster.__main__ import main\n\nsys.exit(main())\n"
)
launcher.chmod(0o755)
endef
export LINK

$(RUN_STAMP): requirements/run.txt Makefile | $(VENV_STAMP)
	@echo "installing requirements/run.txt"
	@$(BIN)/python $(PIP_INSTALL) -r requirements/run.txt
	@$(BIN)/python -c "$$LINK"
	@touch $@

# The development requirements contain those to run, so they satisfy that stamp as well.
$(DEV_STAMP): requirements/dev.txt Makefile | $(VENV_STAMP)
	@echo "installing requirements/dev.txt"
	@$(BIN)/python $(PIP_INSTALL) -r requirements/dev.txt
	@$(BIN)/python -c "$$LINK"
	@touch $(RUN_STAMP) $@

$(LOCK_STAMP): requirements/lock.in
	@$(PYTHON) -m venv .venv-lock
	@if test -s requirements/lock.txt; \
		then .venv-lock/bin/python $(PIP_INSTALL) -r requirements/lock.txt; \
		else .venv-lock/bin/python -m pip install --quiet -r requirements/lock.in; fi
	@touch $@
