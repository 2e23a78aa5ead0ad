#!/usr/bin/env bash
# Owns the ThreadSanitizer run: the tests of the crates named below, every memory access of theirs watched for data races. A test
# that cannot be run so, for it weighs memory or measures time, or has one thread only, stays out by `cfg(not(tsan))`.
#
#   tsan.sh [--probe | arguments for cargo test]
#
# The standard library is built along, instrumented. With the ready-made one a contended Mutex and the last drop of an
# Arc happen out of ThreadSanitizer's sight, sound programs are full of races, and suppressing those would suppress
# the real ones. Both the flag and the build of std are unstable features: RUSTC_BOOTSTRAP lets the very compiler we
# build with use them. With --probe nothing is run; it is only said whether and with what it would be.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO=${CARGO:-cargo}

not_run() { echo "tsan: NOT RUN, $*"; exit 0; }

host=$(rustc -vV | sed -n 's/^host: //p')
sysroot=$(rustc --print sysroot)
compgen -G "$sysroot/lib/rustlib/$host/lib/librustc*_rt.tsan.a" >/dev/null \
    || not_run "this Rust comes without the sanitizer's runtime: $sysroot"

download=()
[[ ${1-} != --probe ]] || download=(--no-download)
std=$(tools/std-source.sh "${download[@]}") \
    || not_run "the source of the standard library is not here: rustup component add rust-src"

echo "tsan: $(rustc --version), standard library instrumented, from $std"
[[ ${1-} != --probe ]] || exit 0

# Cargo looks for std in the sysroot; this is its one way to be told of another place.
[[ $std == "$sysroot"/* ]] || export __CARGO_TESTS_ONLY_SRC_ROOT=$std
(($#)) || set -- -p evloop -p waiters -p dag --lib --tests
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread --cfg tsan" \
    "$CARGO" test -Zbuild-std --target "$host" --target-dir target/tsan "$@"
