# Every target sets up what it needs; the second time that takes no time.
#   make demo     the backup operator at work on a private control plane (KEEP=1 leaves it running)
#   make cluster  a bare control plane until Ctrl-C, to try an operator of your own on
#   make test     all tests; ARGS="tests/cache -x" for some; K8S=1.34.4 for an older Kubernetes
#   make e2e      the starter's operator from its template to its removal, pods as processes
#   make check    format, lint, types, layers, spelling
#   make load     OBJECTS (20000), RATE (50) edits a second for MINUTES (5), half of the runs failing
#   make chaos    three replicas under random faults for MINUTES (5), of one SEED; then every check
#   make bench-webhooks   reviews a second, beside a bare aiohttp handler
#   make soak-webhooks    the webhooks under load for SECONDS (300) a disturbance

.PHONY: demo cluster test e2e check load chaos bench-webhooks soak-webhooks setup clean
.DEFAULT_GOAL := help
ARGS ?=
SECONDS ?= 300
OBJECTS ?= 20000
RATE ?= 50
MINUTES ?= 5
SEED ?=
ifdef K8S
export RWS_TEST_KUBERNETES_VERSION := $(K8S)
endif

VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: help
help:
	@sed -n 's/^#   //p' Makefile

demo: $(STAMP)
	@$(VENV)/bin/python -m examples.backup.demo

cluster: $(STAMP)
	@$(VENV)/bin/rws-operator controlplane up

# The control plane comes first, on its own: a build takes minutes and shows its progress.
test: $(STAMP)
	@$(VENV)/bin/python -m rws_operator.testing
	@RWS_TEST_REQUIRE_KUBERNETES=1 $(VENV)/bin/python -m pytest $(ARGS)

e2e: $(STAMP)
	@$(VENV)/bin/python -m rws_operator.testing
	@ci/e2e/operator.sh local e2e

check: $(STAMP)
	@ci/check

load: $(STAMP)
	@$(VENV)/bin/python -m rws_operator.testing
	@PYTHONPATH=. $(VENV)/bin/python bench/load.py --objects $(OBJECTS) --rate $(RATE) \
		--minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos: OBJECTS = 300
chaos: $(STAMP)
	@$(VENV)/bin/python -m rws_operator.testing
	@SEED=$(SEED) MINUTES=$(MINUTES) OBJECTS=$(OBJECTS) PYTHONPATH=. $(VENV)/bin/python -m tests.chaos

bench-webhooks: $(STAMP)
	@PYTHONPATH=. $(VENV)/bin/python bench/webhooks.py $(ARGS)

soak-webhooks: $(STAMP)
	@RWS_WEBHOOK_LOAD_SECONDS=$(SECONDS) RWS_TEST_REQUIRE_KUBERNETES=1 $(VENV)/bin/python -m pytest \
		tests/flow/test_webhook_life.py -rP $(ARGS)

setup: $(STAMP)
	@echo "set up: $(VENV)"

$(STAMP): requirements.lock pyproject.toml
	@ci/setup
	@touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
