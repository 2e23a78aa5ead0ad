#!/bin/sh
# Builds pyrt's test module for one Python and runs pytests/pyrt with it: tools/probe_ext.sh PYTHON [pytest arguments]
# Everything lands below build/py<minor>/. BENCH=1 prints the micro benchmark instead.
set -eu
python=$(command -v "${1:?usage: tools/probe_ext.sh PYTHON [pytest arguments]}")
shift
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
tag=$("$python" -c 'import sys; print("%d.%d%s" % (*sys.version_info[:2], getattr(sys, "abiflags", "")))')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
out=build/py$tag
mkdir -p "$out/lib"
export PYO3_PYTHON="$python" PYO3_BUILD_EXTENSION_MODULE=1 CARGO_TARGET_DIR="$PWD/$out/ext"
cargo build -q --release -p pyrt --example probe
cp "$out/ext/release/examples/libprobe.so" "$out/lib/probe$suffix"
export PYTHONPATH="$PWD/$out/lib"
if [ "${BENCH:-0}" = 1 ]; then
    exec "$python" pytests/pyrt/bench_probe.py
fi
exec "$python" -m pytest -q pytests/pyrt "$@"
