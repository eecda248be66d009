"""Spark's own tests of `applyInPandasWithState`, run with our operator in place of Spark's; all of them pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import sparksuite
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUITE = sparksuite.SuiteClass("test_pandas_grouped_map_with_state", "GroupedApplyInPandasWithStateTests")


@pytest.mark.parametrize("test", SUITE.tests())
def test_passes_with_our_operator(spark: SparkSession, tmp_path: Path, test: str) -> None:
    result = sparksuite.run(spark, SUITE, test, tmp_path)
    assert not result.failure, result.failure
    assert not result.skipped
