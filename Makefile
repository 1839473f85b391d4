# Each target makes what it needs by itself, on a machine that has Python 3.11 or later, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PORT := 8000
# Compiled code is kept, whatever the environment says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install serve demo test bench lint format lock clean

install: $(VENV)/installed  ## Everything to run gpufare, in .venv

serve: install  ## The API on http://127.0.0.1:8000, with polls beside it; PORT=8001 for another port
	$(BIN)/gpufare serve --port $(PORT)

demo: install  ## The same with simulated clouds and a throwaway database
	$(BIN)/gpufare serve --demo --port $(PORT)

test: $(VENV)/installed-dev  ## All tests, on all cores; on PostgreSQL too where one answers on 127.0.0.1:5432
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

bench: .venv-bench/installed  ## What it costs, beside peers measured in the same run: some ten minutes
	.venv-bench/bin/python -m bench

lint: $(VENV)/installed-dev  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .

format: $(VENV)/installed-dev  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## Lock the dependencies anew; needs uv
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --extra all --group build -o requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --extra all --group build --group dev -o requirements-dev.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --extra all --group build --group dev --group bench -o requirements-bench.lock

clean:
	rm -rf $(VENV) .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: requirements.lock pyproject.toml | $(VENV)/python
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/installed-dev: requirements-dev.lock $(VENV)/installed
	$(PIP) install --require-hashes -r requirements-dev.lock
	touch $@

.venv-bench/python:
	$(PYTHON) -m venv .venv-bench
	touch $@

.venv-bench/installed: requirements-bench.lock pyproject.toml | .venv-bench/python
	.venv-bench/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements-bench.lock
	.venv-bench/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	touch $@
