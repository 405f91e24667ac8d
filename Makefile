# headscope - `make help` lists the targets.
#
# One tree of objects per flavour (build/plain, build/address,undefined, build/thread), so flavours never mix.

CC        ?= gcc
PYTHON    ?= /usr/bin/python3
SANITIZER ?=
BUILD     := build/$(or $(SANITIZER),plain)
BINARY    := $(if $(SANITIZER),$(BUILD)/headscope,build/headscope)

# -O3 for the vectoriser; no -march: kernels choose their instructions at run time, the binary runs anywhere.
# -fno-math-errno and -fno-trapping-math let gcc vectorise without changing any finite result.
CFLAGS   ?= -O3 -g -fno-math-errno -fno-trapping-math
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wvla
WERROR   ?= -Werror
PACKAGES := libmicrohttpd jansson openblas libuv sqlite3 zlib libzstd nettle
# Loaded when it is used (server/commands/lazy_curl.h), so only its headers are needed here.
HEADERS  := libcurl
# oneDNN is optional and brings no pkg-config file in Debian.
ONEDNN   := $(shell echo '#include <dnnl.h>' | $(CC) -E - >/dev/null 2>&1 && echo yes)

CPPFLAGS += -I. -I$(BUILD) -D_GNU_SOURCE $(if $(ONEDNN),-DHS_WITH_ONEDNN)
SAN      := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# No path of this machine in the program: built elsewhere it is the same to the byte.
ALL_CFLAGS = -std=c17 -pthread -ffile-prefix-map=$(CURDIR)=. $(WARN) $(WERROR) $(CFLAGS) $(SAN) $(CPPFLAGS) $(PKG_CFLAGS)
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) $(HEADERS) 2>/dev/null))$(PKG_CFLAGS)
LIBS       = $(shell pkg-config --libs $(PACKAGES)) $(if $(ONEDNN),-ldnnl -lgomp) -lm -pthread

# Compilers at once where a target builds everything; test suites run one after another.
JOBS ?= $(shell nproc)

# Short lines; `make V=1` shows the commands.
Q   := $(if $(V),,@)
say := @$(if $(V),:,printf '  %-4s %s\n')

FOLDERS := model engine api server
SOURCES := $(sort $(shell find $(FOLDERS) -name '*.[cS]'))
OBJECTS := $(patsubst %,$(BUILD)/%.o,$(basename $(SOURCES)))
# Everything but main, for the tests to link.
LIBRARY := $(BUILD)/libheadscope.a
VIEWER_SOURCES := $(shell find static -type f -not -path '*/node_modules/*' 2>/dev/null)

UNIT_SOURCES := $(wildcard tests/unit/test_*.c)
UNIT_TESTS   := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/tests/%)
UNIT_HELPERS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%.o,$(filter-out $(UNIT_SOURCES),$(wildcard tests/unit/*.c)))
# Through the socket of a running service, without a fuzzer: tests/fuzz/service.py.
FUZZ_SERVICE := http json
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

.DEFAULT_GOAL := all
.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:

## make run             install what is missing, build, serve on http://127.0.0.1:8080
.PHONY: run
run: packages-build
	@$(MAKE) --no-print-directory -j$(JOBS) all
	$(BINARY) serve --state "$${XDG_STATE_HOME:-$$HOME/.local/state}/headscope"

## make test            install what is missing, build, run all tests
.PHONY: test
test: packages-build packages-test
	@$(MAKE) --no-print-directory -j$(JOBS) all test-programs
	@$(MAKE) --no-print-directory check

.PHONY: packages-build packages-test packages-lint
packages-build packages-test packages-lint: packages-%:
	@deploy/packages.sh $*

## make                 build/headscope, viewer and embedded model linked in
.PHONY: all
all: $(BINARY)

# With what the thread sanitizer need not tell.
$(BINARY): $(BUILD)/server/commands/main.o $(if $(findstring thread,$(SANITIZER)),$(BUILD)/tests/unit/thread_sanitizer.o) $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(SAN) -o $@ $^ $(LIBS)

$(LIBRARY): $(filter-out $(BUILD)/server/commands/main.o,$(OBJECTS)) $(BUILD)/viewer_files.o
	@rm -f $@
	@$(AR) rcs $@ $^

# Kernels say a * b + c and mean one fused step where the CPU has it; everything else is compiled to the letter.
$(BUILD)/engine/kernels/kernels_%.o $(BUILD)/engine/pass/measure.o: ALL_CFLAGS += -ffp-contract=fast
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%.o: %.S
	@mkdir -p $(@D)
	$(say) AS $<
	$(Q)$(CC) $(CPPFLAGS) -MMD -MP -c $< -o $@

# .incbin files are invisible to -MMD.
$(BUILD)/model/mini/embedded.o: $(wildcard model/mini/*)
$(BUILD)/api/openapi.o: api/openapi.json

# The viewer: npm ci, then Vite into build/viewer, then one C file that holds every file of it.
static/node_modules/.package-lock.json: static/package.json static/package-lock.json
	cd static && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
build/viewer/index.html: static/node_modules/.package-lock.json $(VIEWER_SOURCES) api/openapi.json
	cd static && npm run --silent build
	@touch $@
build/viewer_files.c: build/viewer/index.html static/embed.mjs
	node static/embed.mjs build/viewer $@
$(BUILD)/viewer_files.o: build/viewer_files.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -c $< -o $@

## make check           all tests, nothing installed: unit, fuzz corpora, api, notebook, browser
.PHONY: check unit fuzz-smoke api-test browser-test viewer-test
check: unit fuzz-smoke api-test viewer-test browser-test

# What the tests in C are linked into.
.PHONY: test-programs
test-programs: $(UNIT_TESTS) $(FUZZ_TARGETS:%=$(BUILD)/fuzz/%)

## make unit            C unit tests (Check)
unit: $(UNIT_TESTS)
	@printf '%s\n' $^ | xargs -P $(JOBS) -I{} sh -c 'out=$$({} 2>&1); code=$$?; printf "== {}\n%s\n" "$$out"; exit $$code'

$(BUILD)/tests/unit/%.o: CPPFLAGS += $(shell pkg-config --cflags check 2>/dev/null)
# tests/unit/chaos.c stands before everything that hands out memory.
WRAPPED := malloc calloc realloc aligned_alloc posix_memalign free strdup strndup mmap munmap
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(UNIT_HELPERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(SAN) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(LIBS) $$(pkg-config --libs check)

## make fuzz-smoke      every fuzz target over its corpus (no fuzzer needed)
fuzz-smoke: $(FUZZ_TARGETS:%=$(BUILD)/fuzz/%) $(BINARY)
	@set -e; for t in $(FUZZ_TARGETS); do $(BUILD)/fuzz/$$t tests/fuzz/corpus/$$t; done
	@set -e; for t in $(FUZZ_SERVICE); do $(PYTHON) tests/fuzz/service.py $(BINARY) $$t --requests 300; done

# A small model in place of the embedded one.
$(BUILD)/fuzz/analyze $(BUILD)/fuzzer/analyze: $(BUILD)/tests/unit/checkpoint.o
$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(SAN) -o $@ $^ $(LIBS)

## make fuzz TARGET=config SECONDS=60   one target with clang's libFuzzer, from its corpus on; http, json: the service
TARGET  ?= $(firstword $(FUZZ_TARGETS))
SECONDS ?= 60
FUZZER  := fuzzer-no-link,address,undefined
.PHONY: fuzz fuzz-service fuzz-target
fuzz: $(if $(filter $(TARGET),$(FUZZ_SERVICE)),fuzz-service,fuzz-target)
fuzz-service: $(BINARY)
	$(PYTHON) tests/fuzz/service.py $(BINARY) $(TARGET) --seconds $(SECONDS) --seed $$(date +%s)
fuzz-target: packages-lint
	$(MAKE) --no-print-directory CC=clang SANITIZER=$(FUZZER) CFLAGS='-O1 -g' WERROR= build/$(FUZZER)/fuzzer/$(TARGET)
	@mkdir -p build/fuzz-found/$(TARGET)
	build/$(FUZZER)/fuzzer/$(TARGET) -max_total_time=$(SECONDS) -timeout=10 -print_final_stats=1 \
	    $(patsubst %,-dict=%,$(wildcard tests/fuzz/$(TARGET).dict)) \
	    -artifact_prefix=build/fuzz-found/$(TARGET)- build/fuzz-found/$(TARGET) tests/fuzz/corpus/$(TARGET)

$(BUILD)/fuzzer/%: $(BUILD)/tests/fuzz/fuzz_%.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(subst fuzzer-no-link,fuzzer,$(SAN)) -o $@ $^ $(LIBS)

## make api-test        the running server over HTTP, the command line, the notebook (pytest)
# On two cores at least: most tests wait. More than four would only take memory.
TEST_PROCESSES ?= $(shell n=$$(nproc); echo $$((n < 2 ? 2 : n > 4 ? 4 : n)))
api-test: $(BINARY)
	HEADSCOPE=$(abspath $(BINARY)) $(PYTHON) -m pytest -q -p no:cacheprovider -n $(TEST_PROCESSES) tests/api

## make viewer-test     unit tests of the viewer's modules (node)
viewer-test: static/node_modules/.package-lock.json
	cd static && npm run --silent test

## make browser-test    the viewer in Chromium against the running server (Playwright)
browser-test: $(BINARY) static/node_modules/.package-lock.json
	cd static && HEADSCOPE=$(abspath $(BINARY)) npm run --silent test:browser

## make freeze SEED=1   api and browser tests while their processes stand still now and then
SEED ?= 1
.PHONY: freeze
freeze: packages-test $(BINARY)
	$(PYTHON) tests/faults/freeze.py --seed $(SEED) headscope,python3 $(MAKE) --no-print-directory api-test
	$(PYTHON) tests/faults/freeze.py --seed $(SEED) headscope,chromium $(MAKE) --no-print-directory browser-test

## make deploy-test     deploy/ for real: systemd, image, package, Slurm, Open MPI; skips what this machine lacks
.PHONY: deploy-test
deploy-test: $(BINARY)
	@set -e; for t in mpi slurm systemd reproducible image; do echo "== $$t"; HEADSCOPE=$(abspath $(BINARY)) tests/deploy/$$t.sh; done

.PHONY: sanitize sanitize-thread
## make sanitize        unit, fuzz corpora and api tests under ASan and UBSan
sanitize: FLAVOUR := SANITIZER=address,undefined
## make sanitize-thread the same under TSan
sanitize-thread: FLAVOUR := SANITIZER=thread
sanitize sanitize-thread:
	@$(MAKE) --no-print-directory $(FLAVOUR) CFLAGS='-O1 -g' -j$(JOBS) all test-programs
	@$(MAKE) --no-print-directory $(FLAVOUR) CFLAGS='-O1 -g' unit fuzz-smoke api-test

## make soak MINUTES=60 the service at twice what it can take, among stalled, vanishing and slow clients
MINUTES ?= 60
.PHONY: soak overload
soak: packages-test $(BINARY)
	$(PYTHON) tests/soak/soak.py $(BINARY) --minutes $(MINUTES) --json build/soak.json --plot build/soak.svg
## make overload        how long /health takes while ten times too much is asked
overload: packages-test $(BINARY) build/bench/load
	$(PYTHON) tests/bench/overload.py $(BINARY) build/bench/load

## make bench           speed beside what the machine could do, into docs/performance.md; QUICK=1: a few minutes, printed
QUICK ?=
build/bench/load: tests/bench/load.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) -std=c17 $(WARN) $(WERROR) -O2 -D_GNU_SOURCE -o $@ $<
build/bench/shared_passes: $(BUILD)/tests/bench/shared_passes.o $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -o $@ $^ $(LIBS)
bench: packages-test $(BINARY) build/bench/load
	env -u OPENBLAS_CORETYPE $(PYTHON) tests/bench/run.py $(BINARY) build/bench/load --json build/bench$(if $(QUICK),-quick).json \
	    $(if $(QUICK),--quick)
	$(if $(QUICK),,$(PYTHON) tests/bench/report.py build docs/performance.md)

## make bench-peers     beside ONNX Runtime (npm) and, where installed, PyTorch, in one run
PEERS := tests/bench/peers
$(PEERS)/node_modules/.package-lock.json: $(PEERS)/package.json $(PEERS)/package-lock.json
	cd $(PEERS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
build/bench/engine_peer: $(BUILD)/$(PEERS)/engine_peer.o $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -o $@ $^ $(LIBS)
bench-peers: packages-test $(BINARY) build/bench/engine_peer $(PEERS)/node_modules/.package-lock.json
	env -u OPENBLAS_CORETYPE $(PYTHON) $(PEERS)/peers.py build/bench/engine_peer $(BINARY) --json build/bench-peers.json
	$(PYTHON) tests/bench/report.py build docs/performance.md

## make format          clang-format over all C; format-check only looks
C_FILES = $(shell git ls-files '*.c' '*.h')
.PHONY: format format-check lint layers bench bench-peers clean help
format:
	clang-format -i $(C_FILES)
format-check: packages-lint
	clang-format --dry-run --Werror $(C_FILES)

## make lint            gcc warnings as errors, clang-tidy, cppcheck
lint: packages-lint all
	deploy/lint.sh $(SOURCES:%.S=)

## make layers          rooms: direction of includes and calls, circles, libraries, names, lengths
# Calls are read from objects and nothing is built for it: after `make` all of them are looked at.
layers:
	$(Q)$(PYTHON) tests/layers.py --strict --objects $(BUILD)

## make install         program, manual page, shell completion below PREFIX (/usr/local); DESTDIR before it
PREFIX ?= /usr/local
.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/headscope
	$(BINARY) help --man > $(DESTDIR)$(PREFIX)/share/man/man1/headscope.1
	$(BINARY) help --completion > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/headscope

.PHONY: dist deb
## make dist            dist/: sources, program, Debian package, what it is made of (CycloneDX), checksums
VERSION = $(shell sed -n 's/.*HS_VERSION "\(.*\)"/\1/p' server/base/version.h)
dist: all deb
	git archive --prefix=headscope-$(VERSION)/ HEAD | gzip -9n > dist/headscope-$(VERSION).tar.gz
	install -m 755 $(BINARY) dist/headscope
	$(PYTHON) deploy/sbom.py $(BINARY) > dist/headscope-$(VERSION).cdx.json
	cd dist && rm -f SHA256SUMS && sha256sum * > SHA256SUMS
## make deb             a Debian package of it in dist/
deb: all
	deploy/debian-package.sh dist

## make clean           remove build/ and dist/
clean:
	rm -rf build dist

## make help            this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

-include $(OBJECTS:.o=.d) $(wildcard $(BUILD)/tests/*/*.d $(BUILD)/tests/*/*/*.d)
