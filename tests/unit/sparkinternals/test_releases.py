"""What an older release of Spark cannot do is refused with its ticket and what to do instead."""

from __future__ import annotations

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
