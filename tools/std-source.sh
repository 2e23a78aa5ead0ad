#!/usr/bin/env bash
# Owns finding the source of the standard library, in exactly the version of the active rustc; prints its directory.
#
#   std-source.sh [--no-download]
#
# It is a component of rustup's (`rustup component add rust-src`). Where rustup cannot add it, Debian has it as a
# package, in several versions: the matching one is unpacked into build/, nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(rustc --version | cut -d' ' -f2)
unpacked=$PWD/build/rust-src/$version

for dir in "$(rustc --print sysroot)/lib/rustlib/src/rust/library" "/usr/src/rustc-$version/library" "$unpacked"; do
    if [[ -f $dir/std/Cargo.toml ]]; then
        echo "$dir"
        exit 0
    fi
done
[[ ${1-} != --no-download ]] || exit 1

# The mirror is the one this machine uses already.
command -v apt-get >/dev/null || exit 1
codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
mirror=$(apt-get indextargets --format '$(SITE)' "Release: $codename" | head -1)
[[ $mirror ]] || exit 1

# An apt of our own: its lists and its cache are in a directory that goes away, the machine's are not touched.
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/lists/partial "$apt"/cache/archives/partial
options=(
    -q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::status=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)"
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
)
for suite in trixie-backports sid; do
    echo "deb $mirror $suite main" >"$apt/sources.list"
    apt-get "${options[@]}" update >&2 || continue
    # Debian's 1.95.0+dfsg1-2~bpo13+1 is rustc's 1.95.0.
    exact=$(apt-cache "${options[@]}" madison rust-src | awk -v v="$version+" 'index($3, v) == 1 { print $3; exit }')
    [[ $exact ]] || continue
    (cd "$apt" && apt-get "${options[@]}" download "rust-src=$exact" >&2)
    rm -rf "$unpacked.part"
    mkdir -p "$unpacked.part"
    dpkg-deb --fsys-tarfile "$apt"/rust-src_*.deb \
        | tar -x -C "$unpacked.part" --strip-components=5 "./usr/src/rustc-$version/library"
    mv "$unpacked.part" "$unpacked"
    echo "$unpacked"
    exit 0
done
exit 1
