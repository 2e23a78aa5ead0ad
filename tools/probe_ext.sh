#!/bin/sh
# Builds pyrt's test module for one Python and runs pytests/pyrt with it: tools/probe_ext.sh PYTHON [pytest arguments]
# Everything lands below build/py<minor>/. BENCH=1 prints the micro benchmark instead.
set -eu
python=${1:?usage: tools/probe_ext.sh PYTHON [pytest arguments]}
shift
. "$(dirname "$0")/for_python.sh"
mkdir -p "$out/lib"
cargo build -q --release -p pyrt --example probe
cp "$CARGO_TARGET_DIR/release/examples/libprobe.so" "$out/lib/probe$suffix"
export PYTHONPATH="$PWD/$out/lib"
if [ "${BENCH:-0}" = 1 ]; then
    exec "$python" pytests/pyrt/bench_probe.py
fi
exec "$python" -m pytest -q pytests/pyrt "$@"
