#!/bin/sh
# Builds the native module for one Python, optimised, and prints the PYTHONPATH that finds the packages with it:
#   export PYTHONPATH=$(PYTHON=python3.12 tools/build_ext.sh)
# Everything lands below build/py<minor>/, so Pythons do not get into each other's way. PROFILE=dev builds with checks.
set -eu
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
facts=$("$python" tools/interpreter.py)
out=$(echo "$facts" | sed -n 1p)
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
profile=${PROFILE:-release}
case $profile in dev) built=debug ;; *) built=$profile ;; esac
# By the interpreter's own name, whichever environment calls: by another cargo would build all of it anew.
PYO3_PYTHON=$(echo "$facts" | sed -n 3p)
export PYO3_PYTHON PYO3_BUILD_EXTENSION_MODULE=1 CARGO_TARGET_DIR="$PWD/$out/ext"
"${CARGO:-cargo}" build --quiet --profile "$profile" -p pyext >&2
# The packages are linked and the module lies beside them, as it does when installed; one directory per Python.
lib=$out/lib
mkdir -p "$lib/erlang"
# Another one may do the same at the same time, and programs run with what is there: what is right already is left alone, the rest replaced
# in one step.
link() {
    [ "$(readlink "$2")" = "$1" ] || { ln -sn "$1" "$2.$$" && mv -fT "$2.$$" "$2"; }
}
for package in erlang_loop erlang_asyncio; do
    link "$PWD/python/$package" "$lib/$package"
done
for file in python/erlang/*; do
    link "$PWD/$file" "$lib/erlang/$(basename "$file")"
done
module=$lib/erlang/_native$suffix
cmp -s "$out/ext/$built/lib_native.so" "$module" || { cp "$out/ext/$built/lib_native.so" "$module.$$" && mv -f "$module.$$" "$module"; }
echo "$PWD/$lib"
