#!/bin/sh
# Builds the application and gives the tour of examples/tour.erl; then, on a terminal, an Erlang shell with Python in it.
# PYTHON chooses the interpreter, for the build and in the VM.
set -eu
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
export PYTHON="$python" ERLANG_PYTHON="$python" REBAR_BASE_DIR="$PWD/build/erl" ERL_CRASH_DUMP=/dev/null
rebar3 compile
mkdir -p build/tour
erlc -o build/tour examples/tour.erl
set -- erl -pa build/erl/default/lib/erlang_python/ebin -pa build/tour
"$@" -noshell -s tour main </dev/null
if [ -t 0 ] && [ -t 1 ]; then
    printf '\nAn Erlang shell with Python in it: try py:call(math, sqrt, [2]). It ends with q().\n'
    exec "$@" -eval '{ok, _} = application:ensure_all_started(erlang_python)'
fi
