#!/usr/bin/env bash
# Owns what must be there before anything is built: Debian packages, Rust, and the virtual environment of the tools.
# Does only what is missing and is quick when nothing is, so every target of the Makefile calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
CARGO=${CARGO:-cargo}

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# What setup needs to know of the chosen Python.
ask_python() {
    local facts
    facts=$("$PYTHON" tools/interpreter.py) || die "PYTHON=$PYTHON cannot be used; choose another one with PYTHON="
    { read -r build; read -r prefix; read -r program; read -r version; } <<<"$facts"
}

conditions=()
if command -v "$PYTHON" >/dev/null; then
    ask_python
    [[ $prefix != /usr ]] || conditions+=(debian-python)
elif [[ $PYTHON == python3 ]]; then
    conditions+=(debian-python)
else
    die "PYTHON=$PYTHON is not there; give the name or the path of an interpreter"
fi
tools/debian.sh tools/debian-packages.txt "${conditions[@]}"
[[ ${build-} ]] || ask_python

# Debian 12 has Rust 1.63, so Rust comes from rustup.
oldest=0.0
for version in $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml $(compgen -G "crates/*/Cargo.toml")); do
    newer=$((${version%%.*} * 1000 + ${version##*.} > ${oldest%%.*} * 1000 + ${oldest##*.}))
    ((newer == 0)) || oldest=$version
done
command -v "$CARGO" >/dev/null || die "Rust is missing: install $oldest or newer with rustup, and have $CARGO on the PATH"
present=$("$CARGO" --version | cut -d' ' -f2)
[[ $(printf '%s\n' "$oldest" "$present" | sort -V | head -1) == "$oldest" ]] \
    || die "Rust $oldest or newer is needed, and $CARGO is $present: run 'rustup update stable'"

# The stamp says what the environment was made of and where (it cannot be moved), and is written last: half an
# environment is made anew.
venv=$build/venv
made_of="$PWD $prefix $version $(sha256sum <tools/requirements-dev.txt)"
if [[ ! -f $venv/made-of || $(<"$venv/made-of") != "$made_of" ]]; then
    echo "setup: the Python tools, into $venv"
    rm -rf "$venv"
    "$program" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check install --requirement tools/requirements-dev.txt
    echo "$made_of" >"$venv/made-of"
fi
