PYTHON ?= python3
# An interpreter that is named has an environment of its own, such as .venv-3.13: make test PYTHON=python3.13.
VENV := $(if $(filter file,$(origin PYTHON)),.venv,.venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: install demo test test-fast test-all test-oldest attack bench bench-peers bench-estimators bench-exchanges docs docs-numbers docs-serve dist lint format clean

install: $(VENV)/installed

demo: $(VENV)/installed
	$(BIN)/fedualex demo

# Linters and fast tests side by side: mypy takes half a minute of one core.
test: $(VENV)/installed
	$(MAKE) --no-print-directory -j 2 lint test-fast

test-fast: $(VENV)/installed
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

# Everything, compiled as users compile it, with types checked at run time.
test-all: $(VENV)/installed $(VENV)/docs lint
	COMPILER=full $(BIN)/pytest -n 2 --dist loadfile --jaxtyping-packages=fedualex,beartype.beartype

# Every promise attacked with random cases for ten minutes. SECONDS=60 is a short one; SEED, PARTS and CASE repeat a failure.
attack: $(VENV)/installed
	cd tests && ../$(BIN)/python -m attack

# Every target of speed that needs no other environment; about a quarter of an hour on two free cores.
bench: $(VENV)/installed
	$(BIN)/python benchmarks/run.py

# The estimators beside scikit-learn: exchanges, CPU time, memory (docs/estimators.md); a few minutes.
bench-estimators: $(VENV)/installed
	$(BIN)/python benchmarks/estimators.py

# The speed beside frameworks, each in an environment of its own under benchmarks/.venvs; about ten minutes once those exist.
bench-peers: $(VENV)/installed
	$(BIN)/python benchmarks/run_peers.py

# The tables and figures of benchmarks/results/exchanges.md and docs/curvature.md: certified gaps against exchanges; about 30 minutes on two free cores.
bench-exchanges: $(VENV)/installed
	$(BIN)/python benchmarks/exchanges.py
	$(BIN)/python benchmarks/newton_exchanges.py anew

# The site in docs/_build/html: offline, every warning and every broken link is an error.
docs: $(VENV)/docs
	$(BIN)/sphinx-build -q -W --keep-going -n -b html -d docs/_build/doctrees docs docs/_build/html
	@echo docs/_build/html/index.html

# The numbers that blocks of code print now, written into README and docs; some minutes. Look at the difference before it is kept.
docs-numbers: $(VENV)/installed
	$(BIN)/python docs/renew_numbers.py

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

# Wheel and sdist in dist/, each checked in an environment of its own that has the core dependencies alone.
dist: $(VENV)/dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/check_dist.py dist

lint: $(VENV)/installed
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/ruff format --check src tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed
	$(BIN)/ruff check --fix src tests benchmarks examples docs
	$(BIN)/ruff format src tests benchmarks examples docs

# One environment for everything; made again only when what it is made from changes.
$(VENV)/installed: pyproject.toml constraints.txt
	@echo "Installing everything into $(VENV), test tools and deployment engines included: some minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"  # the first that knows dependency groups
	$(PIP) --constraint constraints.txt --group test --editable ".[estimators,figures,flower,nvflare,privacy,secure]"
	touch $@

# What only the site needs, so that `make test` does not wait for it.
$(VENV)/docs: $(VENV)/installed
	$(PIP) --constraint constraints.txt --group docs
	touch $@

$(VENV)/dist: $(VENV)/installed
	$(PIP) --constraint constraints.txt --group dist
	touch $@

# The fast tests that need no engine, with the lowest version of everything that pyproject.toml allows. What old versions say of each
# other is no warning of ours.
test-oldest: .venv-oldest/installed
	.venv-oldest/bin/python -m pytest -m "not slow" -n 2 --dist loadfile -W ignore::DeprecationWarning -W "ignore:Setting penalty=None:UserWarning" --ignore tests/deploy --ignore tests/docs

.venv-oldest/installed: pyproject.toml constraints-oldest.txt
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --group test --editable ".[estimators,figures,pandas,parquet,privacy,secure]"
	touch $@

clean:
	rm -rf .venv .venv-* docs/_build benchmarks/.venvs .pytest_cache .mypy_cache .ruff_cache .hypothesis
