#!/usr/bin/env bash
# Owns the Debian packages: reads a list of them, installs the missing ones as root, and otherwise says what to type.
#
#   debian.sh [--missing] LIST [CONDITION...]
#
# A line of LIST is `package [if condition]  # what for`; packages with a condition count only if it is given.
# With --missing the missing packages are printed and nothing is done.
set -euo pipefail

die() { printf 'debian: %s\n' "$*" >&2; exit 1; }

only_print=false
if [[ ${1-} == --missing ]]; then only_print=true; shift; fi
list=${1:?which list?}
conditions=" ${*:2} "

wanted=()
number=0
while IFS= read -r line || [[ $line ]]; do
    number=$((number + 1))
    read -r package word condition rest <<<"${line%%#*}" || true
    [[ $package ]] || continue
    [[ -z $rest && ( -z $word || ( $word == if && $condition ) ) ]] \
        || die "$list:$number: expected 'package [if condition]  # what for'"
    [[ -z $word || $conditions == *" $condition "* ]] && wanted+=("$package")
done <"$list"

if ! command -v dpkg-query >/dev/null; then
    echo "debian: this is not Debian; have the like of these installed: ${wanted[*]}" >&2
    exit 0
fi

# One query for all of them. It fails when it does not know one, which is an answer too.
declare -A installed=()
while read -r package status; do
    [[ $status == installed ]] && installed[$package]=yes
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)

missing=()
for package in "${wanted[@]}"; do
    [[ ${installed[$package]-} ]] || missing+=("$package")
done

if $only_print; then
    ((${#missing[@]} == 0)) || printf '%s\n' "${missing[@]}"
    exit 0
fi
((${#missing[@]})) || exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if ((EUID != 0)); then
    die "packages are missing, and installing them takes root:

    apt-get update && ${install[*]}
"
fi

# Packages may start their services when installed. invoke-rc.d(8) asks policy-rc.d first, and 101 says "do not".
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

echo "debian: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
"${install[@]}" -q -o DPkg::Lock::Timeout=300
# Nor at the next boot.
if [[ " ${missing[*]} " == *" redis-server "* ]] && command -v systemctl >/dev/null; then
    systemctl --quiet disable redis-server
fi
