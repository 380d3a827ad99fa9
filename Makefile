# SPDX-License-Identifier: Apache-2.0
# A thin front: the work is done by CMake (CMakePresets.json) and the scripts in scripts/.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
TEST ?=
CMAKE_ARGS ?=

# SETUP=true leaves out the check for prerequisites.
SETUP ?= scripts/setup

.DEFAULT_GOAL := build
.PHONY: build reader test fuzzers demo bench bench-smoke bench-gpu asan tsan fuzz format lint package clean help

build:  ## install what is missing, configure, build all into build/ (ships: build/dist)
	@$(SETUP)
	@$(MAKE) --no-print-directory build/build.ninja
	@cmake --build build -j $(JOBS)

build/build.ninja: CMakePresets.json
	@cmake --preset release $(CMAKE_ARGS)
	@touch $@

reader:  ## build probe-report and probe-run alone: needs no CUPTI headers
	@$(SETUP) --no-cupti
	@cmake --preset reader $(CMAKE_ARGS)
	@cmake --build build/reader -j $(JOBS)

test: build fuzzers  ## build all and run every test; TEST=regex runs those whose names match
	@scripts/run-tests build $(if $(TEST),-R '$(TEST)')

# What the short fuzz runs of make test need; without clang they are skipped.
fuzzers: build
	@if scripts/setup --check fuzz 2> /dev/null; then \
	  $(MAKE) --no-print-directory build/fuzz/build.ninja && \
	  cmake --build build/fuzz --target fuzzers -j $(JOBS); \
	else rm -rf build/fuzz/fuzzers; fi

build/fuzz/build.ninja: CMakePresets.json
	@cmake --preset fuzz $(CMAKE_ARGS)
	@touch $@

demo: build  ## record a training loop with a planted bottleneck and report on it (simulated where there is no GPU)
	@scripts/demo

bench: build  ## run the benchmarks (minutes)
	@scripts/bench

bench-smoke: build  ## run each benchmark for about a second: do they work
	@scripts/bench --smoke

bench-gpu: build  ## everything that is measured on a GPU, 25 minutes; results in build/bench-gpu-results
	@python3 bench/gpu/all.py

asan:  ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SETUP)
	@cmake --preset asan $(CMAKE_ARGS)
	@cmake --build build/asan -j $(JOBS)
	@scripts/run-tests build/asan -LE 'e2e|gpu' $(if $(TEST),-R '$(TEST)')

tsan:  ## the tests under ThreadSanitizer
	@$(SETUP)
	@cmake --preset tsan $(CMAKE_ARGS)
	@cmake --build build/tsan -j $(JOBS)
	@scripts/run-tests build/tsan -LE 'e2e|gpu' $(if $(TEST),-R '$(TEST)')

fuzz:  ## run every fuzzer for FUZZ_SECONDS (60); findings stay below build/fuzz
	@$(SETUP) build fuzz
	@$(MAKE) --no-print-directory build/build.ninja build/fuzz/build.ninja
	@cmake --build build -j $(JOBS) --target fuzz_seeds
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@scripts/fuzz build/fuzz $(FUZZ_SECONDS)

format:  ## clang-format all sources in place
	@$(SETUP) lint
	@git ls-files '*.cc' '*.h' '*.c' | xargs -r clang-format -i

lint:  ## formatting of all files, clang-tidy over what differs from main (LINT=all: everything)
	@$(SETUP) build lint
	@$(MAKE) --no-print-directory build/build.ninja
	@scripts/lint $(LINT)

package: build  ## build/gpuprobe-VERSION-linux-x86_64.tar.zst, the same bytes from the same sources
	@scripts/package

clean:  ## remove build/
	@rm -rf build

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'
