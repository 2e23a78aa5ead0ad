#!/usr/bin/env bash
# Assembles a release, unpacks it elsewhere, and runs it from there: with a virtual environment of its own, and as another user if
# this is root and there is an interpreter which that user may run. PYTHON chooses the interpreter it is built for.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
export PYTHON="$python" REBAR_BASE_DIR="$PWD/build/erl"
rebar3 tar
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/release" "$place/home"
tar -xzf build/erl/default/rel/erlang_python/erlang_python-*.tar.gz -C "$place/release"
chmod a+rx "$place"

# The release is for a minor version of Python: any interpreter of that minor will do, and one that another user may run is better.
minor=python$("$python" -c 'import sysconfig; print(sysconfig.get_python_version())')
base=$("$python" -c 'import sys; print(sys._base_executable)')
as=() chosen=$base
if ((EUID == 0)); then
    other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    for candidate in "$base" "/usr/bin/$minor"; do
        if "${other[@]}" test -x "$(readlink -f "$candidate")" && [[ $candidate == "$base" || $(ldconfig -p) == *"lib$minor.so"* ]]; then
            as=("${other[@]}") chosen=$candidate
            break
        fi
    done
fi
"$chosen" -m venv --without-pip "$place/venv"
packages=$("$place/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo 'answer = 42' >"$packages/only_here.py"
chmod -R a+rX "$place"
((${#as[@]} == 0)) || chown -R 65534:65534 "$place/home"
program='
    {ok, 42} = py:eval("__import__(\"only_here\").answer"),
    {ok, Executable} = py:eval("__import__(\"sys\").executable"),
    {ok, User} = py:eval("__import__(\"os\").getuid()"),
    io:format("~ts, as user ~b~n1 passed, 0 failed~n", [Executable, User]),
    halt(0).'
root=$place/release
erts=$(echo "$root"/erts-*)
cd "$place/home"
"${as[@]}" env -i HOME="$place/home" PATH=/usr/bin:/bin ERLANG_PYTHON="$place/venv/bin/python" ERL_CRASH_DUMP=/dev/null \
    ROOTDIR="$root" BINDIR="$erts/bin" EMU=beam PROGNAME=erl \
    "$erts/bin/erlexec" -boot "$root/releases/0.1.0/start" -mode embedded -noshell -eval "$program"
