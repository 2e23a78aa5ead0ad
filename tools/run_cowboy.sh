#!/usr/bin/env bash
# Builds the application and serves examples/example_site.py behind Cowboy, at a loopback address, until it is stopped.
# PYTHON chooses the interpreter, PORT the port; 0 has the kernel choose.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
venv=$(tools/vm_env.sh "$python")
mapfile -t cowboy < <(tools/cowboy.sh)
export PYTHON="$python" ERLANG_PYTHON="$venv/bin/python" REBAR_BASE_DIR="$PWD/build/erl" ERL_CRASH_DUMP=/dev/null
rebar3 compile
mkdir -p build/cowboy
paths=()
for path in "${cowboy[@]}"; do paths+=(-pa "$path"); done
erlc "${paths[@]}" -W -Werror -o build/cowboy examples/cowboy_asgi.erl examples/cowboy_site.erl
exec erl -pa build/erl/default/lib/erlang_python/ebin -pa build/cowboy "${paths[@]}" -noshell -eval "cowboy_site:main(${PORT:-8000})."
