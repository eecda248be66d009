#!/bin/bash
# Builds a Dockerfile without a registry: build.sh BASE_FILE BASE_IMAGE DOCKERFILE CONTEXT IMAGE FILE
#
# BASE_FILE is an OCI archive that becomes BASE_IMAGE, the Dockerfile's BASE. The result is written to FILE, uncompressed:
# a node has nothing to inflate. What this machine knows about certificates, proxies and the Python index holds inside
# the build too. Layers are kept beside FILE, so that a change of code builds the last layers only.
set -euo pipefail

# buildah leaves a mount on its storage; in a mount namespace of its own it goes when the build ends.
if [ -z "${BUILD_IN_NAMESPACE:-}" ]; then
  BUILD_IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi
base_file=$1 base_image=$2 dockerfile=$3 context=$4 image=$5 file=$6
storage=$(realpath -m "$(dirname "$file")")/storage
mkdir -p "$storage"
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$storage/root" --runroot "$storage/run" "$@"; }

loaded=$storage/$(basename "$base_file").loaded
if [ "$base_file" -nt "$loaded" ] || ! buildah inspect --type image "$base_image" >/dev/null 2>&1; then
  buildah tag "$(buildah pull -q "oci-archive:$base_file")" "$base_image"
  touch "$loaded"
fi

options=(--layers --network host --pull-never --build-arg "BASE=$base_image" --file "$dockerfile" --tag "$image")
certificates=/etc/ssl/certs/ca-certificates.crt
if [ -f "$certificates" ]; then
  # Not at its usual place: packages install certificates there.
  options+=(--volume "$certificates:/run/certificates.crt:ro" --build-arg PIP_CERT=/run/certificates.crt)
fi
for setting in index-url extra-index-url trusted-host; do
  name=PIP_$(tr a-z- A-Z_ <<<"$setting")
  value=${!name:-$(python3 -m pip config get "global.$setting" 2>/dev/null || true)}
  [ -z "$value" ] || options+=(--build-arg "$name=$value")
done
for name in PIP_DEFAULT_TIMEOUT HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || options+=(--build-arg "$name=${!name}")
done
echo "Building $image from $dockerfile (log: ${file%.tar}.log)"
buildah bud "${options[@]}" "$context" >"${file%.tar}.log" 2>&1 \
  || { tail -n 30 "${file%.tar}.log" >&2; echo "building $image failed: ${file%.tar}.log" >&2; exit 1; }

rm -f "$file.part"
# Not `buildah push`: it compresses the layers of an archive whatever it is told.
skopeo copy -q --dest-oci-accept-uncompressed-layers \
  "containers-storage:[overlay@$storage/root+$storage/run]$image" "oci-archive:$file.part:$image"
mv "$file.part" "$file"
