#!/bin/bash
# Bootstraps the Debian base of the images: base.sh CLUSTER_PROGRAM IMAGE FILE
#
# It holds what the Dockerfiles would otherwise fetch with apt-get, as Debian's signature says and with its security
# updates. It comes from the mirrors this machine uses; others are named by DEBIAN_MIRROR and DEBIAN_SECURITY_MIRROR, and
# another release than bookworm by DEBIAN.
set -euo pipefail
cluster=$1 image=$2 file=$3
suite=${DEBIAN:-bookworm}
packages=ca-certificates,python3,python3-venv,tini
work=$(dirname "$file")/base
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The mirror of this machine's apt that states a label.
mirror_of() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' "Label: $1" \
    2>/dev/null | head -n 1
}

mirror=${DEBIAN_MIRROR:-$(mirror_of Debian || true)}
security=${DEBIAN_SECURITY_MIRROR:-$(mirror_of Debian-Security || true)}
[ -n "$mirror" ] && [ -n "$security" ] || {
  echo "This machine's apt knows no Debian mirror: name two with DEBIAN_MIRROR=... and DEBIAN_SECURITY_MIRROR=..." >&2
  exit 1
}
[ -f "$keyring" ] || { echo "Nothing says who signed Debian: install the package debian-archive-keyring." >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work"
echo "Bootstrapping Debian $suite with Python into $file (about a minute)"
bootstrap() {
  debootstrap --force-check-gpg --keyring="$keyring" --variant=minbase --include="$packages" "$suite" "$work/rootfs" "$mirror" \
    && printf 'deb %s main\n' "$mirror $suite" "$mirror $suite-updates" "$security $suite-security" \
      >"$work/rootfs/etc/apt/sources.list" \
    && chroot "$work/rootfs" apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive chroot "$work/rootfs" apt-get upgrade -y -qq
}
bootstrap >"$work/debootstrap.log" 2>&1 \
  || { tail -n 5 "$work/debootstrap.log" >&2; echo "debootstrap failed: $work/debootstrap.log" >&2; exit 1; }
# Of the documentation only the copyright of each package is left: an image that is given on has to carry it.
find "$work/rootfs/usr/share/doc" -type f ! -name copyright -delete
empty=()
for directory in dev proc sys tmp var/cache/apt var/lib/apt/lists usr/share/man usr/share/locale; do
  empty+=(--empty "$directory")
done
"$cluster" images pack --name "$image" "${empty[@]}" "$work/rootfs" "$file"
rm -rf "$work/rootfs"
