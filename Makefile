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
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wvla -Wframe-larger-than=131072
# Warnings are errors in `make lint` and in CI. Developers set WERROR=-Werror in their environment; a user's
# build must not fail because a newer compiler has a new warning.
WERROR   ?=
PACKAGES := libmicrohttpd jansson libuv sqlite3 zlib libzstd nettle
# libharu has no .pc file in Debian.
PDF_LIBS := -lhpdf
# The font of figures, linked in (Debian: fonts-dejavu-core).
FIGURE_FONT ?= /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
# Loaded when they are used (server/hub/hub_transfer.c, engine/linear/linear_cblas.c): only their headers are needed here.
HEADERS  := libcurl openblas

CPPFLAGS += -I. -I$(BUILD) -D_GNU_SOURCE
SAN      := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# Arithmetic is compiled to the letter. Only the kernels let a * b + c become one fused step; clang would do so
# everywhere.
# No path of this machine in the program: built elsewhere it is the same to the byte.
ALL_CFLAGS = -std=c17 -pthread -ffp-contract=off -ffile-prefix-map=$(CURDIR)=. $(WARN) $(WERROR) $(CFLAGS) $(SAN) $(CPPFLAGS) $(PKG_CFLAGS)
# Headers of libraries are the system's: no warnings from them.
PKG_CFLAGS = $(eval PKG_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PACKAGES) $(HEADERS) 2>/dev/null)))$(PKG_CFLAGS)
LIBS       = $(shell pkg-config --libs $(PACKAGES)) $(PDF_LIBS) -lm -ldl -pthread

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

# Names of unit tests that `make unit` leaves out.
UNIT_LEFT_OUT ?=
UNIT_SOURCES := $(filter-out $(UNIT_LEFT_OUT:%=tests/unit/%.c),$(wildcard tests/unit/test_*.c))
UNIT_TESTS   := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/tests/%)
UNIT_HELPERS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))
# The benchmark of passes, beside the program: each flavour has its own.
PASSES         := $(dir $(BINARY))bench/passes
PASSES_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/passes*.c) tests/bench/measure.c)
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

.PHONY: packages-build packages-test packages-lint packages-wheel
packages-build packages-test packages-lint packages-wheel: packages-%:
	@deploy/packages.sh $*

## make                 build/headscope, viewer and embedded model linked in
.PHONY: all
all: $(BINARY)

$(BINARY): $(BUILD)/server/commands/main.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(SAN) -o $@ $^ $(LIBS)

$(LIBRARY): $(filter-out $(BUILD)/server/commands/main.o,$(OBJECTS)) $(BUILD)/viewer_files.o
	@rm -f $@
	@$(AR) rcs $@ $^

# Kernels say a * b + c and mean one fused step where the CPU has it.
$(BUILD)/engine/kernels/kernels_%.o $(BUILD)/tests/bench/measure.o: ALL_CFLAGS += -ffp-contract=fast
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
$(BUILD)/api/figures/font_file.o: $(FIGURE_FONT)
$(BUILD)/api/figures/font_file.o: CPPFLAGS += -DFIGURE_FONT='"$(FIGURE_FONT)"'

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
# Programs of another architecture run under RUNNER.
RUNNER ?=
unit: $(UNIT_TESTS)
	@printf '%s\n' $^ | xargs -P $(JOBS) -I{} sh -c 'out=$$($(RUNNER) {} 2>&1); code=$$?; printf "== {}\n%s\n" "$$out"; exit $$code'

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

## make test-slow       tests that take minutes: kill at every call, all backends, notebooks, a soak
.PHONY: test-slow
SOAK_MINUTES ?= 2
test-slow: packages-build packages-test
	@$(MAKE) --no-print-directory -j$(JOBS) all $(PASSES)
	$(PYTEST) -m slow || $(AGAIN)
	cd static && HEADSCOPE=$(abspath $(BINARY)) npm run --silent test:browser-slow
	$(PYTHON) tests/soak/soak.py $(BINARY) --minutes $(SOAK_MINUTES)

## make test-arm64      cross-built, under qemu-user: unit tests, API tests that compare with the references
# The tests in Python run on this machine; what they start is a script that starts the program under qemu.
ARM64       := build/arm64
ARM64_TESTS := tests/api/test_reference.py::test_every_figure[distilbert-default] \
    tests/api/test_reference.py::test_every_figure[distilbert-cblas] tests/api/test_reference.py::test_short_texts_and_pairs \
    tests/api/test_families.py::test_short_texts_and_pairs tests/api/test_byte_pairs.py tests/api/test_formats.py \
    tests/api/test_reference_corpus.py::test_an_experiment_is_the_references[cka]
.PHONY: test-arm64 arm64
test-arm64: packages-build
	@if [ "$$(uname -m)" = aarch64 ]; then echo 'test-arm64: this is an arm64 machine: make test runs all tests'; \
	elif deploy/packages.sh arm64; then $(MAKE) --no-print-directory arm64; \
	else echo 'test-arm64: the packages for arm64 cannot be installed here, so nothing of it is tested'; fi
arm64: export PKG_CONFIG_LIBDIR := /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
arm64: export CK_TIMEOUT_MULTIPLIER := 20
arm64:
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(ARM64) BINARY=$(ARM64)/program RUNNER=qemu-aarch64 \
	    UNIT_LEFT_OUT='test_api_number test_api_threads' CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar $(ARM64)/program unit
	@printf '#!/bin/sh\nexec qemu-aarch64 %s/program "$$@"\n' '$(abspath $(ARM64))' > $(ARM64)/headscope
	@chmod +x $(ARM64)/headscope
	HEADSCOPE=$(abspath $(ARM64))/headscope $(PYTHON) -m pytest -q -p no:cacheprovider -n $(TEST_PROCESSES) $(ARM64_TESTS)

## make api-test        the running server over HTTP, the command line, the notebook (pytest)
# One more than cores, since tests also wait. More than four would only take memory.
TEST_PROCESSES ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4)))
PYTEST = HEADSCOPE=$(abspath $(BINARY)) $(PYTHON) -m pytest -q -o cache_dir=$(abspath $(BUILD))/pytest -n $(TEST_PROCESSES) tests/api
# With CI set, tests that failed run a second time, alone. One that fails twice fails the target; the log shows both times.
AGAIN = { [ $$? = 1 ] && [ "$$CI" ] && echo '== the failed tests once more, alone' && $(PYTEST) -n 0 --last-failed; }
api-test: $(BINARY) $(PASSES)
	$(PYTEST) -m 'not slow' || $(AGAIN)

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

.PHONY: sanitize sanitize-build sanitize-thread sanitize-thread-build
## make sanitize        unit, fuzz corpora and api tests under ASan and UBSan
sanitize sanitize-build: FLAVOUR := SANITIZER=address,undefined
## make sanitize-thread the same under TSan
sanitize-thread sanitize-thread-build: FLAVOUR := SANITIZER=thread
sanitize-build sanitize-thread-build: %-build:
	@$(MAKE) --no-print-directory $(FLAVOUR) CFLAGS='-O1 -g' -j$(JOBS) all test-programs
sanitize: sanitize-build
sanitize-thread: sanitize-thread-build
sanitize sanitize-thread:
	@$(MAKE) --no-print-directory $(FLAVOUR) CFLAGS='-O1 -g' unit fuzz-smoke api-test

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
	env -u OPENBLAS_CORETYPE $(PYTHON) tests/bench/run.py $(BINARY) $(PASSES) build/bench/load --json build/bench$(if $(QUICK),-quick).json \
	    $(if $(QUICK),--quick)
	$(if $(QUICK),,$(PYTHON) tests/bench/report.py build docs/explanation/performance.md)

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
	$(PYTHON) tests/bench/report.py build docs/explanation/performance.md

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
## make dist            dist/: sources, programs with their libraries, wheels, Debian package, CycloneDX, checksums
MACHINES ?= x86_64 aarch64
VERSION = $(shell sed -n 's/.*HS_VERSION "\(.*\)"/\1/p' server/base/version.h)
DIST_TAR = tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$$(deploy/source-date.sh)
dist: all deb wheel $(MACHINES:%=tarball-%)
	$(if $(wildcard .git),git archive --prefix=headscope-$(VERSION)/ HEAD, \
	    $(DIST_TAR) --exclude=./build --exclude=./dist --exclude=node_modules --exclude=__pycache__ \
	    --transform 's,^\.,headscope-$(VERSION),S' -c .) | gzip -9n > dist/headscope-$(VERSION).tar.gz
	$(PYTHON) deploy/sbom.py $(BINARY) > dist/headscope-$(VERSION).cdx.json
	cd dist && rm -f SHA256SUMS SHA256SUMS.sig && sha256sum * > SHA256SUMS
## make sign            signs dist/SHA256SUMS with the SSH key KEY=FILE, as SECURITY.md describes
.PHONY: sign
sign:
	ssh-keygen -q -Y sign -f $(KEY) -n headscope dist/SHA256SUMS
## make deb             a Debian package of it in dist/
deb: all
	deploy/debian-package.sh dist

## make wheel           dist/: Python packages that hold the program, for x86-64 and arm64; MACHINES=x86_64: for that only
.PHONY: wheel wheel-test $(MACHINES:%=portable-%) $(MACHINES:%=wheel-%) $(MACHINES:%=tarball-%)
wheel: $(MACHINES:%=wheel-%)
$(MACHINES:%=wheel-%): wheel-%: portable-%
	deploy/python-package.sh $*
$(MACHINES:%=tarball-%): tarball-%: portable-%
	@mkdir -p dist
	$(DIST_TAR) --transform 's,^\.,headscope-$(VERSION)-linux-$*,S' -C build/portable/$* -c . | \
	    gzip -9n > dist/headscope-$(VERSION)-linux-$*.tar.gz
$(MACHINES:%=portable-%): portable-%: build/viewer_files.c | packages-wheel
	deploy/portable.sh $*
## make wheel-test      the wheels, and the program unpacked, on bare Debian 11, 12, 13 and sid (needs root)
wheel-test: wheel $(MACHINES:%=tarball-%)
	tests/platforms/wheel.sh

## make clean           remove build/ and dist/
clean:
	rm -rf build dist

## make help            this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

-include $(OBJECTS:.o=.d) $(wildcard $(BUILD)/tests/*/*.d $(BUILD)/tests/*/*/*.d)
