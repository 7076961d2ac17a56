# Needs only Python 3.11+ and make. `make demo` and `make test` set everything up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PAIMON_VENV := .venv-pypaimon
PAIMON_LOCK := tests/paimon/peers/pypaimon.lock
PAIMON_STAMP := $(PAIMON_VENV)/.installed
SPARK_VENV := .venv-spark43
SPARK_LOCK := tests/spark/peers/spark43.lock
SPARK_STAMP := $(SPARK_VENV)/.installed
SPARK_CLASSES := .cache/spark-4.1.jsa .cache/spark-4.3.jsa
DOCS_VENV := .venv-docs
DOCS_LOCK := docs/site/docs.lock
DOCS_STAMP := $(DOCS_VENV)/.installed
WORKERS ?= 3
HISTORIES ?= 500
SOAK_SECONDS ?= 600
MUTANTS ?= 20000
LINTED := src tests benchmarks examples docs/site hatch_build.py
FAST := not spark and not service and not slow

.PHONY: demo test torture torture-faults fuzz bounds soak check lint format types contracts fast slow-tests coverage docs release bench peers lock protobuf clean

demo: $(STAMP)
	$(BIN)/python -m skerry.spark.demo

# The whole suite; after `make check`, `make test CHECKED=1` runs the tests that the check left out.
test: $(STAMP) peers
	$(BIN)/python -m pytest -n $(WORKERS) $(if $(CHECKED),-m "not ($(FAST))")

# New random histories every time, and twenty times the examples of all properties; `make torture HISTORIES=10000` for a
# night. The fault sweep and the commits beside kills go on where they were left: `make torture-faults` alone runs them.
torture: $(STAMP) peers
	SKERRY_TORTURE=1 SKERRY_HISTORIES=$(HISTORIES) $(BIN)/python -m pytest tests/stateful \
		tests/catalog/test_orphan_histories.py tests/paimon/test_paimon_machine.py tests/table/test_group_samples.py \
		tests/paimon/test_paimon_commit_torture.py tests/foreign/test_spark_interop.py tests/reliability \
		tests/paimon/test_paimon_vectors_by_key.py tests/paimon/test_iceberg_to_paimon.py \
		tests/catalogs/test_server_planning.py tests/spark/test_spark_cluster.py \
		tests/paimon/test_paimon_changelog.py tests/paimon/test_paimon_row_histories.py \
		tests/paimon/test_paimon_lookup.py tests/statistics/test_growing_samples.py tests/variant tests/catalog/test_copying.py
	SKERRY_TORTURE=1 $(BIN)/python -m pytest -n $(WORKERS) -m "hypothesis or torture"

torture-faults: $(STAMP)
	SKERRY_TORTURE=1 $(BIN)/python -m pytest tests/reliability

# MUTANTS of every kind of file, new ones each time; FUZZ takes further arguments, such as `--kind parquet --seed 7`.
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz/fuzz_run.py --mutants $(MUTANTS) $(FUZZ)

# Kernels with every index checked, over mutants of the same files.
bounds: $(STAMP)
	$(BIN)/python tests/fuzz/checked_kernels.py --mutants 500 $(FUZZ)

# The change-data pipeline, killed every few seconds. `make test` runs a short cut of the same. What is measured goes to
# soak.jsonl, soak.md and soak.svg; an hour is `make soak SOAK_SECONDS=3600`.
soak: $(STAMP)
	SKERRY_SOAK_SECONDS=$(SOAK_SECONDS) SKERRY_SOAK_REPORT=soak.jsonl \
		$(BIN)/python -m pytest -s tests/spark/test_change_pipeline.py

# Import contracts are checked by one of the fast tests. The types are checked beside the tests: one processor each.
check: lint
	$(MAKE) --jobs=2 types fast

lint: $(STAMP)
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)

format: $(STAMP)
	$(BIN)/ruff check --fix $(LINTED)
	$(BIN)/ruff format $(LINTED)

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

fast: $(STAMP) peers
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(FAST)"

# Writes tests/slow_tests.txt again: the tests that take long, which the check leaves out.
slow-tests: $(STAMP) peers
	$(BIN)/python -m pytest -n $(WORKERS) -m "not spark and not service" --list-slow

# Lines that the check's tests do not reach. coverage.py stays out of the lock: nothing else needs it.
coverage: $(STAMP) peers
	$(BIN)/uv pip install --quiet --target .cache/coverage coverage
	PYTHONPATH=.cache/coverage COVERAGE_FILE=.cache/coverage.data \
		$(BIN)/python -m coverage run --source src/skerry -m pytest -n0 -m "$(FAST)"
	PYTHONPATH=.cache/coverage COVERAGE_FILE=.cache/coverage.data \
		$(BIN)/python -m coverage report --show-missing --skip-covered --sort cover

# All benchmarks, compared with the last table; BENCH takes arguments, such as `--only planning` and `--keep`. Takes hours.
bench: $(STAMP) peers
	$(BIN)/python benchmarks/all.py $(BENCH)

# The documentation site, in .cache/site/html: docs/ and the docstrings of public names. Needs no network once set up.
docs: $(DOCS_STAMP)
	$(DOCS_VENV)/bin/python docs/site/build.py

# The wheel and the source distribution in dist/, installed and tried in fresh environments of every supported Python that
# is found on this machine.
release: $(STAMP)
	$(BIN)/python tests/release/release_check.py dist

# The lock names versions and hashes only, so that any index or mirror serves it.
lock: $(STAMP)
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		pyproject.toml --all-extras --group dev -o requirements.lock
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		tests/paimon/peers/pypaimon.in -o $(PAIMON_LOCK)
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		tests/spark/peers/spark43.in -o $(SPARK_LOCK)
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		docs/site/docs.in -o $(DOCS_LOCK)

# Generated code is committed: installing needs no protoc.
protobuf: $(STAMP)
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src src/skerry/amudai/messages/*.proto

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("skerry needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	@echo "setting up $(VENV): tools, packages (2 GB unpacked), kernels"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$(cat .uv-version)"
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@echo "compiling kernels for this machine (once)"
	$(BIN)/python -c "import skerry.kernels; skerry.kernels.warm_up()"
	touch $@

# pypaimon pins an old PyArrow, and the newest Spark differs from the one in the lock: each has an environment of its own.
peers: $(PAIMON_STAMP) $(SPARK_STAMP) $(SPARK_CLASSES)

$(PAIMON_STAMP): $(STAMP) $(PAIMON_LOCK)
	$(PYTHON) -m venv $(PAIMON_VENV)
	$(BIN)/uv pip sync --quiet --python $(PAIMON_VENV)/bin/python --require-hashes $(PAIMON_LOCK)
	touch $@

# Only PySpark is here, and what builds the site there; all else comes from the main environment, which the path file
# names and Python searches last.
define beside_main
	$(BIN)/python -m venv --without-pip $(1)
	$(BIN)/uv pip sync --quiet --python $(1)/bin/python --require-hashes $(2)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main_environment.pth
	touch $(1)/.installed
endef

$(SPARK_STAMP): $(STAMP) $(SPARK_LOCK)
	$(call beside_main,$(SPARK_VENV),$(SPARK_LOCK))

$(DOCS_STAMP): $(STAMP) $(DOCS_LOCK)
	$(call beside_main,$(DOCS_VENV),$(DOCS_LOCK))

# The classes that Spark loads, archived for this machine's Java: its JVMs start with half the work.
.cache/spark-4.1.jsa: $(STAMP) tests/spark/peers/class_archive.py
	$(BIN)/python tests/spark/peers/class_archive.py $@

.cache/spark-4.3.jsa: $(SPARK_STAMP) tests/spark/peers/class_archive.py
	$(SPARK_VENV)/bin/python tests/spark/peers/class_archive.py $@

clean:
	rm -rf $(VENV) $(PAIMON_VENV) $(SPARK_VENV) $(DOCS_VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
