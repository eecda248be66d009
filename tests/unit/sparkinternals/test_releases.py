"""What an older release of Spark cannot do is refused with its ticket and what to do instead."""

from __future__ import annotations

import importlib.util
import zipfile
import zipimport
from pathlib import Path

import pytest
from statefulspark import errors
from statefulspark.sparkinternals import releases

FEATURES = [value for value in vars(releases).values() if isinstance(value, releases.Feature)]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.what)
def test_a_feature_is_refused_before_its_release(feature: releases.Feature, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.1.4")
    with pytest.raises(errors.SpecRejectedError) as refused:
        releases.require(feature)
    assert refused.value.reason == "SparkTooOld"
    for part in (feature.what, "needs PySpark 4.2", feature.ticket, "4.1.4 is installed", feature.instead):
        assert part in refused.value.message

    monkeypatch.setattr(releases, "version", lambda: "4.2.0")
    releases.require(feature)


def test_patches_of_a_release_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.2.17")
    assert (releases.installed(), releases.folder_name()) == ((4, 2), "spark-4.2")


def test_the_release_is_read_from_the_archive_that_workers_of_executors_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as parts:
        parts.writestr("pyspark/__init__.py", "")
        parts.writestr("pyspark/version.py", "__version__: str = '4.3.1'\n")
    importer = zipimport.zipimporter(str(archive))
    monkeypatch.setattr(importlib.util, "find_spec", importer.find_spec)

    assert releases.version.__wrapped__() == "4.3.1"
