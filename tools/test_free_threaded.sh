#!/usr/bin/env bash
# Owns the tests on a Python without a GIL, where one is at hand (`make pythons` builds one).
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(tools/pythons.sh --list | grep 't$' || command -v python3.14t || command -v python3.13t || true)
if [[ ! $program ]]; then
    echo "free-threaded: NOT RUN, no such Python here: make pythons"
    exit 0
fi
echo "free-threaded: $("$program" -VV)"
export PYTHON=$program
PYTHONPATH=$(tools/build_ext.sh) "$program" -X faulthandler -W error pytests/threads/test_free_threaded.py
LOOPS=ours tools/test_env.sh python -X faulthandler -m pytest pytests/loop
