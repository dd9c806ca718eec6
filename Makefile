# Everything runs in .venv, which the first target that needs it makes. `make help` lists the targets.

export PYTHONSAFEPATH = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
PIP_DEFAULT_TIMEOUT ?= 60
export PIP_DEFAULT_TIMEOUT

BIN := .venv/bin
PIP := $(BIN)/python -m pip -qq --no-input --retries 10
STAMP := .venv/.complete
FUZZERS := build/fuzzers
CODE := router server services tests
# Tests of real processes, for which time counts, have the machine to themselves; all others share its cores.
ALONE := tests/live tests/chaos tests/deploy

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long chaos soak check format bench swarm fuzz fuzz-http dashboards openapi screenshot wheels lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1#\2/p' Makefile | awk -F'#' '{ printf "%-18s %s\n", $$1, $$2 }'

setup: $(STAMP) ## make .venv and install what the lock names (again only when that has changed)

$(STAMP): requirements-dev.txt pyproject.toml
	@rm -f $(STAMP)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
	        "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; python=; \
	    done; \
	    [ -n "$$python" ] || { \
	        echo "setup: expected Python 3.11 or later, found none on PATH: install it, or say make setup PYTHON=/path/to/python3" >&2; exit 1; }; \
	    echo "setup: making .venv with $$("$$python" --version)"; \
	    "$$python" -m venv --clear .venv || { \
	        echo "setup: $$python cannot make an environment: install its venv module (Debian: the package python3-venv)" >&2; exit 1; }; \
	}
	@echo "setup: installing the locked packages (the first time may take a minute)"
	@$(PIP) install --require-hashes --only-binary :all: -r requirements-dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $(STAMP)
	@echo "setup: done: $(BIN)/herdless is ready"

demo: setup ## run the scenario `pull` live: measured, simulated and predicted, in a table
	@$(BIN)/herdless run pull

test: setup ## run the tests, the long ones left out
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal $(addprefix --ignore=,$(ALONE))
	@$(BIN)/python -m pytest $(ALONE)

test-long: setup ## run the long tests only
	@$(BIN)/python -m pytest -m long --timeout 1800

chaos: setup ## strike real processes in every way, with four policies, and write the table in docs/failures.md
	@$(BIN)/python -m tests.chaos --table

soak: setup ## let members of a cluster come and go for half an hour, and see that nothing grows (SOAK="--minutes 5 --seed 2")
	@$(BIN)/python -m tests.soak $(or $(SOAK),--minutes 30 --seed 1)

check: setup ## lint, format, types, who may import whom, and known vulnerabilities
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check --quiet $(CODE)
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.tidy.audit

format: setup ## let ruff repair and format the code
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

bench: setup ## measure speed, as ratios within one run
	@$(BIN)/python -m tests.bench

swarm: setup ## run 100,000 small random worlds in which things go wrong (SWARM="--seeds 0:5000", "--case JSON")
	@nice -n 10 $(BIN)/python -m tests.swarm $(or $(SWARM),--seeds 0:100000)

fuzz: $(FUZZERS) ## give whatever reads the bytes of others 10^6 inputs and more (FUZZ="--runs 1000 job_body")
	@PYTHONPATH=$(CURDIR) nice -n 10 $(FUZZERS)/bin/python -m tests.fuzz $(FUZZ)

fuzz-http: setup $(FUZZERS) ## try what the descriptions allow, and what not, on a router and a server process
	@nice -n 10 $(BIN)/python -m tests.fuzz.http $(FUZZERS)/bin/schemathesis $(FUZZ)

$(FUZZERS): requirements.txt tests/fuzz/requirements.txt | setup
	@rm -rf $@ && $(BIN)/python -m venv $@
	@$@/bin/python -m pip -qq --no-input install --require-hashes --only-binary :all: -r requirements.txt
	@$@/bin/python -m pip -qq --no-input install --only-binary :all: -r tests/fuzz/requirements.txt || { rm -rf $@; exit 1; }
	@touch $@

dashboards: setup ## write Grafana's dashboards anew from services/grafana/dashboards
	@$(BIN)/python -m services.grafana.dashboards

openapi: setup ## write docs/openapi-*.json anew from the descriptions of both HTTP interfaces
	@$(BIN)/python -m services.openapi

screenshot: setup ## take docs/images/console.png anew, with Chromium
	@$(BIN)/python -m tests.deploy.screenshot

wheels: setup ## download what the image needs to build/wheels, for a build without a network
	@rm -rf build/wheels
	@$(PIP) download --only-binary :all: --require-hashes --requirement requirements.txt --dest build/wheels
	@sed -e '/--hash=/d' -e 's/ *\\$$//' requirements-dev.txt >build/pins.txt
	@$(PIP) download --only-binary :all: --constraint build/pins.txt --dest build/wheels hatchling

lock: setup ## compile the two lock files from pyproject.toml (newest versions: make lock UPGRADE=--upgrade)
	@$(PIP) install 'uv>=0.5'
	@$(COMPILE) --output-file requirements.txt
	@$(COMPILE) --extra dev --constraint requirements.txt --output-file requirements-dev.txt
	@echo 'lock: "make setup" installs the new versions'

# One file for every Python and platform; neither it nor its head names an index, a path or a machine.
COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
    --fork-strategy fewest $(UPGRADE) --generate-hashes --no-header --no-annotate

clean: ## remove .venv, caches and builds (runs/ stays)
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
