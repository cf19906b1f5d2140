# `make demo` and `make test` need Python 3.11 or newer, make, and a package index. Nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DPKV := $(CURDIR)/$(BIN)/dpkv

.PHONY: help setup demo test test-lowest quick check docs bench audits studies clean

help:
	@echo "make demo   set up $(VENV) and run dpkv on the bundled hospital table"
	@echo "make test   set up $(VENV), lint, type-check and run every test"
	@echo "make test-lowest runs the tests with the lowest versions that the metadata allow"
	@echo "make quick  unit and property tests alone, in about a minute"
	@echo "make check  ruff and mypy --strict only"
	@echo "make docs   builds the documentation into build/site, strictly"
	@echo "make bench  speed of seeding, calibration, releases and the engine, each beside another way"
	@echo "make audits runs the specs of audits/; renews audits/reports, and fills build/audits"
	@echo "make studies runs the quick version of every study, into build/studies"
	@echo "make clean  remove $(VENV) and caches"

setup: $(READY)

# The environment is rebuilt only when the dependencies change.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "dpkv needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)
	rm -rf build/demo && mkdir -p build/demo && cp datasets/hospital_visits.* build/demo/
	cd build/demo && $(DPKV) ledger set-budget hospital_visits.csv --eps 2
	cd build/demo && $(DPKV) calibrate hospital_visits.csv --eps 1 --plot noise.svg
	cd build/demo && $(DPKV) release --k 4 --export-synopsis \
	  --publisher "an imagined hospital" --data-about "three years of visits" --purpose "a demonstration"
	cd build/demo && $(DPKV) verify release/release.json
	cd build/demo && $(DPKV) audit release/release.json --public
	cd build/demo && $(DPKV) release --k 2..8 --out chosen --export-synopsis
	cd build/demo && $(DPKV) audit chosen/release.json --public --out chosen-report
	@echo "the report is build/demo/audit/report.html; that of a number of groups chosen privately,"
	@echo "with the curve, is build/demo/chosen-report/report.html"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Nothing is fetched: the figures are in docs/figures, and a page loads what lies beside it. Not with
# --quiet, under which --strict counts no warning.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "the documentation is build/site/index.html"

test: check docs
	$(BIN)/python -m pytest -n auto

# The lowest version of every direct dependency, in an environment of its own; what these need in
# turn is as new as they allow.
test-lowest:
	$(PYTHON) -m venv build/lowest/venv
	$(PYTHON) tests/support/lowest.py > build/lowest/constraints.txt
	build/lowest/venv/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint build/lowest/constraints.txt --editable '.[dev]'
	build/lowest/venv/bin/python -m pytest -n auto -m "not browser"

# A file's tests stay in one process, which makes what they share once.
quick: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile tests/unit tests/property tests/packaging \
	  -m "not (processes or dask or statistical or browser)"

bench: $(READY)
	$(BIN)/python audits/seeding_speed.py
	$(BIN)/python audits/calibration_speed.py
	$(BIN)/python audits/release_speed.py
	$(BIN)/python audits/synopsis_speed.py
	$(BIN)/python audits/engine_speed.py

audits: $(READY)
	$(BIN)/python audits/run_specs.py

studies: $(READY)
	rm -rf build/studies && mkdir -p build/studies
	for name in sublinear-noise dk-means published-table heat-maps total-jensen; do \
	  $(DPKV) study run $$name --out build/studies/$$name || exit 1; done

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .dpkv
