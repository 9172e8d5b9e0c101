# Every target sets up what it needs first; see scripts/setup.
BIN   := .venv/bin
CODE  := $(wildcard src tests bench chaos scripts examples)
SUITE ?= core

# What a suite needs beyond the project itself.
SETUP_engine    := peers
SETUP_task_runs := peers
SETUP_trust     := tests
SETUP_service   := load

.PHONY: help setup serve test fuzz check format bench simulate chaos mutants coverage coverage-of-mission docs hooks package clean

help: ## Show this list
	@echo "Headway. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create .venv and install what is missing
	@scripts/setup

serve: ## Run Headway with a small lifecycle, on SQLite
	@scripts/setup serve
	$(BIN)/headway demo

test: ## Run all tests
	@scripts/setup tests
	PYTHONHASHSEED=0 $(BIN)/pytest -n 2 # a fixed order of sets: the same verdict every time

check: ## Check format, lint, types, layers and the examples in the docs
	@scripts/setup tests
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest tests/docs

format: setup ## Format the code and apply the safe fixes
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: ## Measure and compare (SUITE=core, engine, trust, service or task_runs)
	@scripts/setup $(SETUP_$(SUITE))
	$(BIN)/python -m bench $(SUITE)

fuzz: ## Search at random for what breaks, with a new seed each round (MINUTES=10, SEED=n for one round)
	@scripts/setup tests
	$(BIN)/python scripts/fuzz.py --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

simulate: setup ## Live through thousands of worlds full of faults (SEEDS=5000, FROM=0)
	$(BIN)/python -m headway.testing.simulate --seeds $(or $(SEEDS),5000) --from $(or $(FROM),0) --jobs $$(nproc)

chaos: ## Kill processes and databases under load, then audit (MINUTES=5, SEED=1, STORE=sqlite|postgres|all)
	@scripts/setup tests
	$(BIN)/python -m chaos --minutes $(or $(MINUTES),5) --store $(or $(STORE),all) $(if $(SEED),--seed $(SEED))

mutants: ## Change the code at random and see whether tests notice (COUNT=40, SEED=1, MINUTES=60, MOST=4)
	@scripts/setup tests
	$(BIN)/python -m scripts.mutants --count $(or $(COUNT),40) --seed $(or $(SEED),1) \
		--minutes $(or $(MINUTES),60) $(if $(MOST),--most $(MOST))

coverage: ## Run the tests and print line coverage (TESTS=tests/statechart for a part)
	@scripts/setup tests
	$(BIN)/coverage erase
	PYTHONHASHSEED=0 $(BIN)/coverage run -m pytest -n 2 $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

docs: setup ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html, or run: $(BIN)/python -m http.server --directory site"

hooks: setup ## Install the git hooks of .pre-commit-config.yaml
	$(BIN)/pre-commit install

package: setup ## Build the sdist and the wheel into dist/, and check what is in them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m scripts.check_package dist

coverage-of-mission: setup ## List each row of the contract with its tests, and the rows without
	$(BIN)/python scripts/coverage_of_mission.py

clean: ## Remove the environment, caches and build results
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .mutants .coverage .coverage.* dist site
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
