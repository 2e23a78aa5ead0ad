#!/usr/bin/env bash
# Runs the Common Test suites in test/, or those named, and says how many cases passed and failed:
#   tools/test_erlang.sh [SUITE...]
# PYTHON chooses the interpreter, for the build and in the VM.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
export PYTHON="$python" ERLANG_PYTHON="$python" REBAR_BASE_DIR="$PWD/build/erl" ERL_CRASH_DUMP=/dev/null
suites=$(for suite in "$@"; do printf ',%s' "$suite"; done)
said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
rebar3 ct --readable=compact ${suites:+--suite="${suites#,}"} 2>&1 | tee "$said" || status=$?
# "All 21 tests passed." or "Failed 2 tests. Passed 19 tests."
passed=$(sed -n 's/.*All \([0-9]*\) tests* passed.*/\1/p; s/.*Passed \([0-9]*\) tests*.*/\1/p' "$said" | tail -1)
skipped=$(sed -n 's/.*Skipped \([0-9]*\) .*/\1/p' "$said" | tail -1)
failed=$(sed -n 's/.*Failed \([0-9]*\) tests*.*/\1/p' "$said" | tail -1)
# A case that was skipped, for the beginning of its suite failed, has not passed.
echo "${passed:-0} passed, $((${failed:-0} + ${skipped:-0})) failed"
[ "$status" -eq 0 ] && [ "${passed:-0}" -gt 0 ]
