# Practicum's commands. `make` alone lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Both environments live in one folder, so two of them are never filled at once.
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
# Pinned, and installed by a command of its own: a machine that keeps a CPU build at hand then
# gets that one, and no later dependency can choose another.
TORCH := torch==2.13.0
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-input
# The versions that the tests were last seen to pass with, so that a release of tomorrow cannot break
# a clone of today. `make pins` writes them anew from an environment whose tests pass.
CONSTRAINTS := constraints.txt

# Where agent frameworks are installed for tests/clients, an environment for each.
CLIENTS := .clients

MODEL := smollm2-135m
DEMO_NAME := $(or $(DEMO_NAME),demo-$(shell date +%Y%m%d-%H%M%S))

# A stamp is written when everything is in place; a change of pyproject.toml makes it old.
FOR_DEMO := $(VENV)/.ready-for-demo
FOR_TEST := $(VENV)/.ready-for-test
INPUTS := Makefile pyproject.toml $(CONSTRAINTS) scripts/make_venv.sh

.PHONY: help setup demo test rare check clients pins format clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(FOR_DEMO) ## make .venv with what training needs, and look at the machine
	$(BIN)/practicum doctor
	@echo "Ready; type: . $(BIN)/activate"

demo: $(FOR_DEMO) ## train SmolLM2-135M on algebra, show each stage, play two problems
	$(BIN)/practicum models pull $(MODEL)
	$(BIN)/practicum train configs/demo.yaml --name $(DEMO_NAME)
	$(BIN)/practicum play math --policy runs/$(DEMO_NAME) --task "3x + 7 = 16"
	$(BIN)/practicum play math --policy runs/$(DEMO_NAME) --task "math-2-words-4x-1=47"
	@echo "Look at it in a browser: $(BIN)/pip install -e '.[monitor]' && $(BIN)/practicum monitor"

test: $(FOR_TEST) ## lint, types and the tests: ten minutes
	@sh scripts/sandbox_tools.sh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not rare"

rare: $(FOR_TEST) ## tests that are slow and seldom fail, which `make test` leaves out
	$(BIN)/python -m pytest -n auto --dist loadgroup -m rare

check: $(FOR_TEST) ## lint, types and architecture tests: half a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m "not slow" tests/architecture

clients: $(FOR_TEST) ## environments with the agent frameworks that tests/clients runs
	@sh scripts/make_clients.sh $(BIN)/python $(CLIENTS)

pins: ## write down the versions that are installed
	$(BIN)/python -m pip freeze --exclude-editable --exclude torch > $(CONSTRAINTS)

format: $(FOR_TEST) ## put every file into the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment and the caches; runs/ stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(FOR_DEMO): EXTRAS := train
$(FOR_TEST): EXTRAS := train,serve,gateway,export,clients,parquet,writing,monitor,report,dev,docs,peers

# `.installing` outlives an interrupted installation, and makes the next one start afresh.
$(FOR_DEMO) $(FOR_TEST): $(INPUTS)
	@sh scripts/make_venv.sh $(VENV)
	@rm -f $(FOR_DEMO) $(FOR_TEST)
	@touch $(VENV)/.installing
	@echo "Installing $(TORCH) into $(VENV); the first time this is a large download"
	@$(PIP_INSTALL) "$(TORCH)"
	@echo "Installing practicum[$(EXTRAS)] into $(VENV)"
	@$(PIP_INSTALL) --constraint $(CONSTRAINTS) --editable ".[$(EXTRAS)]"
	@rm -f $(VENV)/.installing
	@touch $(FOR_DEMO) $@
