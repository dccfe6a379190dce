# One command each. The build itself is CMake's: see CMakePresets.json.
JOBS ?= $(shell nproc)
bin := build/release/bin/kith

.PHONY: help setup build demo test bench format clean

help:
	@echo "make demo    train a small GPT with four workers, decentralised and by all-reduce"
	@echo "make test    build, then run every test"
	@echo "make build   $(bin) and build/release/bench/NAME"
	@echo "make bench   run every benchmark (BENCH_FLAGS=--quick for under a minute each)"
	@echo "make format  clang-format over the tree"
	@echo "make clean   remove build/"

setup:
	@scripts/setup

build: setup
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS)

demo: build
	$(bin) train --demo

test: build
	@ctest --preset release --parallel $(JOBS)

bench: build
	@set -e; for program in build/release/bench/*; do echo "== $$program"; \
	  if [ "$$program" = build/release/bench/cluster ] && [ "$$(id -u)" != 0 ]; then echo "left out: needs root"; continue; fi; \
	  "$$program" $(BENCH_FLAGS); done

format: setup
	@scripts/format

clean:
	rm -rf build
