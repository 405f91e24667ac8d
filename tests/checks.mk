# checks.mk - sanitizers, load, benchmarks, formatting, lint, layers, wording. The Makefile includes it.

.PHONY: sanitize sanitize-build sanitize-thread sanitize-thread-build
# Compiled with the flags of the program: at -O1 a corpus run takes 1.7 times as long.
## make sanitize        unit, fuzz corpora and api tests under ASan and UBSan
sanitize sanitize-build: FLAVOUR := SANITIZER=address,undefined
## make sanitize-thread the same under TSan
sanitize-thread sanitize-thread-build: FLAVOUR := SANITIZER=thread
sanitize-build sanitize-thread-build: %-build:
	@$(MAKE) --no-print-directory $(FLAVOUR) -j$(JOBS) all test-programs
sanitize: sanitize-build
sanitize-thread: sanitize-thread-build
sanitize sanitize-thread:
	@$(MAKE) --no-print-directory $(FLAVOUR) unit fuzz-smoke api-test

## make coverage        lines and branches that unit, fuzz corpora and API tests reach, into docs/explanation/reliability.md
# Processes that a test kills write no counts. Lines are kept as written: -O0.
COVERAGE := BUILD=build/coverage BINARY=build/coverage/headscope CC='gcc --coverage -fprofile-update=atomic \
    -include tests/coverage/counted_exit.h' CFLAGS='-O0 -g'
.PHONY: coverage
coverage: packages-test packages-coverage
	@$(MAKE) --no-print-directory $(COVERAGE) -j$(JOBS) all test-programs
	find build/coverage -name '*.gcda' -delete
	-@$(MAKE) --no-print-directory $(COVERAGE) -k unit fuzz-smoke api-test
	gcovr --root . --object-directory build/coverage $(FOLDERS:%=--filter '%/') --exclude-throw-branches -j $(JOBS) \
	    --json-summary build/coverage/summary.json --json build/coverage/lines.json --html-details build/coverage/lines.html --print-summary
	$(PYTHON) tests/coverage/table.py build/coverage/summary.json build/coverage/lines.json docs/explanation/reliability.md

## make viewer-coverage lines of the viewer that its tests in node and Chromium reach, into docs/explanation/reliability.md
# The build with maps has the same scripts as the program's viewer, so also the lines that no test loads.
COUNTS := $(CURDIR)/build/viewer-counts
.PHONY: viewer-coverage
viewer-coverage: $(BINARY) static/node_modules/.package-lock.json
	rm -rf $(COUNTS) && mkdir -p $(COUNTS)
	cd static && npx vite build --logLevel warn --sourcemap hidden --outDir ../build/viewer-maps --emptyOutDir
	-NODE_V8_COVERAGE=$(COUNTS) $(MAKE) --no-print-directory viewer-test
	-VIEWER_COUNTS=$(COUNTS) $(MAKE) --no-print-directory browser-test
	node tests/coverage/viewer.mjs $(COUNTS) build/viewer-maps docs/explanation/reliability.md

## make mutants FOLDER="api model" SAMPLE=30   changes the code of folders in one place after the other; lists what no test notices
FOLDER ?= engine/statistics
SAMPLE ?= 30
.PHONY: mutants
mutants: packages-test packages-mutants $(BINARY) test-programs
	$(PYTHON) tests/mutants/mutants.py $(FOLDER) --sample $(SAMPLE)

## make soak MINUTES=60 the service at twice what it can take, among stalled, vanishing and slow clients
MINUTES ?= 60
.PHONY: soak overload
soak: packages-test $(BINARY)
	$(PYTHON) tests/soak/soak.py $(BINARY) --minutes $(MINUTES) --json build/soak.json --plot build/soak.svg
## make overload        how long /health takes under ten times the load it can answer
overload: packages-test $(BINARY) build/bench/load
	$(PYTHON) tests/bench/overload.py $(BINARY) build/bench/load

## make bench           speed beside what the machine could do, into docs/explanation/performance.md; QUICK=1: a few minutes, printed
QUICK ?=
# Quick figures and those of a busy machine are printed from a folder of their own, and change no document.
PRINTED := $(QUICK)$(BUSY)
FIGURES := build$(if $(PRINTED),/quick)
build/bench/load: tests/bench/load.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) -std=c17 $(WARN) $(WERROR) -O2 -D_GNU_SOURCE -o $@ $<
build/bench/shared_passes: $(BUILD)/tests/bench/shared_passes.o $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -o $@ $^ $(LIBS)
$(PASSES): $(PASSES_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(SAN) -o $@ $^ $(LIBS)
bench: packages-test $(BINARY) $(PASSES) build/bench/load
	@mkdir -p $(FIGURES)
	env -u OPENBLAS_CORETYPE $(PYTHON) tests/bench/run.py $(BINARY) $(PASSES) build/bench/load --json $(FIGURES)/bench.json \
	    $(if $(QUICK),--quick)
	$(PYTHON) tests/bench/report.py $(FIGURES) $(if $(PRINTED),,docs/explanation/performance.md)

## make bench-peers     beside ONNX Runtime (npm), OpenVINO and PyTorch (PyPI), in one run; printed with BUSY=1: in CPU time of one core, QUICK=1: one round
BUSY ?=
PEERS := tests/bench/peers
$(PEERS)/node_modules/.package-lock.json: $(PEERS)/package.json $(PEERS)/package-lock.json
	cd $(PEERS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
# PyPI's torch brings gigabytes for GPUs; PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu has a small one.
# One round takes the programs of PyPI only if an earlier run installed them.
build/peers/installed: $(PEERS)/requirements.txt
	$(PYTHON) -m venv build/peers && build/peers/bin/pip install --quiet -r $< && touch $@
build/bench/engine_peer: $(BUILD)/$(PEERS)/engine_peer.o $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -o $@ $^ $(LIBS)
bench-peers: packages-test $(BINARY) build/bench/engine_peer
	@$(MAKE) --no-print-directory $(PEERS)/node_modules/.package-lock.json || \
	    echo 'bench-peers: ONNX Runtime cannot be installed from npm here, so it is left out'
	@$(if $(QUICK),true,$(MAKE) --no-print-directory build/peers/installed) || \
	    echo 'bench-peers: OpenVINO and PyTorch cannot be installed from PyPI here, so they are left out'
	@mkdir -p $(FIGURES)
	env -u OPENBLAS_CORETYPE $(PYTHON) $(PEERS)/peers.py build/bench/engine_peer $(BINARY) --json $(FIGURES)/bench-peers.json \
	    $$([ ! -e build/peers/installed ] || echo --python $(CURDIR)/build/peers/bin/python) $(if $(BUSY),--cpu-time) $(if $(QUICK),--quick)
	$(PYTHON) tests/bench/report.py $(FIGURES) $(if $(PRINTED),,docs/explanation/performance.md)

## make format          clang-format over all C; format-check only looks
C_FILES = $(shell find $(FOLDERS) tests -name '*.[ch]' -not -path '*/node_modules/*')
.PHONY: format format-check lint viewer-lint python-lint layers prose bench bench-peers clean help
format:
	clang-format -i $(C_FILES)
format-check: packages-lint
	clang-format --dry-run --Werror $(C_FILES)

## make lint            compiler warnings as errors, clang-tidy, cppcheck; the viewer: TypeScript, ESLint, Prettier; Python: ruff
# A tree of its own, so that no object compiled without -Werror is taken for a checked one. CI gives its own.
LINT_BUILD ?= build/lint
lint: packages-build packages-lint viewer-lint python-lint
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(LINT_BUILD) WERROR=-Werror objects
	WARN='$(WARN)' deploy/lint.sh $(SOURCES:%.S=)
# TypeScript needs the types that the build makes of openapi.json.
viewer-lint: build/viewer/index.html
	cd static && npm run --silent lint
# Debian has no ruff: it comes from PyPI, and is left out where that cannot be reached.
RUFF := build/ruff/bin/ruff
$(RUFF):
	$(PYTHON) -m venv build/ruff && build/ruff/bin/pip install --quiet ruff==0.17.6
python-lint: packages-lint
	@if $(MAKE) --no-print-directory $(RUFF); then $(RUFF) check --quiet .; \
	else echo 'python-lint: ruff cannot be installed here, so Python is not checked'; fi

# Every object of the program and of the tests in C.
.PHONY: objects
objects: $(OBJECTS) $(UNIT_TESTS:$(BUILD)/tests/%=$(BUILD)/tests/unit/%.o) $(UNIT_HELPERS) \
    $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/fuzz_%.o) $(PASSES_OBJECTS)

## make layers          modules: direction of includes and calls, circles, libraries, names, lengths
# Calls are read from objects and nothing is built for it: after `make` all of them are looked at.
layers:
	$(Q)$(PYTHON) tests/layers.py --strict --objects $(BUILD)

## make prose           spelling and wording of documents and comments; spelling where codespell is installed
prose:
	$(Q)$(PYTHON) tests/prose/check.py

## make site            the documents as a site with search in build/site, with MkDocs Material from PyPI
MKDOCS := build/site-tools/bin/mkdocs
$(MKDOCS):
	rm -rf build/site-tools && $(PYTHON) -m venv build/site-tools && build/site-tools/bin/pip install --quiet mkdocs-material==9.8.2
.PHONY: site
site:
	@if $(MAKE) --no-print-directory $(MKDOCS); then \
	    $(PYTHON) deploy/site.py build/site-pages && NO_MKDOCS_2_WARNING=1 $(MKDOCS) build --strict -f deploy/mkdocs.yml && \
	    echo 'site: $(PYTHON) -m http.server -d build/site shows it'; \
	else echo 'site: MkDocs Material cannot be installed here, so there is no site'; fi
