"""The digest of an image in its archive, and the commands that sign a release."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from pathlib import Path

import pytest

from release import archives, signing

DIGEST = f"sha256:{'0a' * 32}"


def an_image_archive(path: Path, *, at: str = "index.json", images: int = 1) -> Path:
    index = json.dumps({"manifests": [{"digest": DIGEST}] * images}).encode()
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo(at)
        entry.size = len(index)
        tar.addfile(entry, io.BytesIO(index))
    return path


@pytest.mark.parametrize("at", ["index.json", "./index.json"])
def test_the_digest_of_an_image_is_read_from_its_archive(tmp_path: Path, at: str) -> None:
    assert archives.digest(an_image_archive(tmp_path / "image.tar", at=at)) == DIGEST


@pytest.mark.parametrize(("at", "images"), [("other.json", 1), ("index.json", 0), ("index.json", 2)])
def test_an_image_archive_without_exactly_one_image_has_no_digest(tmp_path: Path, at: str, images: int) -> None:
    with pytest.raises(ValueError, match="has to hold one"):
        archives.digest(an_image_archive(tmp_path / "image.tar", at=at, images=images))


def test_the_chart_is_signed_before_the_checksums_and_these_before_the_images() -> None:
    text = signing.commands(Path("dist"), "0.2.0", {"statefulspark": DIGEST})
    order = [
        "helm package",
        "sha256sum *",
        "cosign sign-blob",
        "skopeo copy",
        "cosign sign ",
        "cosign attest",
        "make verify",
    ]

    assert [text.index(step) for step in order] == sorted(text.index(step) for step in order)
    assert f"cosign sign --yes $REGISTRY/statefulspark@{DIGEST}\n" in text


def test_each_line_is_a_command_of_a_shell() -> None:
    for line in signing.commands(Path("dist"), "0.2.0", {"statefulspark": DIGEST}).splitlines():
        assert shlex.split(line, comments=True) is not None
