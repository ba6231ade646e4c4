# make demo   install into .venv and run the demonstration
# make test   install with the development tools, then lint, type-check and test
# make docs   build the site of the documentation in build/site
# make test PYTHON=python3.13 VENV=build/python3.13   the same with another Python
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# What pytest makes of the tests' modules is kept, also where an environment asks Python to keep nothing.
TESTED := PYTHONDONTWRITEBYTECODE= $(ONE_THREAD)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test oldest lint format docs examples lock wheel clean

demo: $(VENV)/installed
	$(BIN)/privfit demo

# One process a core, each with one thread; a file in one process, as its tests share what is made once.
test: lint
	$(TESTED) $(BIN)/pytest -n auto --dist loadfile

# Tests with the oldest releases of other packages that pyproject.toml allows.
oldest: $(VENV)/installed-dev
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/oldest
	$(BIN)/uv pip install --quiet --python build/oldest --resolution lowest-direct -e ".[dev]"
	$(TESTED) build/oldest/bin/pytest -n auto --dist loadfile

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site of the documentation, in build/site/index.html.
docs: $(VENV)/installed
	$(PIP) -e '.[docs]'
	$(BIN)/python docs/build_site.py

# What the examples of README.md and docs/ print is real output; this writes it anew.
examples: $(VENV)/installed
	$(BIN)/python docs/generate_examples.py

# Pins of all packages that are needed at run time, with their hashes.
lock: $(VENV)/installed-dev
	$(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-annotate --no-header \
	  --python-version 3.11 --quiet --upgrade -o requirements.lock

# Builds the wheel twice and fails if the two differ.
wheel: $(VENV)/installed-dev
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist/again .
	cmp dist/*.whl dist/again/*.whl && rm -r dist/again

clean:
	rm -rf $(VENV) build dist demo-output .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one, as in: make demo PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/installed
