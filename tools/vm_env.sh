#!/usr/bin/env bash
# Makes the virtual environment for the Python in the VM, with what tools/requirements-vm.txt names, and prints where it is:
#   tools/vm_env.sh PYTHON
# Made anew when it is for another Python or to have other packages.
set -euo pipefail
cd "$(dirname "$0")/.."
{ read -r build; read -r prefix; read -r program; read -r version; } < <("$1" tools/interpreter.py)
venv=$PWD/$build/vm
made_of="$PWD $prefix $version $(sha256sum <tools/requirements-vm.txt)"
if [[ ! -f $venv/made-of || $(<"$venv/made-of") != "$made_of" ]]; then
    rm -rf "$venv"
    "$program" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --requirement tools/requirements-vm.txt
    echo "$made_of" >"$venv/made-of"
fi
echo "$venv"
