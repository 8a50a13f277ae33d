# Each target sets up what it needs: nothing else by hand. Python 3.11 or later is expected as `python3`.
PYTHON ?= python3
BIN := .venv/bin
# Spinning OpenMP threads on shared cores cost 10-20x on models this small.
export OMP_WAIT_POLICY ?= PASSIVE
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint types check clean

demo: .venv/ready  ## a network used where the population has shifted, metricopt beside threshold tuning
	$(BIN)/metricopt demo --out demo

test: .venv/ready lint types  ## everything CI checks
	$(BIN)/pytest -q -n 2

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/pyright --warnings

clean:
	rm -rf .venv demo runs

# torch is installed first and alone: the constraints pin the build without GPU packages where the index offers one.
.venv/ready: pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]" --editable "./lab[optimizers]"
	touch $@
