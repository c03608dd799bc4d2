# Each target builds what it needs; nothing has to be installed by hand but python3 (3.11 or newer) and make.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Tests at a time; they share the kernels that `counterpoise compile` puts into the cache on disk.
WORKERS ?= 2

.PHONY: venv demo compile check test test-slow test-all test-browser test-lowest test-newest wheel-smoke fuzz soak lint \
	bench bench-search bench-estimators benchopt docs clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,plots,data]'
	touch $@

demo: $(STAMP)
	$(BIN)/counterpoise demo

# All kernels into the cache, each compiled once and not by every worker.
compile: $(STAMP)
	$(BIN)/counterpoise compile --jobs $(WORKERS)

# For the edit loop, a minute and a half: lint, types, and arithmetic, terms, checks, files and command lines.
CHECKS := checks problem constraint smooth topsum roots bcd certificates baselines theorems sparse_arc binary_search \
	binary_estimators files returns loaders sets report docs clock cli cli_certify cli_pca cli_split
check: lint compile
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -m "not compiled and not slow" tests/test_topsum.py tests/test_pair_steps.py
	$(BIN)/pytest -q -n $(WORKERS) -m "not slow" $(CHECKS:%=tests/test_%.py)

# All tests but those marked slow, which `make test-slow` runs and `make test-all` adds. Tests of kernels run twice: as
# plain Python, where an index out of bounds is an error, and compiled, with all others. COVERAGE=yes, as in continuous
# integration, measures the coverage of both, which takes a third longer. The last line is that of the compiled run.
KERNELS := pair_steps roots topsum smooth blocks bcd certificates sparse_line sparse_arc binary_search search pool rules \
	dispatch
COVERAGE ?=
PYTEST := $(if $(COVERAGE),$(BIN)/coverage run -m pytest,$(BIN)/pytest)
test: lint compile
	rm -f .coverage .coverage.* build/failed
	NUMBA_DISABLE_JIT=1 $(PYTEST) -q -n $(WORKERS) -m "not compiled and not slow" $(KERNELS:%=tests/test_%.py)
	mkdir -p build
	{ $(PYTEST) -n $(WORKERS) -m "not slow" || touch build/failed; } | tee build/test.log
	@if [ -e build/failed ]; then rm build/failed; exit 1; fi
	$(if $(COVERAGE),$(BIN)/coverage combine --quiet && $(BIN)/coverage report)
	@tail -n 1 build/test.log

# Empty caches, killed processes, clusters, benchopt, long fuzz samples: about five minutes.
test-slow: compile
	$(BIN)/pytest -n $(WORKERS) -m slow

test-all:
	$(MAKE) test-slow
	$(MAKE) test

# The pages of results in a real browser; chromium is installed where it is absent and the system is Debian's.
test-browser: $(STAMP)
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }
	$(BIN)/pytest -m browser

# The built wheel in an empty environment: it installs, solves and has its command.
wheel-smoke:
	rm -rf build/smoke
	$(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip wheel --quiet --disable-pip-version-check -c constraints.txt --no-deps -w build/smoke/wheel .
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build/smoke/wheel/*.whl
	cd build/smoke && bin/python $(CURDIR)/tests/smoke.py
	rm -rf build/smoke

# What depends most on other packages, without the slow kernels.
VERSIONS := test_files test_returns test_problem test_smooth test_callbacks test_report test_plotting test_loaders \
	test_cli test_cli_certify test_cli_pca test_cli_split test_solve
PYTHON_LOWEST ?= python3.11

# The oldest versions that pyproject.toml allows.
test-lowest:
	$(PYTHON_LOWEST) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[plots,data,excel]' \
		pytest pytest-xdist hypothesis
	build/lowest/bin/python -m pytest -n $(WORKERS) $(VERSIONS:%=tests/%.py)

# The newest that pip finds, whatever constraints.txt says.
test-newest:
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -e '.[plots,data,excel]' pytest pytest-xdist \
		hypothesis
	build/newest/bin/python -m pytest -n $(WORKERS) $(VERSIONS:%=tests/%.py)

# Random problems against brute force and invariants, docs/fuzz.rst; a fixed sample of them is part of the tests.
FUZZ_PROBLEMS ?= 100000
FUZZ_SEED ?= 0
fuzz: $(STAMP)
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz --problems $(FUZZ_PROBLEMS) --seed $(FUZZ_SEED) --jobs $(WORKERS)

# Mixed solves in eight threads: no answer may differ from the serial one, and memory may not grow.
SOAK_SECONDS ?= 3600
soak: $(STAMP)
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz.soak --seconds $(SOAK_SECONDS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/foundation.py

# How near to the best known a search comes, and how soon; the real sets are found through COUNTERPOISE_DATA.
bench-search: $(STAMP)
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/texts.py

# What people import, against what they would take instead; skfolio and SCIP are among the peers.
bench-estimators: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[skfolio]' pyscipopt
	$(BIN)/python benchmarks/estimators_tracking.py
	$(BIN)/python benchmarks/estimators_pca.py
	$(BIN)/python benchmarks/sparse_pca.py
	$(BIN)/python benchmarks/estimators_split.py

# All solvers of benchmarks/PROBLEM, the peers among them (SCIP, skfolio, abess, …); an HTML page in its outputs/.
PROBLEM ?= sit
DATASET ?= Simulated
benchopt: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[benchmarks]'
	PATH="$(CURDIR)/$(BIN):$$PATH" benchopt run benchmarks/$(PROBLEM) -d '$(DATASET)' -r 3 --timeout 60 --no-display

# The pages, with the examples run; nothing is fetched while building or reading. Open docs/_build/html/index.html.
docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

clean:
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
