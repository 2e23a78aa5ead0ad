#!/usr/bin/env bash
# Runs the Common Test suites on every Python (tools/pythons.sh --here) and every OTP (the system's, tools/otp.sh --list) there is, a
# line for each pair; the logs are in build/matrix.
#
#   test_matrix.sh              all suites, all pairs
#   test_matrix.sh --reduced    what depends on versions most: each other Python with the system's OTP, each other OTP with the chosen
#                               Python. The chosen Python on the system's OTP is `make test-erlang`. The NIFs are built without
#                               optimisation, from one directory, so that what does not know Python is built once.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=() reduced=no
if [[ ${1-} == --reduced ]]; then
    reduced=yes
    suites=(py_SUITE py_callback_SUITE py_convert_SUITE py_subinterp_SUITE py_subinterp_loop_SUITE)
fi
mkdir -p build/matrix
mapfile -t pythons < <(tools/pythons.sh --here)
otps=('' $(tools/otp.sh --list | sed 's|.*/\([0-9]*\)/bin$|\1|'))

passed=0 failed=0
for otp in "${otps[@]}"; do
    for python in "${pythons[@]}"; do
        if [[ $reduced == yes ]]; then
            # One of the two is another one than always, and only one.
            [[ $otp && $python == "${pythons[0]}" || ! $otp && $python != "${pythons[0]}" ]] || continue
        fi
        minor=$(basename "$("$python" tools/interpreter.py | sed -n 1p)")
        log=build/matrix/otp${otp:-}-$minor.log
        quick=()
        # Another OTP loads the NIF of `make test-erlang` as it is.
        [[ $reduced == no || $otp ]] || quick=(PROFILE=dev NIF_TARGET="$PWD/build/matrix/target")
        # A limit only to end a hang.
        timeout --kill-after=10 900 env "${quick[@]}" OTP="$otp" PYTHON="$python" tools/test_erlang.sh "${suites[@]}" >"$log" 2>&1 || true
        said=$(tail -1 "$log")
        # The last line is the count; without one the run itself broke.
        if [[ $said =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]] && ((BASH_REMATCH[1] + BASH_REMATCH[2] > 0)); then
            passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
        else
            failed=$((failed + 1))
            said="broken: $log"
        fi
        sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -a -A20 ': FAILED' || true
        printf 'OTP %-6s Python %-6s %s\n' "${otp:-here}" "${minor#py}" "$said"
    done
done
echo "$passed passed, $failed failed"
((failed == 0))
