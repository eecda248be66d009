"""Spark's own tests of `transformWithState`, run with our operators in place of Spark's.

Of the classes that Spark has for them these are left out:
- `TransformWithStateInPandasStateVariableTests`: the tests of `row-states` once more. States are the same objects whether
  rows or frames come in; how frames come in and go out is what `pandas` tests, of whose class the others are left out.
- `…CheckpointV2Tests`: the same tests with the format of checkpoints that our sessions always have.
- `…connect…`: the same tests through Spark Connect, which jobs here do not use.
- `TwsTesterTests`: tests of Spark's simulation of the operator, which call no operator. `fuzz` compares it with ours.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sparksuite
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_SETTINGS = {
    # Those of Spark's classes, with fewer partitions.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.transformWithStateInPandas.maxRecordsPerBatch": "2",
}
CLASSES = {
    "row": sparksuite.SuiteClass("streaming.test_transform_with_state", "TransformWithStateInPySparkTests", _SETTINGS),
    "pandas": sparksuite.SuiteClass(
        "streaming.test_pandas_transform_with_state", "TransformWithStateInPandasTests", _SETTINGS
    ),
    "row-states": sparksuite.SuiteClass(
        "streaming.test_transform_with_state_state_variable", "TransformWithStateInPySparkStateVariableTests", _SETTINGS
    ),
    "fuzz": sparksuite.SuiteClass("streaming.test_tws_tester", "TwsTesterFuzzTests"),
}

_READER = "It reads state with Spark's reader, which knows that of Spark's operator only; `ss.read_state` reads ours."
_METRICS = "It looks for the deleted states in Spark's metrics of the query, which count the states that Spark knows."
DIFFERENT = {
    "row/test_transform_with_state_query_restarts": _METRICS,
    "row-states/test_transform_with_list_state_metadata": _READER,
    "row-states/test_transform_with_state_restart_with_multiple_rows_init_state": _READER,
    "row-states/test_transform_with_state_with_timers_single_partition": _READER,
    "row-states/test_transform_with_value_state_metadata": _READER,
}
"""Tests that cannot pass, and why; the table in docs/state.md is the same."""
_BY_A_RACE = (
    "It uses Spark's reader, too, but only in a second batch, which may or may not be planned before the query stops."
)
NOT_RUN = {
    "row-states/test_transform_with_map_state_metadata": _BY_A_RACE,
    "row-states/test_transform_with_map_state_metadata_with_init_state": _BY_A_RACE,
    "row-states/test_value_state_ttl_expiration": "Spark itself skips it: its times are too short for a slow machine.",
}
"""Tests that decide nothing, and why; they are in the table, too."""

_FIRST_ROW = ("test_not_nullable_fails", "test_schema_evolution_fails", "test_schema_evolution_scenarios")
"""Tests that look at the first row of a batch: the order over keys is nobody's promise, so they get one key group.

The first two pass also where nothing is refused; what we refuse of that is in `tests/spark/evolution`."""

_NOT_ABOUT_FRAMES = (
    *_FIRST_ROW,
    "test_transform_with_state_chaining_ops",
    "test_transform_with_state_proc_timer",
    "test_transform_with_state_query_restarts",
    "test_transform_with_state_with_timers_single_partition",
    "test_transform_with_state_with_wmark_and_non_event_time",
)
"""Tests of schemas of state, of timers and of restarts, which `row` runs."""

ALL = [
    f"{name}/{test}"
    for name, suite in CLASSES.items()
    for test in suite.tests()
    if name != "pandas" or test not in _NOT_ABOUT_FRAMES
]


def _run(spark: SparkSession, test: str, folder: Path) -> sparksuite.Result:
    suite, _, name = test.partition("/")
    groups = 1 if name in _FIRST_ROW else 4
    return sparksuite.run(spark, CLASSES[suite], name, folder, key_groups=groups)


@pytest.mark.parametrize("test", [test for test in ALL if test not in DIFFERENT | NOT_RUN])
def test_passes_with_our_operator(spark: SparkSession, tmp_path: Path, test: str) -> None:
    result = _run(spark, test, tmp_path)
    assert not result.failure, result.failure
    assert not result.skipped


def test_the_page_has_the_same_table() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "state.md").read_text()
    assert dict(re.findall(r"^\| `([a-z-]+/test_\w+)` \| (.+) \|$", page, re.MULTILINE)) == DIFFERENT | NOT_RUN
    assert not [test for test in DIFFERENT | NOT_RUN if test not in ALL]
