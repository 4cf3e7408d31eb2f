# Every target uses .venv/ in this folder and makes it when it is not there. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RESULTS ?= results

# The build of torch. Another one:        make quickstart TORCH=torch==2.13.0
# From an index of your own, for example: make quickstart TORCH="torch --index-url https://download.pytorch.org/whl/cpu"
# Left out, a torch that $(PYTHON) already imports is used as it is.
TORCH ?=

RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev

.PHONY: help
help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"ScaleCurve needs Python 3.11 to 3.13, and $(PYTHON) is {v[0]}.{v[1]}; say which: make PYTHON=python3.12 ...")'
	@if [ -z "$(TORCH)" ] && $(PYTHON) -c 'import torch' 2>/dev/null; then \
	    echo "using the torch that $(PYTHON) has"; $(PYTHON) -m venv --system-site-packages $(VENV); \
	else $(PYTHON) -m venv $(VENV); fi

# $(call install,NAME): what locks/NAME.txt pins, each file checked against its digest, and then this distribution from here.
define install
$(BIN)/python -m pip install --quiet --require-hashes -r locks/$(1).txt -r locks/build.txt
$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
endef

$(RUNTIME): $(VENV)/bin/python pyproject.toml locks/runtime.txt
	@if [ -n "$(TORCH)" ]; then $(BIN)/python -m pip install --quiet $(TORCH); \
	elif ! $(BIN)/python -c 'import torch' 2>/dev/null; then \
	    echo "installing torch: the index's own build, about 5.5 GB with CUDA (make TORCH=... takes another)"; \
	    $(BIN)/python -m pip install --quiet --require-hashes -r locks/torch.txt; fi
	@$(call install,runtime)
	@touch $@

$(DEV): $(RUNTIME) locks/dev.txt
	@$(call install,dev)
	@touch $@

.PHONY: install
install: $(RUNTIME)  ## create .venv/ with what a run and a report need

.PHONY: quickstart
quickstart: $(RUNTIME)  ## run a real experiment here and write its report
	@$(BIN)/scalecurve quickstart --into $(RESULTS)

.PHONY: horovod
horovod: $(RUNTIME)  ## build and install Horovod (2 to 4 minutes; CMake, g++)
	@$(call install,mpi)
	@PYTHON=$(BIN)/python sh images/horovod/install.sh

PYTEST := $(BIN)/python -m pytest -n auto --durations=12
FRAMEWORKS := $(VENV)/.frameworks

# Tests in one process run beside each other and beside the builds; tests on real processes two at a time; alone those that
# watch a terminal or the load, and those on a control plane: the chart's, and those of the suite `cluster` that
# tests/conftest.py lists as GATE. Of the job operators these need the CRDs, not the builds of seven minutes.
GATE_TOOLS := etcd k8s kwok helm mpi-operator-crds training-operator-crds jobset-crds
SUITES := benchmarks or cluster or nodes or frameworks or integrations or layouts or repository
.PHONY: test
test: $(DEV)  ## the tests for a change (15 minutes; Go)
	@nice -n 19 $(BIN)/python -m tools.devcluster.toolchain $(GATE_TOOLS) >$(VENV)/toolchain.log 2>&1 & building=$$!; status=0; \
	$(PYTEST) --dist loadfile -m 'not (processes or $(SUITES))' $(PYTEST_ARGS) || status=$$?; \
	wait $$building || cat $(VENV)/toolchain.log; \
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m 'processes and not (alone or $(SUITES))' $(PYTEST_ARGS) || status=$$?; \
	$(PYTEST) -n 0 --dist no -m alone $(PYTEST_ARGS) || status=$$?; exit $$status

.PHONY: test-nightly
test-nightly: $(DEV)  ## tests of properties, with ten times as many examples
	@SCALECURVE_HYPOTHESIS=nightly $(PYTEST) --dist loadfile -m 'hypothesis and not (processes or $(SUITES))' $(PYTEST_ARGS)

.PHONY: test-benchmarks
test-benchmarks: $(DEV)  ## benchmarks/ in their smallest form (2 minutes)
	@$(PYTEST) -n 2 -m benchmarks tests/benchmarks $(PYTEST_ARGS)

.PHONY: test-layouts
test-layouts: $(DEV)  ## tests of tensor, pipeline, context, expert parallelism
	@$(PYTEST) -n 2 --dist loadfile -m layouts $(PYTEST_ARGS)

.PHONY: test-cluster
test-cluster: $(DEV) cluster-tools  ## operator and verbs on a control plane (25 min; Go)
	@$(PYTEST) --dist loadfile -m cluster $(PYTEST_ARGS)

.PHONY: test-nodes
test-nodes: $(DEV) cluster-tools node-tools  ## on real nodes, in images (root, Go; make images)
	@$(PYTEST) -n 0 --dist no -m nodes $(PYTEST_ARGS)

$(FRAMEWORKS): $(DEV) locks/tensorflow.txt
	@$(BIN)/python -m pip install --quiet --require-hashes -r locks/tensorflow.txt
	@touch $@

.PHONY: test-frameworks
test-frameworks: $(FRAMEWORKS)  ## tests with TensorFlow and Horovod
	@PYTHON=$(BIN)/python sh images/horovod/install.sh || [ $$? -eq 3 ]
	@$(PYTEST) -n 0 --dist no -m frameworks $(PYTEST_ARGS)

INTEGRATIONS := $(VENV)/.integrations
$(INTEGRATIONS): $(FRAMEWORKS) locks/integrations.txt
	@$(BIN)/python -m pip install --quiet --require-hashes -r locks/integrations.txt
	@touch $@

.PHONY: test-integrations
test-integrations: $(INTEGRATIONS)  ## tests with Transformers, Lightning, DeepSpeed, ...
	@$(PYTEST) -n 0 --dist no -m integrations $(PYTEST_ARGS)

.PHONY: test-all
test-all:  ## all of these tests
	@status=0; for suite in test test-benchmarks test-layouts test-cluster test-frameworks test-integrations test-nodes; do $(MAKE) $$suite || status=$$?; done; exit $$status

# Build what `make cluster` runs, once: etcd, Kubernetes, job operators (20 minutes, Go).
.PHONY: cluster-tools
cluster-tools: $(VENV)/bin/python
	@$(BIN)/python -m tools.devcluster.toolchain || [ $$? -eq 3 ]

.PHONY: cluster
cluster: $(DEV) cluster-tools  ## a Kubernetes API with fake GPU nodes, until Ctrl-C
	@$(BIN)/python -m tools.devcluster.tier up

IMAGES ?=
IMAGE_ARGS ?=
.PHONY: images
images: $(VENV)/bin/python  ## container images [IMAGES="operator"] (root, buildah)
	@$(BIN)/python -m tools.images.build $(IMAGE_ARGS) $(IMAGES)

# Build and install what real nodes need: kubelet, containerd, runc and more (root, Debian).
.PHONY: node-tools
node-tools: $(VENV)/bin/python
	@$(BIN)/python -m tools.devcluster.nodes.machine install
	@$(BIN)/python -m tools.devcluster.toolchain etcd k8s mpi-operator training-operator helm \
	    node containerd cni-plugins coredns pause >&2 || [ $$? -eq 3 ]

.PHONY: cluster-up
cluster-up: node-tools  ## a cluster of real nodes [NODES=2] [IMAGES=worker-mpi]
	@$(BIN)/python -m tools.devcluster.nodes.standing up --nodes $(or $(NODES),2) $(IMAGES)

CLUSTER_CLI := $(VENV)/.cluster
$(CLUSTER_CLI): $(VENV)/bin/python pyproject.toml locks/cluster.txt
	@$(call install,cluster)
	@touch $@

.PHONY: cluster-quickstart
cluster-quickstart: $(CLUSTER_CLI)  ## from a clone to a report from real pods [KEEP=1]
	@$(BIN)/python -m tools.devcluster.nodes.quickstart $(EXPERIMENT) $(if $(KEEP),--keep)

.PHONY: cluster-down
cluster-down: $(VENV)/bin/python  ## stop that cluster, and clean up after a killed one
	@$(BIN)/python -m tools.devcluster.nodes.standing down

.PHONY: check
check: $(DEV)  ## every cheap check (1 minute)
	@$(BIN)/python -m tools.check

.PHONY: fix
fix: $(DEV)  ## repair what a machine can repair
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .
	@$(BIN)/python -m tools.claims --write --no-pictures || true
	@$(BIN)/python tools/lint/pages.py --fix
	@$(BIN)/python -m tools.generated --write

.PHONY: claims
claims: $(DEV)  ## compute every number and picture of the pages again
	@$(BIN)/python -m tools.claims

.PHONY: bench
bench: $(DEV)  ## benchmarks that need no GPU
	@$(BIN)/python -m benchmarks.harness_cost
	@$(BIN)/python -m benchmarks.coverage
	@$(BIN)/python -m benchmarks.prediction

# Kill and resume 200 runs at random moments.
.PHONY: soak
soak: $(DEV)
	@$(BIN)/python -m benchmarks.soak

DOCS := $(VENV)/.docs
$(DOCS): $(VENV)/bin/python pyproject.toml locks/docs.txt
	@$(call install,docs)
	@touch $@

.PHONY: docs
docs: $(DOCS)  ## build the documentation site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

.PHONY: dist
dist: $(VENV)/bin/python  ## wheel, sdist, chart and digests into dist/ (Go)
	@$(BIN)/python -m tools.release.dist

# `make dist` plus image archives, then try them: quickstart, chart in a fresh control plane.
.PHONY: release-dry-run
release-dry-run: $(DEV)
	@$(BIN)/python -m tools.devcluster.toolchain etcd k8s kwok helm
	@$(BIN)/python -m tools.release.dry_run

# Generate the CRDs, the chart's rules for jobs, and docs/reference/experiment.md from the models.
.PHONY: crds
crds: $(DEV)
	@$(BIN)/python -m tools.generated --write crds experiment-reference job-rules

# Generate what depends on the chart: its README, the kustomize base, the golden templates (Go).
.PHONY: chart
chart: crds
	@$(BIN)/python -m tools.devcluster.toolchain helm
	@$(BIN)/python -m tools.generated --write chart-readme kustomize-base golden-templates

# Versions of everything together are in constraints*.txt, for installs of your own; locks/ has what each target installs,
# with digests, which pip takes from a complete list only.
LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate --quiet
HASHED := $(LOCK) --generate-hashes --constraint constraints.txt
# torch pins its own CUDA packages; kept apart, they never stand in the way of another build of torch.
SHARED := jinja2|markupsafe|typing-extensions
WITHOUT_TORCH := $$(sed -E 's/==.*//' constraints-torch.txt | sort -u | grep -vE '^($(SHARED))$$$$' | sed 's/^/--no-emit-package /')

.PHONY: lock
# Resolve constraints*.txt and locks/ again, for Python 3.11 to 3.13.
lock: $(VENV)/bin/python
	@$(BIN)/python -m pip install --quiet uv
	@echo 'torch==2.14.*' | $(LOCK) - --output-file constraints-torch.txt
	@$(LOCK) pyproject.toml --extra torch --extra dev --extra docs --constraint constraints-torch.txt \
	    --output-file constraints.txt $(WITHOUT_TORCH)
	@printf '%s\n' 'tensorflow-cpu==2.21.*' 'tensorflow[and-cuda]==2.21.*' | \
	    $(LOCK) - --constraint constraints.txt --output-file constraints-tensorflow.txt
	@echo torch | $(HASHED) - --constraint constraints-torch.txt --output-file locks/torch.txt
	@$(HASHED) pyproject.toml --extra torch --constraint constraints-torch.txt --output-file locks/runtime.txt $(WITHOUT_TORCH)
	@$(HASHED) pyproject.toml --extra torch --extra mpi --constraint constraints-torch.txt --output-file locks/mpi.txt \
	    $(WITHOUT_TORCH)
	@$(HASHED) pyproject.toml --extra torch --extra dev --constraint constraints-torch.txt --output-file locks/dev.txt \
	    $(WITHOUT_TORCH)
	@$(HASHED) pyproject.toml --extra cluster --output-file locks/cluster.txt
	@$(HASHED) pyproject.toml --extra docs --output-file locks/docs.txt
	@echo 'hatchling>=1.27' | $(HASHED) - --output-file locks/build.txt
	@echo 'cyclonedx-bom>=7' | $(HASHED) - --output-file locks/bill.txt
	@$(HASHED) images/operator/requirements.txt --output-file locks/operator.txt
	@$(HASHED) images/worker/requirements.txt --output-file locks/worker-mpi.txt
	@printf '%s\n' nvidia-ml-py pillow scikit-learn | $(HASHED) images/worker/requirements.txt - --output-file locks/worker.txt
	@echo tensorflow-cpu | $(HASHED) - --constraint constraints-tensorflow.txt --output-file locks/tensorflow.txt
	@$(HASHED) pyproject.toml --extra integrations --constraint constraints-torch.txt --constraint constraints-tensorflow.txt \
	    --output-file locks/integrations.txt $(WITHOUT_TORCH)

.PHONY: clean
clean:  ## remove .venv/, results/ and all caches
	@rm -rf $(VENV) $(RESULTS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist site
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
