# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all lint types contracts docs format check bench clean

demo: $(VENV)/.installed-triton
	$(BIN)/kinspect analyze kernels/gemm_all_types.py --arch gfx942
	@echo "kinspect is in $(BIN): '. $(BIN)/activate' puts it on PATH"

# One worker more than CI has cores: tests that wait for a process leave theirs idle.
test: $(VENV)/.installed-test
	@echo "The tests take about 13 minutes on two cores, 20 where kernels are compiled anew"
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "not slow"

test-all: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# Beside mypy, which takes longest and one core.
check:
	$(MAKE) --jobs=2 lint types contracts docs

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The tests' folder is on the path for the makers of files that some benchmarks share with them.
types: $(VENV)/.installed-dev
	mkdir -p build/checkout && ln -sfn ../.. build/checkout/kinspect
	MYPYPATH=build/checkout:tests $(BIN)/mypy -m kinspect -p kinspect.inspector -p kinspect.tui -p kinspect.benchmarks -m kinspect.docs.generated_pages

contracts: $(VENV)/.installed-dev
	$(BIN)/lint-imports

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "The site is in build/site: open build/site/index.html"

# BESIDE: options of the second, e.g. `make bench BESIDE="--quick --tinygrad ~/tinygrad"`.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m kinspect.benchmarks.side_by_side $(BESIDE)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The bundled kernels import torch lazily: the demo needs triton alone.
$(VENV)/.installed-triton: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable . triton
	touch $@

$(VENV)/.installed-test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[test]"
	touch $@ $(VENV)/.installed-triton

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[dev]"
	touch $@ $(VENV)/.installed-test $(VENV)/.installed-triton

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
