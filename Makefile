# One command each. The build itself is CMake's: see CMakePresets.json.
JOBS ?= $(shell nproc)
bin := build/release/bin/kith
demo_preset := $(if $(wildcard $(bin)),release,demo)

.PHONY: help setup build demo test bench format clean

help:
	@echo "make demo    build the command alone and train a small GPT on four hosts, decentralised and by all-reduce"
	@echo "make test    build, then run every test"
	@echo "make build   $(bin) and build/release/bench/NAME"
	@echo "make bench   run every benchmark (BENCH_FLAGS=--quick for under a minute each)"
	@echo "make format  clang-format over the tree"
	@echo "make clean   remove build/"

setup:
	@scripts/setup

build: setup
	@cmake --preset release --log-level=WARNING $(CMAKE_FLAGS)
	@cmake --build --preset release --parallel $(JOBS)

# Where nothing is built yet the command alone is, in few large pieces: half the work.
demo: setup
	@cmake --preset $(demo_preset) --log-level=WARNING
	@cmake --build --preset $(demo_preset) --parallel $(JOBS) --target kith_cli
	@build/$(demo_preset)/bin/kith demo $(DEMO_FLAGS)

test: build
	@scripts/run-tests release --parallel $(JOBS)

bench: build
	@set -e; for program in build/release/bench/*; do echo "== $$program"; \
	  if [ "$$program" = build/release/bench/cluster ] && [ "$$(id -u)" != 0 ]; then echo "left out: needs root"; continue; fi; \
	  "$$program" $(BENCH_FLAGS); done

format: setup
	@scripts/format

clean:
	rm -rf build
