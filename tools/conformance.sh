#!/usr/bin/env bash
# Owns asyncio's own tests on every Python of the machine: the chosen one first, then one of each other minor version
# that brings the tests along. A version is skipped only where it is absent; a run that fails fails the whole.
#
#   conformance.sh [arguments for pytests/conformance/cpython.py]
#
# OTHERS=no keeps to the chosen one.
set -euo pipefail
cd "$(dirname "$0")/.."

chosen=()
for program in $(tools/pythons.sh --here); do
    if "$program" -c 'import test.test_asyncio' 2>/dev/null; then
        chosen+=("$program")
    else
        echo "conformance: $program comes without asyncio's tests"
        ((${#chosen[@]})) || { echo "conformance: the chosen Python has no tests to run" >&2; exit 1; }
    fi
    [[ ${OTHERS-yes} != no ]] || break
done

passed=0 failed=0
for program in "${chosen[@]}"; do
    echo "conformance: $program"
    path=$(PYTHON=$program tools/build_ext.sh)
    report=$(mktemp)
    PYTHONPATH=$path "$program" pytests/conformance/cpython.py "$@" | tee "$report" || true
    # The last line is the count; without one the run itself broke.
    if [[ $(tail -1 "$report") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
    rm -f "$report"
done
echo "conformance: ${#chosen[@]} Pythons"
echo "$passed passed, $failed failed"
((failed == 0))
