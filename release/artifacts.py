"""The files of a release, each made by the tool of its kind."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from release import archives

ROOT = Path(__file__).resolve().parent.parent
_BIN = ROOT / "build" / "bin"
_IMAGES = {"statefulspark": "job.tar", "statefulspark-operator": "operator.tar"}
HELM = _BIN / "helm"


def wheels(into: Path) -> list[Path]:
    """Build both wheels; the runtime's contains the jars, or is not built."""
    for distribution in ("jobruntime", "operator"):
        _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", into, ROOT / distribution)
    return sorted(into.glob("*.whl"))


def chart(into: Path) -> Path:
    """Package the chart, with its CRDs."""
    _run(HELM, "package", ROOT / "charts" / "statefulspark-operator", "--destination", into)
    return next(into.glob("*.tgz"))


def resource_definitions(into: Path) -> Path:
    """Put the CRDs into one file, for `kubectl apply --server-side -f`: Helm installs them and never changes them."""
    path = into / "crds.yaml"
    path.write_text("---\n".join(file.read_text() for file in sorted((ROOT / "crds").glob("*.yaml"))))
    return path


def images(into: Path, version: str) -> list[Path]:
    """Copy the images, as OCI archives: `skopeo copy --preserve-digests oci-archive:FILE docker://...` pushes one."""
    return [
        Path(shutil.copyfile(ROOT / "build" / "images" / archive, into / f"{name}-image-{version}.tar"))
        for name, archive in _IMAGES.items()
    ]


def digests(into: Path, version: str) -> Path:
    """Write images.json: the digest of each image by its name, and that of the Debian they were built from."""
    own = {name: archives.digest(into / f"{name}-image-{version}.tar") for name in _IMAGES}
    base = archives.digest(ROOT / "build" / "images" / "base.tar")
    path = into / "images.json"
    path.write_text(json.dumps({"images": own, "base": base}, indent=2) + "\n")
    return path


def bills_of_materials(shipped: Iterable[Path]) -> list[Path]:
    """Write what is inside each wheel and image beside it, as CycloneDX in JSON."""
    return [_bill(path) for path in shipped]


def checksums(folder: Path) -> Path:
    """Write SHA256SUMS over every file of the folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{_digest(path)}  {path.name}\n" for path in files))
    return sums


def _bill(path: Path) -> Path:
    bill = path.with_name(f"{path.name}.cdx.json")
    with tempfile.TemporaryDirectory() as folder:
        source = f"oci-archive:{path}"
        if path.suffix == ".whl":
            zipfile.ZipFile(path).extractall(folder)
            source = f"dir:{folder}"
        _run(_BIN / "syft", "scan", source, "--quiet", "--output", f"cyclonedx-json={bill}")
    return bill


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
