# Sourced by pythons.sh and otp.sh: the cache outside the checkout that every clone on the machine shares, and the mirror to fill it from.
owner=$(basename "$0" .sh)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/erlang_python/$owner

die() { printf '%s: %s\n' "$owner" "$*" >&2; exit 1; }
say() { printf '%s: %s\n' "$owner" "$*" >&2; }

# Two clones at once: the second waits, and finds it done.
alone() {
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
}

# The mirror this machine uses already.
mirror() {
    local codename site
    command -v apt-get >/dev/null || die "it comes from Debian, and there is no apt-get here"
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    site=$(apt-get indextargets --format '$(SITE)' "Release: $codename" | head -1)
    [[ $site ]] || die "apt knows no mirror for $codename: run apt-get update"
    echo "$site"
}
