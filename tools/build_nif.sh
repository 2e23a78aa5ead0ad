#!/bin/sh
# Builds the two NIFs for one Python, optimised, and lays them with the Python packages into priv/:
#   priv/erlang_python_loader.so          opens libpython
#   priv/py3.11/erlang_python_nif.so      one per Python minor
#   priv/python/erlang/...                the packages
# PYTHON chooses the interpreter, PROFILE=dev builds with checks, NIF_TARGET is another directory to build in.
set -eu
python=${PYTHON:-python3}
. "$(dirname "$0")/for_python.sh"
"${CARGO:-cargo}" build --quiet --profile "$profile" -p nif -p loader >&2
# A running VM may have the old one mapped: replaced, not overwritten.
install() {
    cmp -s "$1" "$2" || { cp "$1" "$2.$$" && mv -f "$2.$$" "$2"; }
}
minor=priv/$(basename "$out")
mkdir -p "$minor" priv/python
install "$CARGO_TARGET_DIR/$built/liberlang_python_loader.so" priv/erlang_python_loader.so
install "$CARGO_TARGET_DIR/$built/liberlang_python_nif.so" "$minor/erlang_python_nif.so"
for package in erlang erlang_loop erlang_asyncio; do
    mkdir -p "priv/python/$package"
    for file in "python/$package"/*; do
        [ -f "$file" ] && install "$file" "priv/python/$package/$(basename "$file")"
    done
    for file in "priv/python/$package"/*; do
        [ ! -f "$file" ] || [ -f "python/$package/$(basename "$file")" ] || rm -f "$file"
    done
done
