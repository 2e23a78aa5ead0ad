#!/usr/bin/env bash
# Owns the fuzzer of the conversion between terms and objects, which runs inside a real VM with a real Python (fuzz/):
#   fuzz.sh replay         looks at the inputs of fuzz/corpus, and for memory that is not given back
#   fuzz.sh run MINUTES    has libFuzzer find more, kept in build/py*/fuzz/found; an input that fails is build/py*/fuzz/crash-*
#   fuzz.sh keep           has libFuzzer choose the few among them that reach all of the code, and puts those into fuzz/corpus
# PYTHON chooses the interpreter.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
mode=${1:-replay} minutes=${2:-3}
{ read -r out; read -r _; read -r program; read -r _; } < <("$python" tools/interpreter.py)
home=$PWD/$out/fuzz
export PYTHON="$python" ERLANG_PYTHON="$python" FUZZ_HOME="$home" REBAR_BASE_DIR="$PWD/build/erl" ERL_CRASH_DUMP=/dev/null
export PYO3_PYTHON="$program" PYO3_BUILD_EXTENSION_MODULE=1
rebar3 compile

# What was built for the VM as always, and the NIF in its place.
app=$home/erlang_python
mkdir -p "$app/priv/$(basename "$out")" "$home/found"
ln -sfn "$PWD/build/erl/default/lib/erlang_python/ebin" "$app/ebin"
rm -rf "$app/priv/python"
cp -r priv/python "$app/priv/python"
cp priv/erlang_python_loader.so "$app/priv/"
cp fuzz/*.py "$app/priv/python/"
if [[ $mode == replay ]]; then
    CARGO_TARGET_DIR=$PWD/$out/ext "${CARGO:-cargo}" build --quiet --release -p fuzz
    built=$out/ext/release
else
    # What cargo-fuzz compiles with; the target is named so that build scripts stay as they are. Stable Rust will do.
    flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions
        -Coverflow-checks -Ccodegen-units=1"
    host=$(rustc -vV | sed -n 's/^host: //p')
    RUSTFLAGS=$(echo $flags) CARGO_TARGET_DIR=$home/target CARGO_PROFILE_RELEASE_LTO=off \
        "${CARGO:-cargo}" build --release -p fuzz --features libfuzzer --target "$host"
    built=$home/target/$host/release
fi
cp "$built/liberlang_python_fuzz.so" "$app/priv/$(basename "$out")/erlang_python_nif.so"

vm=$PWD/tools/fuzz_vm.sh
case $mode in
replay) "$vm" replay "$PWD/fuzz/corpus" ;;
run)
    "$vm" -max_total_time=$((minutes * 60)) -max_len=1024 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$home/" "$home/found" "$PWD/fuzz/corpus"
    ;;
keep)
    rm -rf "$home/kept"
    mkdir "$home/kept"
    "$vm" -merge=1 -max_len=1024 -rss_limit_mb=4096 "$home/kept" "$PWD/fuzz/corpus" "$home/found"
    rm -rf fuzz/corpus
    cp -r "$home/kept" fuzz/corpus
    echo "fuzz: $(ls fuzz/corpus | wc -l) inputs kept"
    ;;
*) echo "fuzz.sh replay | run MINUTES | keep" >&2; exit 2 ;;
esac
