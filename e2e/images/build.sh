#!/bin/bash
# Builds images without a registry, in a storage of their own:
#
#   build.sh STORAGE import FILE IMAGE                        an OCI archive becomes an image
#   build.sh STORAGE build BASE_IMAGE DOCKERFILE CONTEXT IMAGE    a Dockerfile with a BASE argument becomes an image
#   build.sh STORAGE export IMAGE FILE                        an image becomes an OCI archive
#
# What this machine knows about certificates, proxies and the Python index holds inside a build too. Layers are kept, so
# that a change of code builds the last ones only.
set -euo pipefail

# buildah leaves a mount on its storage; in a mount namespace of its own it goes when the build ends.
if [ -z "${BUILD_IN_NAMESPACE:-}" ]; then
  BUILD_IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi
storage=$(realpath -m "$1")
mkdir -p "$storage"
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$storage/root" --runroot "$storage/run" "$@"; }

import_image() {
  buildah tag "$(buildah pull -q "oci-archive:$1")" "$2"
}

build_image() {
  local base_image=$1 dockerfile=$2 context=$3 image=$4 log
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
  for name in SPARK PYTHON JAVA PIP_DEFAULT_TIMEOUT HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || options+=(--build-arg "$name=${!name}")
  done
  log=$storage/$(basename "${image%%:*}").log
  echo "Building $image from $dockerfile (log: $log)"
  buildah bud "${options[@]}" "$context" >"$log" 2>&1 \
    || { tail -n 30 "$log" >&2; echo "building $image failed: $log" >&2; exit 1; }
}

# The layers stay uncompressed: a node has nothing to inflate. Not `buildah push`, which compresses an archive's layers
# whatever it is told.
export_image() {
  local image=$1 file=$2
  rm -f "$file.part"
  skopeo copy -q --dest-oci-accept-uncompressed-layers \
    "containers-storage:[overlay@$storage/root+$storage/run]$image" "oci-archive:$file.part:$image"
  mv "$file.part" "$file"
}

case ${2:-} in
  import) import_image "${@:3}" ;;
  build) build_image "${@:3}" ;;
  export) export_image "${@:3}" ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
