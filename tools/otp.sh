#!/usr/bin/env bash
# Owns the OTPs Debian 12 has not: 27 and 29, from the packages of later Debians, unpacked once into a cache outside the checkout,
# for every clone on the machine to share. Nothing is installed, and the system's own Erlang stays as it is.
#
#   otp.sh [27 | 29]...    unpacks what is missing, both if none is named; prints the directories to put into PATH
#   otp.sh --list          prints those that are there
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/cache.sh

declare -A suites=([27]=trixie [29]=sid)
# What the suites take, Common Test without its windows, and rebar3 of the same Debian.
packages=(asn1 base common-test crypto dev dialyzer edoc eunit ftp inets mnesia parsetools proper public-key reltool
    runtime-tools snmp ssh ssl syntax-tools tftp tools xmerl)

if [[ ${1-} == --list ]]; then
    for name in 27 29; do
        [[ ! -x $cache/$name/bin/erl ]] || echo "$cache/$name/bin"
    done
    exit 0
fi

# apt with a configuration of its own: that mirror, one suite, its signature checked, nothing known to be installed.
private() {
    local apt=$1 program=$2
    shift 2
    "$program" -q -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State="$apt/state" -o Dir::State::Status="$apt/status" \
        -o Dir::Cache="$apt/cache" -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" \
        -o Debug::NoLocking=true "$@"
}

fetch() {
    local name=$1 apt=$2 suite=${suites[$1]} site wanted=()
    site=$(mirror) || return
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
    : >"$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" >"$apt/sources.list"
    say "reading the index of $suite"
    private "$apt" apt-get update || return
    say "downloading OTP $name"
    # The libraries are those the emulator and the crypto library need, as apt works them out.
    for package in $(private "$apt" apt-get install --simulate --no-install-recommends erlang-base erlang-crypto |
        sed -n 's/^Inst \([^ ]*\).*/\1/p'); do
        case $package in lib*|zlib*) wanted+=("$package") ;; esac
    done
    (cd "$apt/cache/archives" && private "$apt" apt-get download "${wanted[@]}" "${packages[@]/#/erlang-}" libjs-jquery libjs-jquery-tablesorter rebar3)
}

# The programs run with the C library they were built for: the loader and the place of the libraries are written into them, and with
# DT_RPATH that holds for whatever they load.
patch() {
    local root=$1 place=$2 loader libraries program
    loader=$(cd "$root" && find . -name 'ld-linux*.so.*' ! -type l | head -1)
    libraries=$(cd "$root" && dirname "$(find . -name libc.so.6 | head -1)")
    [[ $loader && $libraries ]] || die "no C library among the packages"
    while read -r program; do
        patchelf --set-interpreter "$place/${loader#./}" --force-rpath --set-rpath "$place/${libraries#./}" "$program" ||
            die "patchelf failed: $program"
    done < <(find "$root/usr/lib/erlang" -type f -perm -u+x -exec sh -c 'patchelf --print-interpreter "$1" >/dev/null 2>&1 && echo "$1"' _ {} \;)
}

unpack() {
    local name=$1 work=$2 root=$2/$1 program package
    fetch "$name" "$work/apt-$name" >"$cache/$name.log" 2> >(tee -a "$cache/$name.log" | grep --line-buffered "^$owner:" >&2) ||
        die "apt failed: $cache/$name.log"
    say "unpacking OTP $name"
    mkdir -p "$root/bin"
    for package in "$work/apt-$name"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$root"
    done
    patch "$root" "$cache/$name"
    sed -i "s|/usr/lib/erlang|$cache/$name/usr/lib/erlang|g" "$root/usr/lib/erlang/bin/erl"
    for program in erl erlc escript ct_run dialyzer; do
        ln -s "../usr/lib/erlang/bin/$program" "$root/bin/$program"
    done
    ln -s ../usr/bin/rebar3 "$root/bin/rebar3"
    # Moved in as a whole: half of it is nothing.
    rm -rf "${cache:?}/$name"
    mv "$root" "$cache/$name"
    [[ $(ERL_CRASH_DUMP=/dev/null PATH=$cache/$name/bin:$PATH erl -noshell -eval '
            {ok, _} = application:ensure_all_started(crypto), {module, _} = code:ensure_loaded(proper), {module, _} = code:ensure_loaded(ct),
            io:put_chars(erlang:system_info(otp_release)), halt(0).') == "$name" ]] ||
        { rm -rf "${cache:?}/$name"; die "OTP $name does not run: $cache/$name.log"; }
    rm -rf "$cache/$name.log" "$work/apt-$name"
}

(($#)) || set -- 27 29
for name; do [[ ${suites[$name]-} ]] || die "$name is neither 27 nor 29"; done

alone
work=
for name; do
    [[ ! -x $cache/$name/bin/erl ]] || continue
    if [[ ! $work ]]; then
        tools/debian.sh tools/debian-packages.txt otp >&2
        work=$(mktemp -d "$cache/build.XXXXXX")
        trap 'rm -rf "$work"' EXIT
    fi
    unpack "$name" "$work"
done
for name; do echo "$cache/$name/bin"; done
