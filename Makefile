# Two commands do it all: `make demo` and `make test`. Everything else is a part of them or for developers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := UV_PROJECT_ENVIRONMENT=$(VENV) UV_NO_MANAGED_PYTHON=1 $(BIN)/uv
# uv.lock names a package index in every line, so it stays on the machine that made it; the hashed exports are committed.
EXPORT := -q --frozen --no-emit-workspace --no-header
PYTEST := $(BIN)/python -m pytest
# The tests, by folder:
#   unit       pure logic; tests/unit/planner also with a local Spark (mark spark)
#   contract   promises of the cluster adapters: the same tests on the fake (quick) and on real brokers (kafka)
#   kips       each KIP's behaviour on real brokers, ZooKeeper's included (kafka)
#   brokers    what brokers themselves do with throttles and tiered storage (kafka)
#   faults     reassignments with faults at seeded points (kafka); `make faults` runs more seeds
#   airflow    DAGs, form, page (quick), and whole runs on a real Airflow with real brokers (airflow, kafka)
#   browser    the page and the forms in a real browser (skipped where there is no Chromium); `make story` is the long one (slow)
#   faults_airflow  whole reassignments on a real Airflow with acts at cues; `make faults-airflow` runs them
#   record_stores  the record's promises: the same tests on a disk, S3, Google's and Azure's (servers from packages)
#   install    the pages about installing, followed line by line; `make follow-install` runs it (slow), test_pages.py is quick
#   celery     a reassignment on two Celery workers that share no file; `make celery` runs it (slow)
#   lab        the lab itself (kafka)
#   compose    docker-compose.yml as a file, its secrets (quick), the plan of its demo (spark); `make compose-check` brings it up
#   simulation reassignments in a simulated world (simulation): a seed each; `make simulate` runs more
#   fakes      no tests: the fake cluster
#   matrix     no tests: runs the tests of other folders on each version of Kafka and Airflow (`make matrix`)
# Marks: quick (in-process, all of them under a minute), longer (in-process, seconds a module), simulation (in-process, minutes), kafka, spark, airflow (what is started), slow (only by `make test-slow`).
# Processes (lanes), each of which takes the next module and runs all of it: tests/conftest.py says in which order.
LANES := --dist loadfile --no-loadscope-reorder
# Tests on brokers mostly wait, so there are three lanes. Where CI runs may be half as fast: two leave waits their room.
BROKER_LANES := --numprocesses $(if $(CI),2,3) $(LANES)
TWO_LANES := --numprocesses 2 $(LANES)

.DEFAULT_GOAL := help
.PHONY: help setup demo env compose-check test test-slow simulate faults faults-airflow quick lint docs lock bounds resolve clean bench-plan bench-move bench-rate bench-drop bench-auto-rate record-stores bench-page pictures story follow-install celery request-page matrix

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.warm  ## make the virtual environment from the locked dependencies

$(VENV)/.installed: requirements/dev.lock pyproject.toml lab/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] < (3, 14) else f"Python 3.11 to 3.13 is needed, found {sys.version.split()[0]}: set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q 'uv>=0.9'
	$(BIN)/uv pip sync -q --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e . -e lab
	$(BIN)/python -m compileall -q include plugins lab
	@touch $@

$(VENV)/.warm: $(VENV)/.installed
	$(BIN)/kafka-reassignment warm-up
	@touch $@

demo: setup  ## a throttled decommission on six real brokers, run by Airflow (ARGS="--help" for options)
	@$(BIN)/python -m kafka_lab.demo $(ARGS)

env:  ## write .env for docker compose, with random secrets (docs/compose.md)
	@PYTHONPATH=lab $(PYTHON) -m kafka_lab.compose.env

compose-check:  ## bring docker-compose.yml up, empty a broker by it, take it down (ARGS="--profile secured --keep"; needs Docker and Python)
	@PYTHONPATH=lab $(PYTHON) -m kafka_lab.compose.check $(ARGS)

lint: setup  ## format check, lint, strict types, import contracts; what is installed fits pyproject.toml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/zensical build --strict
	$(BIN)/uv pip check -q --python $(BIN)/python

docs: setup  ## build the documentation's site into site/, links checked
	$(BIN)/zensical build --strict

quick: setup  ## the part of the tests that takes under a minute
	$(PYTEST) -m quick -q $(TWO_LANES)

test: setup lint  ## everything CI runs: lint, then all tests but the slow ones
	$(PYTEST) -m quick $(TWO_LANES)
	$(PYTEST) -m "not slow and not quick" $(BROKER_LANES)

test-slow: setup  ## the long tests, hours included
	$(PYTEST) -m slow

bench-plan: setup  ## plan clusters of up to two million partitions, judge the plans, print them beside the peers' (ARGS="--help")
	@$(BIN)/python benchmarks/bench_plan.py $(ARGS)

bench-move: setup  ## move the same replicas by the DAGs and by Kafka's own tool, measured side by side (ARGS="--help")
	@$(BIN)/python -m benchmarks.bench_move $(ARGS)

bench-rate: setup  ## what brokers copy ÷ the rate that was asked for, for four sizes of producer batches (ARGS="--help")
	@$(BIN)/python -m benchmarks.bench_rate $(ARGS)

bench-drop: setup  ## how long producers with acks=all wait while replicas are dropped, by kind and number of drops (ARGS="--help")
	@$(BIN)/python -m benchmarks.bench_drop $(ARGS)

bench-auto-rate: setup  ## a producer beside a copy that is too fast for the machine, without and with auto rate (ARGS="--help")
	@$(BIN)/python -m benchmarks.bench_auto_rate $(ARGS)

record-stores: setup  ## build the server for the tests of records on Google Cloud Storage (needs Go, minutes and 1 GB)
	GOBIN=$(CURDIR)/.cache/record-stores/bin go install github.com/fsouza/fake-gcs-server@v1.56.1

bench-page: setup  ## what each view of the page costs with 1,000 reassignments, 1,000 batches and 100,000 moves
	@$(BIN)/python -m benchmarks.bench_page

pictures: setup  ## the pictures of the page in docs/images, from a browser in a real Airflow
	@$(BIN)/python -m tests.browser.pictures

story: setup  ## a broker emptied by hand in a browser, on a real Airflow with real brokers (STORY_PICTURES=folder keeps the pictures)
	$(PYTEST) -m slow tests/browser

follow-install: setup  ## follow docs/install.md line by line on a cluster secured by SCRAM over TLS
	$(PYTEST) -m slow tests/install --capture=no

celery: setup  ## a reassignment on two Celery workers, each killed in the middle of steps (needs redis-server and unshare)
	$(PYTEST) -m slow tests/celery

faults: setup  ## reassignments with faults at seeded points (SEEDS=1-200; ARGS=-v prints every step)
	@$(BIN)/python -m tests.faults --seeds $(or $(SEEDS),1-20) $(ARGS)

faults-airflow: setup  ## reassignments on a real Airflow while things go wrong (SEEDS=1-50; ARGS=-v prints everything)
	@$(BIN)/python -m tests.faults_airflow --seeds $(or $(SEEDS),1-5) $(ARGS)

simulate: setup  ## reassignments in a simulated world, a seed each (SEEDS=1-1000; ARGS="--replay 17" tells one of them)
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),1-1000) $(ARGS)

lock: setup  ## resolve the locked dependencies again, newest releases first
	$(UV) lock --upgrade
	$(UV) export $(EXPORT) --extra lab --extra s3 --group dev -o requirements/dev.lock
	$(UV) export $(EXPORT) --extra s3 --no-dev -o requirements/runtime.lock

bounds: bounds-lowest-direct bounds-highest  ## in-process and planner tests on the lowest and on the newest releases that pyproject.toml allows

bounds-%: setup
	$(BIN)/uv venv -q --clear --python $(BIN)/python .bounds/$*
	$(BIN)/uv pip install -q --python .bounds/$*/bin/python --resolution $* --group dev -e '.[s3]' -e lab
	.bounds/$*/bin/python -m pytest -m "quick or longer or (spark and not (kafka or airflow or slow))" $(TWO_LANES)

resolve: setup  ## whether this package fits beside Airflow 3.2 and 3.3 with all their providers (ARGS="--help")
	@$(BIN)/python requirements/resolve.py $(ARGS)

request-page: setup  ## write docs/request.md, all fields of all forms, from their models
	@$(BIN)/python -m tests.request_page

matrix: setup  ## the tests on each supported Kafka and Airflow, results in docs/versions.md (ARGS="--kafka 4.0", "--airflow 3.2", "--help")
	@$(BIN)/python -m tests.matrix $(ARGS)

clean:  ## remove the virtual environment and caches inside the checkout
	rm -rf $(VENV) site .bounds .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
