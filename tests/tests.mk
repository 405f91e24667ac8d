# tests.mk - tests: unit, fuzz corpora, API, viewer, browser, slow proofs. The Makefile includes it.

## make check           all tests, nothing installed: unit, fuzz corpora, api, notebook, browser
.PHONY: check unit fuzz-smoke api-test browser-test viewer-test
check: unit fuzz-smoke api-test viewer-test browser-test

# What the tests in C are linked into.
.PHONY: test-programs
test-programs: $(UNIT_TESTS) $(FUZZ_TARGETS:%=$(BUILD)/fuzz/%)

## make unit            C unit tests (Check)
# Programs of another architecture run under RUNNER. What failed stands at the end, where a reader of a log looks first.
RUNNER ?=
unit: $(UNIT_TESTS)
	@failed=$$(mktemp); printf '%s\n' $^ | xargs -P $(JOBS) -I{} sh -c 'out=$$($(RUNNER) {} 2>&1); code=$$?; \
	    printf "== {}\n%s\n" "$$out"; [ $$code = 0 ] || printf "== {}, exit code %s\n%s\n" "$$code" "$$out" >>'$$failed; \
	if [ -s $$failed ]; then printf '\nThese failed:\n'; cat $$failed; rm $$failed; exit 1; fi; rm $$failed

$(BUILD)/tests/unit/%.o: CPPFLAGS += $(shell pkg-config --cflags check 2>/dev/null)
# tests/unit/chaos.c stands before everything that hands out memory, tests/unit/faults.c before calls that may fail.
WRAPPED := malloc calloc realloc aligned_alloc posix_memalign free strdup strndup mmap munmap
FAILING := open close read write fsync ftruncate lseek lseek64 rename symlink fchmod flock mkdir getrandom stat lstat fstat \
    fopen opendir fdopendir
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(UNIT_HELPERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(SAN) $(WRAPPED:%=-Wl,--wrap=%) $(FAILING:%=-Wl,--wrap=%) -o $@ $^ $(LIBS) $$(pkg-config --libs check)

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

## make test-slow       tests that take minutes: kill at every call, all backends, notebooks, quick benchmarks, a soak
.PHONY: test-slow
SOAK_MINUTES ?= 1
test-slow: packages-build packages-test
	@$(MAKE) --no-print-directory -j$(JOBS) all $(PASSES)
	$(PYTEST) -m slow || $(AGAIN)
	cd static && HEADSCOPE=$(abspath $(BINARY)) npm run --silent test:browser-slow
	$(MAKE) --no-print-directory QUICK=1 bench bench-peers
	$(PYTHON) tests/soak/soak.py $(BINARY) --minutes $(SOAK_MINUTES)

## make notebooks       executes the notebooks of examples/ and writes their outputs in place (why-this-class needs PyTorch)
.PHONY: notebooks
notebooks: $(BINARY)
	$(PYTHON) tests/api/notebooks.py $(BINARY)

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

## make api-test        the running server over HTTP, the command line, the notebook (pytest); API_SHARD=1/2: half of the tests
# Two more than cores, since tests also wait. More than four would only take memory.
TEST_PROCESSES ?= $(shell n=$$(nproc); echo $$((n < 2 ? n + 2 : 4)))
PYTEST = HEADSCOPE=$(abspath $(BINARY)) $(PYTHON) -m pytest -q -o cache_dir=$(abspath $(BUILD))/pytest -n $(TEST_PROCESSES) tests/api
# With CI set, tests that failed run a second time, alone. One that fails twice fails the target; the log shows both times.
AGAIN = { [ $$? = 1 ] && [ "$$CI" ] && echo '== the failed tests once more, alone' && $(PYTEST) -n 0 --last-failed; }
api-test: $(BINARY) $(PASSES)
	$(PYTEST) -m 'not slow' || $(AGAIN)

## make viewer-test     unit tests of the viewer's modules (node)
viewer-test: static/node_modules/.package-lock.json
	cd static && npm run --silent test

## make browser-test    the viewer in Chromium against the running server (Playwright); BROWSER_SHARD=1/2: half of the tests
BROWSER_SHARD ?=
browser-test: $(BINARY) static/node_modules/.package-lock.json
	cd static && HEADSCOPE=$(abspath $(BINARY)) npm run --silent test:browser -- $(BROWSER_SHARD:%=--shard=%)

## make freeze SEED=1   api and browser tests while their processes stand still now and then
SEED ?= 1
.PHONY: freeze
freeze: packages-test $(BINARY)
	$(PYTHON) tests/faults/freeze.py --seed $(SEED) headscope,python3 $(MAKE) --no-print-directory api-test
	$(PYTHON) tests/faults/freeze.py --seed $(SEED) headscope,chromium $(MAKE) --no-print-directory browser-test

## make deploy-test     deploy/ for real: systemd, image, package, Slurm, Open MPI; skips what this machine lacks
.PHONY: deploy-test
deploy-test: $(BINARY)
	@set -e; for t in mpi slurm systemd proxy reproducible image; do echo "== $$t"; HEADSCOPE=$(abspath $(BINARY)) tests/deploy/$$t.sh; done
