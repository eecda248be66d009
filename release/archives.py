"""Images as OCI archives: which one an archive holds, by its digest.

A digest is the only name of an image that cannot come to mean another one. The archives are made and pushed without another
compression, so the digest here is the one in a registry (`skopeo copy --preserve-digests`).
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path


def digest(archive: Path) -> str:
    """Return the digest of the one image in an OCI archive, as `sha256:<64 digits>`.

    Raises:
        ValueError: It holds no image, or several.
    """
    with tarfile.open(archive) as tar:
        names = {name.removeprefix("./"): name for name in tar.getnames()}
        index = tar.extractfile(names["index.json"]) if "index.json" in names else None
        images = json.loads(index.read())["manifests"] if index else []
    if len(images) != 1:
        raise ValueError(
            f"{archive} holds {len(images)} images, and has to hold one; build it again with `make images`."
        )
    return str(images[0]["digest"])
