#!/usr/bin/env bash
# Owns Cowboy with what it needs, for the example: cowboy, cowlib and ranch, which Debian has inside of rabbitmq-server's package. That
# is unpacked once into a cache outside the checkout; nothing is installed, and nothing started. Prints their ebin directories.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/cache.sh
wanted=(cowboy cowlib ranch)

unpack() {
    local work package name
    work=$(mktemp -d "$cache/build.XXXXXX")
    trap 'rm -rf "$work"' RETURN
    (cd "$work" && { apt-get -q download rabbitmq-server || { apt-get -q update && apt-get -q download rabbitmq-server; }; }) >&2 ||
        die "rabbitmq-server cannot be downloaded"
    package=$(compgen -G "$work/*.deb")
    dpkg-deb -x "$package" "$work/root"
    mkdir "$work/lib"
    for name in "${wanted[@]}"; do
        cp -r "$(find "$work/root" -type d -path "*/$name-*/ebin" | head -1)" "$work/lib/$name" || die "no $name in it"
    done
    # Moved in as a whole: half of it is nothing.
    rm -rf "$cache/lib"
    mv "$work/lib" "$cache/lib"
}

alone
[[ -d $cache/lib ]] || unpack
for name in "${wanted[@]}"; do echo "$cache/lib/$name"; done
