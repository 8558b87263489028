# make run    install, build the bundled engine, answer the bundled requests without and with pruning
# make test   install, then linters, types, layering and all tests
# make browser  the playground in headless Chromium (apt-get install chromium, or CHROMIUM=/path)
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
CHECKPOINT := examples/checkpoints/tiny-dense
ENGINE := engines/tiny-dense
CHROMIUM ?= /usr/bin/chromium
LIMITS := --max-input-len 1024 --max-kv-len 1280 --max-batch 4 --max-image-tokens 256
ANSWER := $(BIN)/llm_inference --engineDir $(ENGINE)/llm --multimodalEngineDir $(ENGINE)/visual \
    --inputFile examples/requests/scenes.json --warmup 1
# The packages as one import root, for tools that read source instead of importing it.
SOURCES := .venv/source/edgevlm
PACKAGES := accuracy benchmarks builder cli core jetson models plugins pruners runtime

.PHONY: run test lint format browser clean

run: $(ENGINE)/llm/manifest.json
	@mkdir -p output
	@$(ANSWER) --outputFile output/full.json
	@$(ANSWER) --outputFile output/pruned.json --visualPrune --dartReductionRatio 0.5
	@$(BIN)/python examples/compare_outputs.py output/full.json output/pruned.json

test: lint
	@$(BIN)/pytest -n 2

lint: .venv/installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@mkdir -p $(SOURCES) && ln -sfn $(addprefix $(CURDIR)/,$(PACKAGES)) $(SOURCES)
	@cd .venv/source && ../bin/mypy --config-file ../../pyproject.toml -p edgevlm
	@PYTHONPATH=.venv/source $(BIN)/lint-imports

format: .venv/installed-dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

$(ENGINE)/llm/manifest.json: .venv/installed $(CHECKPOINT)/model.safetensors $(wildcard builder/*.py models/*.py)
	@$(BIN)/edgevlm build --checkpoint $(CHECKPOINT) --output $(ENGINE) --target onnxruntime $(LIMITS)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "edgevlm needs Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing edgevlm into .venv (once)"
	@$(PIP) -e .
	@touch $@

.venv/installed-dev: .venv/installed
	@$(PIP) -e '.[dev]'
	@touch $@

browser: .venv/installed-dev $(ENGINE)/llm/manifest.json
	@$(BIN)/pip install --quiet --disable-pip-version-check playwright==1.65.2
	@$(BIN)/python tests/browser/playground.py --engine $(ENGINE) --chromium $(CHROMIUM)

clean:
	rm -rf .venv engines output
