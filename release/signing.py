"""How the files of a release get a signature: the commands, for whoever may sign in the project's name.

Building needs no key and no identity, so it is done by anybody; nothing here signs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

BUNDLE = "SHA256SUMS.sigstore.json"
"""The signature of SHA256SUMS, which names every other file by its content."""


def commands(out: Path, version: str, images: Mapping[str, str]) -> str:
    """Return the commands that sign a release, in their order, for a shell in the root of the repository.

    Args:
        out: Folder of the files.
        version: Of the release.
        images: Digest by name of the image.
    """
    lines = [
        "# The chart, for `helm install --verify`, with a key of gpg; it is packaged anew, so it gets a new checksum.",
        f"build/bin/helm package charts/statefulspark-operator --destination {out} --sign --key NAME --keyring KEYRING",
        f"(cd {out} && rm SHA256SUMS && sha256sum * > ../SHA256SUMS && mv ../SHA256SUMS .)",
        "",
        "# Every file, by its checksum. `--key cosign.key` signs with a key; without it, cosign asks who you are.",
        f"cosign sign-blob --yes --bundle {out / BUNDLE} {out / 'SHA256SUMS'}",
        "",
        "# The images, where they are pulled from, with what is in them.",
        "REGISTRY=registry.example",
    ]
    for name, digest in images.items():
        archive = out / f"{name}-image-{version}.tar"
        lines += [
            f"skopeo copy --preserve-digests oci-archive:{archive} docker://$REGISTRY/{name}:{version}",
            f"cosign sign --yes $REGISTRY/{name}@{digest}",
            f"cosign attest --yes --type cyclonedx --predicate {archive}.cdx.json $REGISTRY/{name}@{digest}",
        ]
    lines += ["", f"make verify-release DIST={out} IDENTITY=you@example.org ISSUER=https://github.com/login/oauth"]
    return "\n".join(lines) + "\n"
