"""Jars of the image are archived by the JVM: those that are signed lose their signatures, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import unsign_jars


def _jar(file: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, body in entries.items():
            jar.writestr(name, body)
    return file


def _entries(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


_CODE = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n", "a/B.class": b"code", "META-INF/services/a.SF": b"a.B"}
_SIGNATURES = {"META-INF/DUMMY.SF": b"digests", "META-INF/DUMMY.DSA": b"signature"}


def test_a_signed_jar_keeps_all_but_its_signatures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signed = _jar(tmp_path / "janino.jar", **_CODE, **_SIGNATURES)

    assert unsign_jars.main([str(tmp_path)]) == 0

    assert _entries(signed) == _CODE
    assert [file.name for file in tmp_path.iterdir()] == ["janino.jar"]
    assert capsys.readouterr().out == "janino.jar: signatures removed\n"


def test_a_jar_without_signatures_is_not_touched(tmp_path: Path) -> None:
    jar = _jar(tmp_path / "other.jar", **_CODE)
    before = jar.stat()

    unsign_jars.main([str(tmp_path)])

    assert (jar.stat().st_ino, jar.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_other_names_of_a_file_keep_its_signatures(tmp_path: Path) -> None:
    """Package managers link what they install to their cache."""
    cached = _jar(tmp_path / "cache.bin", **_CODE, **_SIGNATURES)
    (tmp_path / "janino.jar").hardlink_to(cached)

    unsign_jars.main([str(tmp_path)])

    assert _entries(cached) == _CODE | _SIGNATURES
