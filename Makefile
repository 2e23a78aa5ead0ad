# One door to everything: `make` lists it. The real work is in cargo and in the small scripts of tools/.

PYTHON ?= python3
CARGO  ?= cargo
TOPICS ?=
SUITE  ?=
QUICK  ?=
MINUTES ?= 3
CHAOS_SEED ?=
REDUCED ?=
export PYTHON CARGO

# Compiled Python goes with the other build products, so `clean` is two directories.
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

# What is built for one Python lives in one directory (build/py3.11), so switching PYTHON costs nothing. Asked for
# late and once: on a fresh machine `setup` may have to install the interpreter first.
PY_BUILD = $(eval PY_BUILD := $(firstword $(shell $(PYTHON) tools/interpreter.py)))$(PY_BUILD)
PY_PROGRAM = $(eval PY_PROGRAM := $(shell $(PYTHON) tools/interpreter.py | sed -n 3p))$(PY_PROGRAM)
VENV = $(PY_BUILD)/venv/bin

PY_SOURCES = $(wildcard tools python pytests bench fuzz)

# The crates that know Python are built for one Python at a time, below its own directory.
PY_CRATES = pyrt pyloop web pyext
# Those that know the BEAM too find libpython when they are loaded.
NIF_CRATES = loader nif fuzz
FOR_PYTHON = PYO3_PYTHON=$(PY_PROGRAM) CARGO_TARGET_DIR=$(abspath $(PY_BUILD))/target $(CARGO)
PY_PACKAGES = $(addprefix -p ,$(PY_CRATES))
NIF_PACKAGES = $(addprefix -p ,$(NIF_CRATES))
WITHOUT_PYTHON = --workspace $(addprefix --exclude ,$(PY_CRATES) $(NIF_CRATES))
FOR_NIF = PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON=$(PY_PROGRAM) \
	CARGO_TARGET_DIR=$(abspath $(PY_BUILD))/ext $(CARGO)
# Erlang for the same Python; what rebar3 builds lies with the rest.
FOR_ERLANG = PYTHON=$(abspath $(VENV)/python) REBAR_BASE_DIR=$(CURDIR)/build/erl

# Two lanes, for two cores, about as long as each other. What builds the application or runs it is in one of them; what is quick to fail
# stands first.
LANE_IN_VM = test-erlang test-fuzz test-release test-vm conformance-vm test-matrix-reduced test-free-threaded test-loom test-tools test-tsan
LANE_OUTSIDE = test-rust test-python test-web test-loop test-programs test-install conformance conformance-suites
TESTS = $(LANE_IN_VM) $(LANE_OUTSIDE)

# The steps stand in their order; cargo and pytest use the cores by themselves.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup ext pythons otp run run-web run-cowboy run-evloop run-dag test $(TESTS) test-matrix cycles fuzz test-valgrind report-uvloop soak chaos lint \
	lint-layers lint-rust lint-python lint-erlang fmt bench doctor clean

help: ## this list
	@echo 'make <target> [PYTHON=python3.x] [CARGO=cargo]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## install what is missing: Debian packages (as root), the Python tools (into build/)
	@tools/setup.sh

ext: setup ## the native module for PYTHON; prints the PYTHONPATH that finds it
	@tools/build_ext.sh

pythons: ## CPython 3.14 with and without the GIL, from Debian's source, once, into ~/.cache
	@tools/pythons.sh

otp: ## OTP 27 and 29, from later Debians' packages, once, into ~/.cache
	@tools/otp.sh

run: setup ## the tour: Python in the Erlang VM, shown live; then, on a terminal, a shell
	@PYTHON=$(abspath $(VENV)/python) tools/tour.sh

run-web: setup ## a site with FastAPI, served from inside the VM at a loopback address (PORT=8000)
	@PYTHON=$(abspath $(VENV)/python) tools/run_web.sh

run-cowboy: setup ## the same site behind Cowboy (PORT=8000)
	@PYTHON=$(abspath $(VENV)/python) tools/run_cowboy.sh

run-evloop: setup ## the tour of the event loop, from Rust
	$(CARGO) run --release -p evloop --example tour

run-dag: setup ## a feed made of data in a real Redis: the graph beside threads that block, and a picture of a run
	$(CARGO) run --release -p dag --example feed

# What both lanes need is made before they part.
test: setup ## all the tests
	@tools/test_env.sh true
	@tools/lanes.sh '$(LANE_OUTSIDE)' '$(LANE_IN_VM)'

test-rust: setup ## the tests of the crates that do not know Python
	$(CARGO) test $(WITHOUT_PYTHON)

test-python: setup ## the tests of the crates that do, in Rust and in PYTHON
	$(FOR_PYTHON) test $(PY_PACKAGES)
	tools/probe_ext.sh $(VENV)/python

test-loop: setup ## the loop's tests, on stdlib's loop and on ours
	LOOPS=$${LOOPS:-stdlib,ours} tools/test_env.sh python -m pytest pytests/loop

test-web: setup ## the web server: HTTP/1.1, WebSocket and ASGI, rule by rule
	tools/test_env.sh python -m pytest pytests/web

test-erlang: setup ## the Common Test suites (SUITE=py_SUITE for one)
	$(FOR_ERLANG) tools/test_erlang.sh $(SUITE)

test-matrix: setup ## the same on every Python and OTP here (REDUCED=1: what depends on versions most)
	tools/test_matrix.sh $(if $(REDUCED),--reduced)

test-matrix-reduced: setup ## the suites that depend on versions most, on every other Python and OTP here
	tools/test_matrix.sh --reduced

cycles: setup ## a thousand sub-interpreters, and a thousand loops with one each, made and ended: minutes (PYTHON: 3.14 or later)
	SUBINTERP_CYCLES=1000 $(FOR_ERLANG) tools/test_erlang.sh py_subinterp_SUITE

fuzz: setup ## libFuzzer on the conversion of terms and objects, in a VM (MINUTES=3); what it finds fails
	PYTHON=$(abspath $(VENV)/python) tools/fuzz.sh run $(MINUTES)

test-fuzz: setup ## the inputs it has found so far, once more
	PYTHON=$(abspath $(VENV)/python) tools/fuzz.sh replay

test-release: setup ## a release, unpacked elsewhere and run by another user with another environment
	$(FOR_ERLANG) tools/test_release.sh

test-vm: setup ## programs in the Erlang VM: the tour, the manual, and numpy
	tools/test_env.sh python -m pytest pytests/erlang

test-programs: setup ## real programs, the guides' examples and a soak, on our loop
	tools/test_env.sh python -m pytest pytests/programs pytests/seeds pytests/docs pytests/soak

# File by file: the `close()` of uvloop can wait for ever, where no signal gets through.
report-uvloop: setup ## the same on uvloop: a report, which fails nothing
	@for file in pytests/loop/test_*.py; do LOOPS=uvloop LOOP_TEST_LIMIT=10 timeout 60 tools/test_env.sh python -m pytest -q -rxX -k uvloop $$file; \
	    case $$? in 0 | 5) ;; *) echo "$$file: not to its end" ;; esac; done

test-install: setup ## pip install into a fresh environment, and a web server on it
	tools/test_install.sh

test-free-threaded: setup ## the loop on a Python without a GIL, where one is at hand
	tools/test_free_threaded.sh

conformance: setup ## CPython's own asyncio tests on stdlib's loop and on ours, on every Python here
	tools/conformance.sh

conformance-vm: setup ## the same on PYTHON, with our loop inside the Erlang VM
	tools/test_env.sh sh -c 'PYTHON=$$(command -v python) REBAR_BASE_DIR=$(CURDIR)/build/erl rebar3 compile'
	tools/test_env.sh python pytests/conformance/cpython.py --vm $(CURDIR)/build/erl/default/lib/erlang_python/ebin

conformance-suites: setup ## the suites of anyio, aiohttp and uvicorn, likewise
	tools/test_env.sh python pytests/conformance/suites.py

soak: setup ## a hundred thousand connections of every kind on our loop, every byte checked: minutes
	tools/test_env.sh python pytests/soak/soak.py --connections 100000

chaos: setup ## contexts, callers, callbacks, web loops and clients killed at random under load, all answers checked (MINUTES=3, CHAOS_SEED=)
	CHAOS_SECONDS=$$(( 60 * $(MINUTES) )) CHAOS_SEED=$(CHAOS_SEED) $(FOR_ERLANG) tools/test_erlang.sh py_chaos_SUITE py_web_chaos_SUITE

# Bounded to three preemptions: without a bound the models of the lifecycle alone take minutes.
test-loom: setup ## the hand-shakes, under every interleaving loom can find
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 \
		$(CARGO) test -p evloop -p dag --profile loom --test 'loom_*' --target-dir target/loom

test-tools: setup ## the tests of tools/, bench/ and this Makefile
	$(VENV)/python -m pytest $(wildcard pytests/tools pytests/bench)

test-tsan: setup ## the tests of evloop, waiters and dag under ThreadSanitizer, where this machine can
	tools/tsan.sh

test-valgrind: setup ## the native paths under valgrind's memcheck: most of an hour
	@tools/debian.sh tools/debian-packages.txt valgrind
	tools/test_env.sh python tools/valgrind.py

lint: lint-layers lint-rust lint-python lint-erlang ## everything that needs no test run: layers, style, types, documentation

lint-layers: setup
	$(VENV)/python tools/layers.py

lint-rust: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(WITHOUT_PYTHON) --all-targets -- -D warnings
	$(FOR_PYTHON) clippy $(PY_PACKAGES) --all-targets -- -D warnings
	$(FOR_NIF) clippy $(NIF_PACKAGES) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(WITHOUT_PYTHON) --no-deps
	RUSTDOCFLAGS="-D warnings" $(FOR_PYTHON) doc $(PY_PACKAGES) --no-deps
	RUSTDOCFLAGS="-D warnings" $(FOR_NIF) doc $(NIF_PACKAGES) --no-deps

lint-python: setup
	$(VENV)/ruff check $(PY_SOURCES)
	$(VENV)/ruff format --check $(PY_SOURCES)
	$(VENV)/mypy $(PY_SOURCES)
	for part in conformance docs erlang loop programs seeds soak web; do \
	    MYPYPATH=pytests/$$part:pytests/seeds $(VENV)/mypy pytests/$$part/*.py || exit 1; done

lint-erlang: setup
	$(FOR_ERLANG) rebar3 do compile, xref, dialyzer

fmt: setup ## format the Rust and the Python
	$(CARGO) fmt --all
	$(VENV)/ruff check --fix $(PY_SOURCES)
	$(VENV)/ruff format $(PY_SOURCES)

bench: setup ## the benchmarks, peers in the same run (SUITE=pyloop, TOPICS="timers ...", QUICK=1 for less)
	$(VENV)/python bench/run.py $(if $(SUITE),--suite $(SUITE)) $(if $(QUICK),--quick) $(TOPICS)

doctor: ## what this machine has, what it lacks, and how to get it
	@command -v $(PYTHON) >/dev/null || { echo 'missing   python         PYTHON=$(PYTHON) is not there'; exit 1; }
	@$(PYTHON) tools/doctor.py

clean: ## remove every build product
	rm -rf build target
