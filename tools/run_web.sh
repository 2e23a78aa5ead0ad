#!/usr/bin/env bash
# Builds the application and serves examples/example_site.py from inside a VM, at a loopback address, until it is stopped.
# PYTHON chooses the interpreter, PORT the port; 0 has the kernel choose.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
venv=$(tools/vm_env.sh "$python")
export PYTHON="$python" ERLANG_PYTHON="$venv/bin/python" REBAR_BASE_DIR="$PWD/build/erl" ERL_CRASH_DUMP=/dev/null
rebar3 compile
exec erl -pa build/erl/default/lib/erlang_python/ebin -noshell -eval "
    {ok, _} = application:ensure_all_started(erlang_python),
    {ok, _} = py:call(sys, 'path.append', [<<\"$PWD/examples\">>]),
    case py_asgi:serve(#{app => <<\"example_site:app\">>, port => ${PORT:-8000}}) of
        {ok, Server} ->
            #{host := Host, port := Port, loops := Loops} = py_asgi:info(Server),
            io:format(\"serving at http://~ts:~b/ on ~b loops; Ctrl-C ends it~n\", [Host, Port, Loops]);
        {error, Reason} ->
            io:format(\"not served: ~tp~n\", [Reason]),
            halt(1)
    end."
