# make run        train LASER on CartPole until it is solved (installs into .venv first)
# make test       every quick check: lint, format, types, import contracts, unit tests
# make test-slow  the tests that take longer or start Ray
# make test-long  the tests that take a minute or more
# make test-gpu   the tests that need a CUDA device
# make mutation-check  seed small mistakes into losses, samplers and ledgers; do the tests notice them? (an hour or so)
# make docs       docs/metrics.md, from the table of metrics, and the documentation's site in site/
# make docs-serve the site at http://127.0.0.1:8000, made anew when a page changes
# make gpu-bundle the wheels for a machine without internet that has torch, in gpu-bundle/ (docs/gpu.md)
#
# Nothing here depends on an activated environment. PYTHON=/path/to/python3.12 chooses the interpreter of a new .venv.

SHELL := /bin/bash
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What a user's shell may carry must not decide which packages we see or where pip writes.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
# The checkout's path is part of the stamps' name: scripts in a moved or copied .venv point to the old place.
PLACE := $(shell pwd | cksum | cut -d' ' -f1)
CREATED := $(VENV)/.created-$(PLACE)
RUN_READY := $(VENV)/.run-ready-$(PLACE)
TEST_READY := $(VENV)/.test-ready-$(PLACE)

# What `make gpu-bundle` collects: for which Python, optional packages to bring along, packages that are there already.
BUNDLE := gpu-bundle
BUNDLE_PYTHON := 3.12
BUNDLE_WITH := ale-py mujoco
BUNDLE_WITHOUT :=
BUNDLE_LIMIT_MB := 52

# A test that a busy machine made fail is run once more; three such tests are the machine's, a fourth is ours. The first
# failure is printed all the same.
AGAIN := --reruns 1 --max-suite-reruns 3 --rerun-show-tracebacks

# CI sets this time, in Unix seconds: a long test that has not begun by then is skipped.
BEGIN_BEFORE :=
BEFORE = $(if $(BEGIN_BEFORE),--begin-before $(BEGIN_BEFORE))

PYTEST = $(BIN)/python -m pytest --all-packages $(AGAIN)
SIDE_BY_SIDE = OMP_NUM_THREADS=1 $(PYTEST) -n logical --maxprocesses 8

# How many mistakes `make mutation-check` seeds, and how many it tests at the same time.
MUTANTS := 200
MUTATION_JOBS := 2

.PHONY: help run install test lint format types imports images unit test-slow test-long test-gpu mutation-check docs docs-serve gpu-bundle clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

run: $(RUN_READY)
	@$(BIN)/laser train cartpole

install: $(TEST_READY)

test: lint format types imports images unit
	@echo "== all checks passed"

lint: $(TEST_READY)
	@echo "== lint: $$($(BIN)/python -m ruff check --show-files | wc -l) files"
	@$(BIN)/python -m ruff check .

format: $(TEST_READY)
	@echo "== format"
	@$(BIN)/python -m ruff format --check .

types: $(TEST_READY)
	@echo "== types"
	@$(BIN)/python -m mypy
	@$(BIN)/python -m mypy --config-file benchmarks/mypy.ini

imports: $(TEST_READY)
	@echo "== import contracts"
	@$(BIN)/python -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

# Images are looked at, not built: that needs a Docker daemon. hadolint has no wheel for every machine.
images: $(TEST_READY)
	@echo "== images"
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint docker/Dockerfile && echo "docker/Dockerfile: clean"; \
		else echo "docker/Dockerfile: not looked at, there is no hadolint for this machine"; fi
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker/compose*.yaml

# pytest exits with 5 when it collects nothing, so an empty selection fails here.
unit: $(TEST_READY)
	@echo "== unit tests"
	@$(SIDE_BY_SIDE) -q -m "not slow and not ray and not gpu"

test-slow: $(TEST_READY)
	@echo "== slow tests"
	@$(SIDE_BY_SIDE) --dist worksteal --durations 20 -m "slow and not long and not alone and not gpu"; status=$$?; \
	$(PYTEST) --durations 20 -m "(slow or ray) and not long and alone and not gpu" && exit $$status

test-long: $(TEST_READY)
	@echo "== long tests"
	@$(SIDE_BY_SIDE) --dist worksteal --durations 20 $(BEFORE) -m "long and not alone and not gpu"; status=$$?; \
	$(PYTEST) --durations 20 $(BEFORE) -m "long and alone and not gpu" && exit $$status

test-gpu: $(TEST_READY)
	@echo "== GPU tests"
	@$(BIN)/python -m pytest --all-packages -m "gpu"

# MUTANTS=0 seeds all there are.
mutation-check: $(TEST_READY)
	@echo "== mutation check"
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutation_check.py --mutants $(MUTANTS) --jobs $(MUTATION_JOBS)

docs: $(TEST_READY)
	@echo "== docs"
	@$(BIN)/python -m launch.recording.metrics_page > docs/metrics.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "site/index.html"

docs-serve: $(TEST_READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

# Only pip is needed, so nothing is installed for it.
gpu-bundle: | $(CREATED)
	@$(BIN)/python -m launch.offline.collect $(BUNDLE) --python $(BUNDLE_PYTHON) --limit-mb $(BUNDLE_LIMIT_MB) \
		--with $(BUNDLE_WITH) --without $(BUNDLE_WITHOUT)

$(RUN_READY): pyproject.toml | $(CREATED)
	@echo "Installing LASER into $(VENV); the first time this takes a few minutes."
	@$(BIN)/python -m pip install --disable-pip-version-check -e .
	@touch $@

$(TEST_READY): pyproject.toml | $(CREATED)
	@echo "Installing LASER and what its checks need into $(VENV); the first time this takes a few minutes."
	@$(BIN)/python -m pip install --disable-pip-version-check -e ".[dev]"
	@touch $@ $(RUN_READY)

$(CREATED):
	@.ci/make-venv $(VENV) $(PYTHON)
	@touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
