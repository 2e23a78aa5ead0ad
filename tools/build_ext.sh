#!/bin/sh
# Builds the native module for one Python, optimised, and prints the PYTHONPATH that finds the packages with it:
#   export PYTHONPATH=$(PYTHON=python3.12 tools/build_ext.sh)
# Everything lands below build/py<minor>/, so Pythons do not get into each other's way. PROFILE=dev builds with checks.
set -eu
python=${PYTHON:-python3}
. "$(dirname "$0")/for_python.sh"
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
cmp -s "$CARGO_TARGET_DIR/$built/lib_native.so" "$module" || { cp "$CARGO_TARGET_DIR/$built/lib_native.so" "$module.$$" && mv -f "$module.$$" "$module"; }
echo "$PWD/$lib"
