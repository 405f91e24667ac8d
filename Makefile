# headscope - builds the program. `make help` lists the targets; tests, checks and packages have files of their own.
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
# The font of figures, linked in (Debian: fonts-dejavu-core).
FIGURE_FONT ?= /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
# Loaded when they are used (server/hub/hub_transfer.c, engine/linear/linear.c): only their headers are needed here.
HEADERS  := libcurl openblas

CPPFLAGS += -I. -I$(BUILD) -D_GNU_SOURCE
# Between the checks of a sanitizer gcc no longer sees that a variable is always set, as its manual says.
SAN      := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized)
# Arithmetic is compiled to the letter. Only the kernels let a * b + c become one fused step; clang would do so
# everywhere.
# No path of this machine in the program: built elsewhere it is the same to the byte.
ALL_CFLAGS = -std=c17 -pthread -ffp-contract=off -ffile-prefix-map=$(CURDIR)=. $(WARN) $(WERROR) $(CFLAGS) $(SAN) $(CPPFLAGS) $(PKG_CFLAGS)
# Headers of libraries are the system's: no warnings from them.
PKG_CFLAGS = $(eval PKG_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PACKAGES) $(HEADERS) 2>/dev/null)))$(PKG_CFLAGS)
LIBS       = $(shell pkg-config --libs $(PACKAGES)) -lm -ldl -pthread

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

PACKAGE_SETS := $(addprefix packages-,build test lint coverage mutants deb wheel wheel-aarch64)
.PHONY: $(PACKAGE_SETS)
$(PACKAGE_SETS): packages-%:
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
# A clone that is no release names its commit.
COMMIT := $(if $(wildcard .git),$(shell git describe --exact-match HEAD >/dev/null 2>&1 || git rev-parse --short=12 HEAD 2>/dev/null))
$(BUILD)/server/base/version.o: $(BUILD)/commit
$(BUILD)/server/base/version.o: CPPFLAGS += -DHEADSCOPE_COMMIT='"$(COMMIT)"'
$(BUILD)/commit: $(if $(filter-out $(file <$(BUILD)/commit),x$(COMMIT)),always)
	@mkdir -p $(@D)
	@echo 'x$(COMMIT)' >$@
.PHONY: always
always:
$(BUILD)/api/figures/figure_files.o: $(FIGURE_FONT) api/figures/palettes.json
$(BUILD)/api/figures/figure_files.o: CPPFLAGS += -DFIGURE_FONT='"$(FIGURE_FONT)"'

# The viewer: npm ci, then Vite into build/viewer, then one C file that holds every file of it.
static/node_modules/.package-lock.json: static/package.json static/package-lock.json
	cd static && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
# A release holds index.html and viewer_files.c with the times of its sources, so it builds without npm.
build/viewer/index.html: $(VIEWER_SOURCES) examples/paragraphs.txt api/openapi.json api/figures/palettes.json
	@$(MAKE) --no-print-directory static/node_modules/.package-lock.json
	cd static && npm run --silent build
	@touch $@
build/viewer_files.c: build/viewer/index.html static/embed.mjs
	node static/embed.mjs build/viewer $@
$(BUILD)/viewer_files.o: build/viewer_files.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -c $< -o $@

include tests/tests.mk tests/checks.mk deploy/packages.mk

## make clean           remove build/ and dist/
clean:
	rm -rf build dist

## make help            this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

-include $(OBJECTS:.o=.d) $(wildcard $(BUILD)/tests/*/*.d $(BUILD)/tests/*/*/*.d)
