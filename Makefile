# Everything from a checkout: `make help`. Needs Python 3.11 or newer and make; the rest is fetched into .venv, without
# root, and reused until constraints.txt or pyproject.toml change. `make PYTHON=/path/to/python3 ...` chooses a Python.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of Pythons: without files of byte code each would compile all that it imports, for seconds.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

VENV ?= .venv
BIN := $(VENV)/bin
# Many tests wait for real processes, so a few more workers than cores.
WORKERS ?= 3
# Each of these has a control plane of its own, of a quarter of a core and a gigabyte. Most tests on it wait.
CLUSTER_WORKERS ?= 3
INSTALLED := $(VENV)/installed
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3 python

# Names the first Python that is new enough and can make environments, or says what lacks.
define find_python
python=; lame=; \
for each in $(CANDIDATES); do \
    "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
    if "$$each" -c 'import ensurepip, venv' >/dev/null 2>&1; then python=$$each; break; fi; \
    lame=$${lame:-$$each}; \
done; \
if [ -z "$$python" ] && [ -n "$$lame" ]; then \
    echo "error: $$lame can't make virtual environments: its modules venv and ensurepip are missing." >&2; \
    echo "On Debian and Ubuntu: apt-get install python3-venv. Or choose another: make PYTHON=/path/to/python3 setup" >&2; \
    exit 1; \
elif [ -z "$$python" ]; then \
    echo "error: no Python 3.11 or newer among: $(strip $(CANDIDATES))." >&2; \
    echo "Install one, or say where it is: make PYTHON=/path/to/python3 setup" >&2; \
    exit 1; \
fi
endef

# Tests that wait for real processes and times can fail for want of a core: what failed is told, and run once more alone.
define alone
|| { \
	    [ $$? = 1 ] || exit 1; \
	    echo "What failed beside other tests is run again alone: times that are waited for need a machine to itself."; \
	    $(BIN)/python -m pytest $(1) --last-failed --last-failed-no-failures none $(PYTEST_ARGS); \
	}
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

$(INSTALLED): constraints.txt pyproject.toml
	@if ! $(BIN)/python -c 'import pip' >/dev/null 2>&1; then \
	    $(find_python); \
	    echo "making $(VENV) with $$("$$python" --version) (once)"; \
	    "$$python" -m venv --clear $(VENV); \
	fi
	@echo "installing the locked dependencies into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(INSTALLED) ## set up .venv, with the command gpu-autoscaler in .venv/bin

.PHONY: demo
demo: setup ## replay real traffic against a scaled fleet, about 3 minutes (ENGINE=vllm, triton: real ones, 6 and 0.3 GB)
	@engine=$(or $(ENGINE),emulated); set --; \
	if [ "$$engine" = vllm ]; then \
	    directory=$$($(BIN)/python -m tests.engines.install_vllm --directory) || exit 1; \
	    set -- --vllm-python "$$directory/bin/python" --vllm-model "$$directory/model"; \
	elif [ "$$engine" = triton ]; then \
	    directory=$$($(BIN)/python -m tests.engines.install_triton) || exit 1; \
	    set -- --triton-home "$$directory"; \
	fi; \
	exec $(BIN)/python -m loadtests.demo --engine "$$engine" "$$@" $(DEMO_ARGS)

.PHONY: compare-demo
compare-demo: setup ## simulate two traces under this controller and under others, 2 minutes; a report in comparison/
	@$(BIN)/gpu-autoscaler compare --trace azure2024_conv_week --trace azure2023_conv --days 0:2 \
	    --boot 60 --peak-replicas 20 --policy static --policy hpa --policy keda --policy knative --policy aibrix \
	    --policy ray --policy dynamo --knobs 7 --baseline hpa:0.6 --output table --out comparison $(COMPARE_ARGS)

.PHONY: test
test: setup ## run every test that Python alone can carry (PYTEST_ARGS: more arguments)
	$(BIN)/python -m pytest -m "not engines and not cluster" -n $(WORKERS) --dist worksteal --cov --cov-report=term:skip-covered $(PYTEST_ARGS) \
	    $(call alone,-m "not engines and not cluster")

.PHONY: test-cluster
test-cluster: setup ## build a real control plane (from source, once, 15 minutes; needs Go) and run the tests on it
	$(BIN)/python -m tests.cluster.build
	$(BIN)/python -m pytest -m cluster --timeout 600 -n $(CLUSTER_WORKERS) --dist worksteal $(PYTEST_ARGS) \
	    $(call alone,-m cluster --timeout 600)

.PHONY: test-engines
test-engines: test-triton test-vllm ## fetch real engines (6.4 GB, once) and run the tests on them

# Triton's executions are slept, so that two tests at once leave a machine idle; a vLLM on CPU needs all of it.
.PHONY: test-triton
test-triton: setup ## of these, those on Triton
	$(BIN)/python -m tests.engines.install_triton > /dev/null
	$(BIN)/python -m pytest -m engines --timeout 900 -n 2 --dist loadgroup tests/engines/test_triton_*.py $(PYTEST_ARGS) \
	    $(call alone,-m engines --timeout 900 tests/engines/test_triton_*.py)

.PHONY: test-vllm
test-vllm: setup ## of these, those on vLLM
	$(BIN)/python -m tests.engines.install_vllm > /dev/null
	$(BIN)/python -m pytest -m engines --timeout 900 --ignore-glob='*/tests/engines/test_triton_*.py' $(PYTEST_ARGS) \
	    $(call alone,-m engines --timeout 900 --ignore-glob='*/tests/engines/test_triton_*.py')

.PHONY: check
check: setup ## check style, types, direction of imports, and that generated files are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m autoscaler.config.reference --check

.PHONY: format
format: setup ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: setup ## write the files that are generated from the configuration's schema
	$(BIN)/python -m autoscaler.config.reference

COMPILE = $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header

.PHONY: lock
lock: setup ## choose the newest allowed versions anew (constraints.txt, tests/engines/*.txt)
	$(COMPILE) --upgrade --all-extras pyproject.toml -o constraints.txt
	$(COMPILE) --upgrade --no-annotate --overrides tests/engines/vllm-overrides.txt tests/engines/vllm.in \
	    -o tests/engines/vllm.txt
	$(COMPILE) --upgrade --no-annotate tests/engines/triton.in -o tests/engines/triton.txt

.PHONY: clean
clean: ## remove what was set up and cached in this checkout
	rm -rf $(VENV) build dist *.egg-info demo-report comparison state .coverage .coverage.* .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
