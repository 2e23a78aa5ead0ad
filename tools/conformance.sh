#!/usr/bin/env bash
# Owns asyncio's own tests on every Python of the machine: the chosen one first, then one of each other minor version
# that brings the tests along. A version is skipped only where it is absent; a run that fails fails the whole.
#
#   conformance.sh [arguments for pytests/conformance/cpython.py]
#
# OTHERS=no keeps to the chosen one.
set -euo pipefail
cd "$(dirname "$0")/.."

# One per build directory, and so per minor version and ABI; the chosen one wins.
declare -A taken=()
chosen=()
consider() {
    local program=$1 build
    build=$("$program" tools/interpreter.py 2>/dev/null | sed -n 1p) || true
    [[ $build && -z ${taken[$build]-} ]] || return 0
    taken[$build]=$program
    if ! "$program" -c 'import test.test_asyncio' 2>/dev/null; then
        echo "conformance: $program comes without asyncio's tests"
        return 0
    fi
    chosen+=("$program")
}
consider "$(command -v "${PYTHON:-python3}")"
((${#chosen[@]})) || { echo "conformance: the chosen Python has no tests to run" >&2; exit 1; }
if [[ ${OTHERS-yes} != no ]]; then
    shopt -s nullglob
    for program in $(tools/pythons.sh --list) /usr/bin/python3.[0-9][0-9] /usr/local/bin/python3.[0-9][0-9] \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.[0-9][0-9]*/bin/python3; do
        consider "$program"
    done
fi

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
