# Everything installs into .venv on first use; Python 3.11 or later is all that is needed.
# RUNS=... and SEED=... say how long and where `make fuzz` searches, SINCE=... what `make check`
# compares with.
# PYTHON=... chooses another interpreter, VENV=... another place, JOBS=... test processes.
# EXTRAS=test,torch,onnx installs what importers read models by, so that their tests run too.
# `make test` takes turns among cases that are alike (CONTRIBUTING.md); `make test-all` takes all.

VENV ?= .venv
JOBS ?= auto
EXTRAS ?= test
CASES ?= --in-turn=8
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
STAMP := $(VENV)/.polyc-installed
DEMO := examples/gemm_bias_relu.mlir --set M=512 --set N=768 --set K=320

# The suite starts many processes: the first one's bytecode is for all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo install test test-all check test-gpu fuzz bench format clean

demo: $(STAMP)
	@$(BIN)/polyc run $(DEMO)

install: $(STAMP)

# Every check runs, also after one failed.  The check of types uses little more than one processor,
# and runs beside the tests.  A process begins with tests that are neighbors, which share what they
# compile.
test: $(STAMP)
	@failed=""; \
	step() { echo "== $$1"; shift; "$$@"; }; \
	$(BIN)/pyright --pythonpath $(BIN)/python > $(VENV)/pyright.txt 2>&1 & types=$$!; \
	step "ruff check" $(BIN)/ruff check --quiet . || failed="$$failed ruff-check"; \
	step "ruff format" $(BIN)/ruff format --check --quiet . || failed="$$failed ruff-format"; \
	step "lit" $(BIN)/lit -q test/filecheck || failed="$$failed lit"; \
	step "pytest" $(BIN)/pytest -q -n $(JOBS) --dist worksteal $(CASES) test/unit test/docs || failed="$$failed pytest"; \
	step "pyright" wait $$types || failed="$$failed pyright"; \
	cat $(VENV)/pyright.txt; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

test-all:
	@$(MAKE) test CASES=

# What differs from a commit: lint, types, and the texts and unit tests that are about it.
SINCE ?= HEAD
check: $(STAMP)
	@$(BIN)/python test/support/changed.py --since $(SINCE)

test-gpu: $(STAMP)
	@$(BIN)/pytest -q test/gpu

RUNS ?= 500
SEED ?= 0
fuzz: $(STAMP)
	@$(BIN)/python test/fuzz/kernels.py --runs $(RUNS) --seed $(SEED)
	@$(BIN)/python test/fuzz/models.py --runs $$(( $(RUNS) * 4 )) --seed $(SEED)
	@$(BIN)/python test/fuzz/epilogues.py --runs $$(( $(RUNS) * 4 )) --seed $(SEED)
	@$(BIN)/python test/fuzz/layers.py --runs $$(( $(RUNS) * 40 )) --seed $(SEED)
	@$(BIN)/python test/fuzz/meanings.py --runs $$(( $(RUNS) * 40 )) --seed $(SEED)
	@$(BIN)/python test/fuzz/meanings.py --runs $$(( $(RUNS) * 2 )) --seed $(SEED) --layers --kernels
	@$(BIN)/python test/fuzz/text.py --runs $$(( $(RUNS) * 200 )) --seed $(SEED)
	@$(BIN)/python test/fuzz/files.py --runs $$(( $(RUNS) * 20 )) --seed $(SEED)
	@$(BIN)/python test/fuzz/cliffs.py --runs $(RUNS) --seed $(SEED) --brief --kernels
	@$(BIN)/python test/fuzz/attentions.py --runs $(RUNS) --seed $(SEED)

bench: $(STAMP)
	@$(BIN)/python bench/compiler_speed.py
	@$(BIN)/python bench/gemm.py

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "polyc needs Python 3.11 or later on the PATH, or PYTHON=..." >&2; exit 1; }
	@echo "installing polyc and its test tools into $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --root-user-action ignore -e '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
