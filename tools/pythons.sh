#!/usr/bin/env bash
# Owns the Pythons Debian 12 has not: CPython 3.14 with and without the GIL, from the source in Debian's pool, built once
# into a cache outside the checkout, for every clone on the machine to share.
#
#   pythons.sh [3.14 | 3.14t]...    builds what is missing, both if none is named; prints the interpreters' paths. Should the
#                                   pool no longer have that source, 3.13 or 3.13t is built instead, of a Debian that stays
#   pythons.sh --list               prints those that are there
#   pythons.sh --here               prints one of each minor version on this machine, the chosen one (PYTHON) first
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions to be had, by minor version, and their sources' checksums.
declare -A versions=([3.14]=3.14.7 [3.13]=3.13.5)
declare -A checksums=(
    [3.14]=3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81
    [3.13]=93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640
)
. tools/cache.sh

interpreter() { echo "$cache/$1/bin/python$1"; }
here() { [[ -x $(interpreter "$1") ]]; }
# The one that was asked for, or what stands in for it.
found() {
    local name
    for name in "$1" "3.13${1#3.14}"; do
        if here "$name"; then interpreter "$name"; return; fi
    done
    return 1
}

if [[ ${1-} == --list ]]; then
    for name in 3.14 3.14t 3.13 3.13t; do
        ! here $name || interpreter $name
    done
    exit 0
fi

if [[ ${1-} == --here ]]; then
    # One per build directory, and so per minor version and ABI.
    declare -A taken=()
    shopt -s nullglob
    for program in "$(command -v "${PYTHON:-python3}")" $("$0" --list) /usr/bin/python3.[0-9][0-9] \
        /usr/local/bin/python3.[0-9][0-9] "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.[0-9][0-9]*/bin/python3; do
        build=$("$program" tools/interpreter.py 2>/dev/null | sed -n 1p) || true
        [[ $build && -z ${taken[$build]-} ]] || continue
        taken[$build]=yes
        echo "$program"
    done
    exit 0
fi

# By apt's own means, from the mirror this machine uses already. Which minor version it is.
download() {
    local site minor
    site=$(mirror)
    for minor in 3.14 3.13; do
        say "downloading the source of ${versions[$minor]}"
        if /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User="$(id -un)" download-file \
            "$site/pool/main/p/python$minor/python${minor}_${versions[$minor]}.orig.tar.xz" "$1" \
            "SHA256:${checksums[$minor]}" >&2; then
            echo "$minor"
            return
        fi
    done
    die "neither source is there any more"
}

build() {
    local name=$1 work=$2 options=() log
    [[ $name != *t ]] || options=(--disable-gil)
    log=$cache/$name.log
    mkdir -p "$work/$name"
    tar -xJf "$work/source.tar.xz" -C "$work/$name" --strip-components=1
    # Without PGO, which is not worth its half hour. The tests stay in: the conformance run needs asyncio's.
    say "configuring $name (log: $log)"
    (cd "$work/$name" && ./configure --prefix="$cache/$name" --enable-shared --with-ensurepip=install \
        --without-static-libpython "${options[@]}" OPT="-DNDEBUG -O2 -g0 -Wall" \
        LDFLAGS="-Wl,-rpath,$cache/$name/lib") >"$log" 2>&1 || die "configure failed: $log"
    say "compiling $name, which takes minutes"
    nice -n 15 make -C "$work/$name" -j"$(nproc)" >>"$log" 2>&1 || die "make failed: $log"
    # Moved in as a whole: half an interpreter is none. Only the top of the library is compiled ahead (-l): three times all
    # of it, tests included, would take as long as the compiler did.
    say "installing $name"
    make -C "$work/$name" install COMPILEALL_OPTS=-l DESTDIR="$work/root" >>"$log" 2>&1 || die "make install failed: $log"
    rm -rf "${cache:?}/$name"
    mv "$work/root$cache/$name" "$cache/$name"
    # Without the ABI flag a free-threaded build answers to python3.14 as well; the name tells them apart.
    here "$name" || ln -s "python${name%t}" "$(interpreter "$name")"
    "$(interpreter "$name")" -c 'import ctypes, ssl, sqlite3, zlib, test.test_asyncio' \
        || { rm -rf "${cache:?}/$name"; die "$name lacks modules: $log"; }
    rm -rf "${work:?}/$name" "$log"
}

(($#)) || set -- 3.14 3.14t
for name; do [[ $name =~ ^3\.14t?$ ]] || die "$name is neither 3.14 nor 3.14t"; done

alone
work= minor=
for name; do
    if found "$name" >/dev/null; then continue; fi
    if [[ ! $work ]]; then
        tools/debian.sh tools/debian-packages.txt pythons >&2
        work=$(mktemp -d "$cache/build.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        minor=$(download "$work/source.tar.xz")
    fi
    build "$minor${name#3.14}" "$work"
done
for name; do found "$name"; done
