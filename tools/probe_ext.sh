#!/bin/sh
# Builds pyrt's test module for one Python and runs pytests/pyrt with it: tools/probe_ext.sh PYTHON [pytest arguments]
# Everything lands below build/py<minor>/. BENCH=1 prints the micro benchmark instead.
set -eu
python=$(command -v "${1:?usage: tools/probe_ext.sh PYTHON [pytest arguments]}")
shift
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
facts=$("$python" tools/interpreter.py)
out=$(echo "$facts" | sed -n 1p)
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
mkdir -p "$out/lib"
PYO3_PYTHON=$(echo "$facts" | sed -n 3p)
export PYO3_PYTHON PYO3_BUILD_EXTENSION_MODULE=1 CARGO_TARGET_DIR="$PWD/$out/ext"
cargo build -q --release -p pyrt --example probe
cp "$out/ext/release/examples/libprobe.so" "$out/lib/probe$suffix"
export PYTHONPATH="$PWD/$out/lib"
if [ "${BENCH:-0}" = 1 ]; then
    exec "$python" pytests/pyrt/bench_probe.py
fi
exec "$python" -m pytest -q pytests/pyrt "$@"
