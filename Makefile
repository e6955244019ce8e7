# `make` alone lists what there is. Set-up is part of every target that needs it, and costs a third of a second when done.
.DEFAULT_GOAL := help
.PHONY: help prepare demo demo-down demo-k8s demo-k8s-down check test test-long lint format lock bench docs

PREPARE := python3 -m tools.prepare
STACK := local

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

prepare: ## Set this machine up: programs, Python packages, Pulumi engine, node image, torch
	@$(PREPARE) --image --training --kubernetes

demo: ## Stamp the stack "local" into a cluster on this machine and show it
	@$(PREPARE) --image
	@. tools/env.sh && tools/demo up

demo-down: ## Take that cluster down again, with all that belongs to it
	@$(PREPARE)
	@. tools/env.sh && tools/demo down

demo-k8s: ## Stamp the stack "local-k8s" into a Kubernetes on this machine and show its queues
	@$(PREPARE) --kubernetes
	@. tools/env.sh && tools/demo-k8s up

demo-k8s-down: ## Take that one down again, with all that belongs to it
	@$(PREPARE)
	@. tools/env.sh && tools/demo-k8s down

check: ## Run the static checks and the tests of the pure rooms, in minutes, while you work
	@$(PREPARE) --python
	@. tools/env.sh && tools/lint && python -m tools.suites --check --hypothesis-profile=ci $(ARGS)

# The profile "ci" of hypothesis draws the same examples each time; test-long and a pytest of your own draw others.
test: ## Run the tests that find what an ordinary change breaks
	@$(PREPARE) --image --training --kubernetes
	@. tools/env.sh && python -m tools.suites --hypothesis-profile=ci -m 'not long and not gpu and not cloud' $(ARGS)

test-long: ## Run the long campaigns; AREA=name one of them, AREA=affected those that a change since BASE can reach
	@$(PREPARE) --image --training --kubernetes --long
	@. tools/env.sh && python -m tools.areas --area '$(AREA)' --base '$(BASE)' $(ARGS)

lint: ## Run every static check, all of them even when one fails
	@$(PREPARE) --python
	@. tools/env.sh && tools/lint

format: ## Format the Python code and fix what can be fixed without thought
	@$(PREPARE) --python
	@. tools/env.sh && ruff check --fix --quiet; ruff format

lock: ## Write the locks of Python packages anew
	@$(PREPARE) --python
	@. tools/env.sh && tools/lock

bench: ## Measure; one row with ONLY=name
	@$(PREPARE) --image --training --kubernetes
	@. tools/env.sh && python -m bench $(ONLY)

docs: ## Build the documentation as a site in build/site, and check every link of it
	@$(PREPARE) --python --site
	@NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs build --strict --quiet
	@echo "read it with: python3 -m http.server --directory build/site"
