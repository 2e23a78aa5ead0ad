#!/usr/bin/env bash
# Runs the Common Test suites in test/, or those named, and says how many cases passed and failed:
#   tools/test_erlang.sh [SUITE...]
# PYTHON chooses the interpreter, for the build and in the VM; OTP=27 takes that one of tools/otp.sh instead of the system's.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
venv=$(tools/vm_env.sh "$python")
if [[ ${OTP-} ]]; then
    otp=$(tools/otp.sh --list | grep "/$OTP/bin\$") || { echo "OTP $OTP is not here: make otp" >&2; exit 1; }
    export PATH="$otp:$PATH"
    # There is one OpenSSL in a process, and this Erlang needs a newer one than the system's Python: the first who loads it decides.
    export ERL_AFLAGS="-s crypto ${ERL_AFLAGS-}"
fi
export PYTHON="$python" ERLANG_PYTHON="$venv/bin/python" REBAR_BASE_DIR="$PWD/build/erl${OTP-}" ERL_CRASH_DUMP=/dev/null
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
