# Muniment: everything a person types. "make" alone prints the list below.
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
CACHE ?= $(LOCALAPPDATA)/muniment
else ifeq ($(shell uname -s),Darwin)
BIN := .venv/bin
CACHE ?= $(HOME)/Library/Caches/muniment
else
BIN := .venv/bin
CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/muniment
endif
# Model files are shared by the demo and the tests, so that each is fetched once per user.
export MUNIMENT_MODEL_CACHE ?= $(CACHE)/models
TIERS ?= fast process ui model

.DEFAULT_GOAL := help
.PHONY: help demo app test check samples clean install-demo install-app install-dev

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: install-demo ## install, get the starter model, answer one question about the sample documents
	@$(BIN)/muniment demo

app: install-app ## open the window
	@$(BIN)/muniment gui

test: install-dev ## run all tests, tier by tier: fast, process, ui, model (TIERS="fast ui" chooses)
	@status=0; \
	for tier in $(TIERS); do \
		echo "== tests: $$tier"; \
		case $$tier in ui) display= ;; *) display=--no-xvfb ;; esac; \
		QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest --no-header -m $$tier $$display || status=1; \
	done; \
	exit $$status

check: install-dev ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

samples: install-dev ## write the sample documents again (identical bytes)
	@$(BIN)/python -m scripts.make_samples

clean: ## remove what was built here (not the models, documents or caches of the user)
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

install-demo:
	@$(PYTHON) scripts/install.py --extras llama

install-app:
	@$(PYTHON) scripts/install.py --extras llama,gui

install-dev:
	@$(PYTHON) scripts/install.py --extras llama,gui,dev
