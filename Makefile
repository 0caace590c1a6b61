PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test test-fast test-all attack bench bench-peers bench-estimators bench-exchanges docs docs-serve dist lint format clean

install: .venv/installed

demo: .venv/installed
	$(BIN)/fedualex demo

# Linters and fast tests side by side: mypy takes half a minute of one core.
test: .venv/installed
	$(MAKE) --no-print-directory -j 2 lint test-fast

test-fast: .venv/installed
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

# Everything, compiled as users compile it, with types checked at run time.
test-all: .venv/installed .venv/docs lint
	COMPILER=full $(BIN)/pytest -n 2 --dist loadfile --jaxtyping-packages=fedualex,beartype.beartype

# Every promise attacked with random cases for ten minutes. SECONDS=60 is a short one; SEED, PARTS and CASE repeat a failure.
attack: .venv/installed
	cd tests && ../$(BIN)/python -m attack

# Every target of speed that needs no other environment; about a quarter of an hour on two free cores.
bench: .venv/installed
	$(BIN)/python benchmarks/run.py

# The estimators beside scikit-learn: exchanges, CPU time, memory (docs/estimators.md); a few minutes.
bench-estimators: .venv/installed
	$(BIN)/python benchmarks/estimators.py

# The speed beside frameworks, each in an environment of its own under benchmarks/.venvs; about ten minutes once those exist.
bench-peers: .venv/installed
	$(BIN)/python benchmarks/run_peers.py

# The tables and figures of benchmarks/results/exchanges.md and docs/curvature.md: certified gaps against exchanges; about 30 minutes on two free cores.
bench-exchanges: .venv/installed
	$(BIN)/python benchmarks/exchanges.py
	$(BIN)/python benchmarks/newton_exchanges.py

# The site in docs/_build/html: offline, every warning and every broken link is an error.
docs: .venv/docs
	$(BIN)/sphinx-build -q -W --keep-going -n -b html -d docs/_build/doctrees docs docs/_build/html
	@echo docs/_build/html/index.html

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

# Wheel and sdist in dist/, each checked in an environment of its own that has the core dependencies alone.
dist: .venv/dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/check_dist.py dist

lint: .venv/installed
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/ruff format --check src tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix src tests benchmarks examples docs
	$(BIN)/ruff format src tests benchmarks examples docs

# One environment for everything; made again only when what it is made from changes.
.venv/installed: pyproject.toml constraints.txt
	@echo "Installing everything into .venv, test tools and deployment engines included: some minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[estimators,flower,nvflare,privacy,secure,test]"
	touch $@

# What only the site needs, so that `make test` does not wait for it.
.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	touch $@

.venv/dist: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dist]"
	touch $@

clean:
	rm -rf .venv docs/_build benchmarks/.venvs .pytest_cache .mypy_cache .ruff_cache .hypothesis
