#!/bin/bash
# Bootstraps the Debian base of the images: base.sh CLUSTER_PROGRAM IMAGE FILE
#
# It holds what the Dockerfiles would otherwise fetch with apt-get, and comes from the mirror this machine uses; another
# one is named by DEBIAN_MIRROR.
set -euo pipefail
cluster=$1 image=$2 file=$3
suite=bookworm
packages=ca-certificates,python3,python3-venv,tini
work=$(dirname "$file")/base

mirror=${DEBIAN_MIRROR:-}
if [ -z "$mirror" ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' \
    'Label: Debian' 2>/dev/null | head -n 1) || true
fi
[ -n "$mirror" ] || { echo "This machine's apt knows no Debian mirror: name one with DEBIAN_MIRROR=..." >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work"
echo "Bootstrapping Debian $suite with Python into $file (about a minute)"
debootstrap --variant=minbase --include="$packages" "$suite" "$work/rootfs" "$mirror" >"$work/debootstrap.log" 2>&1 \
  || { tail -n 5 "$work/debootstrap.log" >&2; echo "debootstrap failed: $work/debootstrap.log" >&2; exit 1; }
# Of the documentation only the copyright of each package is left: an image that is given on has to carry it.
find "$work/rootfs/usr/share/doc" -type f ! -name copyright -delete
empty=()
for directory in dev proc sys tmp var/cache/apt var/lib/apt/lists usr/share/man usr/share/locale; do
  empty+=(--empty "$directory")
done
"$cluster" images pack --name "$image" "${empty[@]}" "$work/rootfs" "$file"
rm -rf "$work/rootfs"
