"""The lag of a source: what Spark reports is counted, and what it does not report is unknown, never zero."""

from __future__ import annotations

import pytest
from statefulspark.contract import api
from statefulspark.driver.running import source_lag


@pytest.mark.parametrize(
    ("end", "latest", "rows"),
    [
        pytest.param('{"clicks":{"0":17,"1":5}}', '{"clicks":{"0":20,"1":5}}', 3, id="one partition has more"),
        pytest.param('{"a":{"0":1},"b":{"0":2}}', '{"a":{"0":11},"b":{"0":22}}', 30, id="topics add up"),
        pytest.param('{"clicks":{"0":17}}', '{"clicks":{"0":17}}', 0, id="everything is read"),
        pytest.param('{"clicks":{"0":17}}', '{"clicks":{"0":3}}', 0, id="a topic that was made anew is never negative"),
        pytest.param('{"clicks":{"0":17}}', '{"clicks":{"0":17,"1":9}}', None, id="a partition without a beginning"),
        pytest.param('{"clicks":{"0":17}}', None, None, id="a source that does not tell"),
        pytest.param(None, '{"clicks":{"0":17}}', None, id="a batch without an end"),
        pytest.param('{"logOffset":3}', '{"logOffset":4}', None, id="files: a number of a log counts no rows"),
        pytest.param("41", "60", None, id="seconds of the rate source"),
        pytest.param("{}", "{}", None, id="no partitions"),
        pytest.param('{"clicks":{"0":true}}', '{"clicks":{"0":true}}', None, id="no number"),
        pytest.param("not JSON", "not JSON", None, id="a format of a source of its own"),
    ],
)
def test_only_offsets_that_count_rows_give_a_lag(end: str | None, latest: str | None, rows: int | None) -> None:
    assert source_lag.behind(end, latest) == rows


@pytest.mark.parametrize(
    ("lags", "rows"),
    [
        pytest.param((), None, id="no source"),
        pytest.param((None,), None, id="none tells"),
        pytest.param((None, 3, 4), 7, id="those that tell"),
        pytest.param((0,), 0, id="nothing left"),
    ],
)
def test_the_lag_of_a_query_is_that_of_the_sources_that_tell(lags: tuple[int | None, ...], rows: int | None) -> None:
    assert source_lag.total([api.SourceStatus(name="clicks", lag_rows=lag) for lag in lags]) == rows


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("KafkaV2[Subscribe[clicks]]", "Kafka clicks"),
        ("KafkaV2[SubscribePattern[clicks.*]]", "Kafka clicks.*"),
        ("FileStreamSource[s3a://bucket/in]", "files in s3a://bucket/in"),
        ("MemoryStream[value#1]", "MemoryStream[value#1]"),
    ],
)
def test_a_source_is_named_by_what_it_reads(description: str, shown: str) -> None:
    assert source_lag.readable(description) == shown
