#!/usr/bin/env bash
# Owns the environment the tests of the event loop run in: builds the module, installs what the tests need, and runs the
# command it is given with both: PYTHON=python3.12 tools/test_env.sh python -m pytest pytests/loop
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHON=${PYTHON:-python3}
{ read -r build; read -r prefix; read -r program; read -r version; } < <("$PYTHON" tools/interpreter.py)
venv=$build/test
made_of="$PWD $prefix $version $(sha256sum <tools/requirements-test.txt)"
if [[ ! -f $venv/made-of || $(<"$venv/made-of") != "$made_of" ]]; then
    echo "test_env: what the tests need, into $venv" >&2
    rm -rf "$venv"
    "$program" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --requirement tools/requirements-test.txt
    echo "$made_of" >"$venv/made-of"
fi
PYTHONPATH=$(tools/build_ext.sh)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH PATH="$PWD/$venv/bin:$PATH"
exec "$@"
