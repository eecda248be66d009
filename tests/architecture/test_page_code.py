"""Each block of Python in the documentation runs in a test; here those that need no Spark."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pagecode
import pyarrow as pa
import pytest
import statefulspark as ss
from pagecode import block
from statefulspark.testing import KeyedHarness

_TESTS = (
    Path(__file__),
    Path(__file__).with_name("test_documentation.py"),
    pagecode.ROOT / "tests" / "spark" / "testing" / "test_page_code.py",
)
_PAGES = sorted(
    file.relative_to(pagecode.ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for file in pagecode.ROOT.glob(pattern)
)
_ALL_TOGETHER = {
    "docs/testing.md": "tests/spark/testing/test_pages.py",
    "docs/tutorial.md": "tests/architecture/test_documentation.py",
}
"""Pages whose blocks run one after the other, as one file, and the test that does it."""
_NOT_RUN = {
    ("docs/migrate/spark.md", 1): "plain Spark, which is what a reader comes from; it needs a broker and a bucket"
}


@pytest.mark.parametrize("page", _PAGES)
def test_every_block_of_python_runs_in_a_test(page: str) -> None:
    there = {(page, number) for number in range(1, len(pagecode.blocks(page)) + 1)}
    run = {asked for asked in pagecode.asked_for(*_TESTS) if asked[0] == page}

    if page in _ALL_TOGETHER:
        assert there
        assert Path(page).name in (pagecode.ROOT / _ALL_TOGETHER[page]).read_text(encoding="utf-8")
    else:
        assert there == run | {left for left in _NOT_RUN if left[0] == page}


def harness_of(page: str, number: int, name: str, *, key: str = "customer", **given: object) -> KeyedHarness:
    """Return a harness with the function that a block defines."""
    names: dict[str, object] = {"ss": ss, **given}
    exec(block(page, number), names)  # noqa: S102 -- the page's own code
    kind = names[name]
    assert isinstance(kind, type)
    return KeyedHarness(kind(), key=key)


def test_the_function_on_the_home_page_adds_up() -> None:
    harness = harness_of("docs/index.md", 1, "Totals")

    assert harness.feed({"customer": "ada", "amount": 2}, {"customer": "ada", "amount": 3}) == [("ada", 5)]


def test_the_function_that_puts_bad_records_aside_does_so() -> None:
    harness = harness_of("docs/howto/poison-records.md", 2, "Totals", parse=int)

    rows = harness.feed({"customer": "ada", "text": "2"}, {"customer": "ada", "text": "two"})

    assert rows == [("ada", None, "two: invalid literal for int() with base 10: 'two'"), ("ada", 2, None)]


def test_the_function_that_takes_first_values_adds_to_them() -> None:
    harness = harness_of("docs/howto/rename-a-uid.md", 1, "Totals")
    harness.feed({"customer": "ada", "kind": "order", "value": None, "amount": 2})

    rows = harness.feed({"customer": "ada", "kind": "first-value", "value": 40, "amount": None})

    assert rows == [("ada", 42)]


def test_the_function_that_came_from_flink_counts_each_row() -> None:
    harness = harness_of("docs/migrate/flink.md", 1, "Count")

    assert harness.feed({"customer": "ada"}, {"customer": "ada"}) == [("ada", 1), ("ada", 2)]


def test_what_reads_a_files_sink_without_spark_reads_what_is_committed(tmp_path: Path) -> None:
    pagecode.an_output_of_files(tmp_path)
    names: dict[str, object] = {}

    exec(block("docs/howto/read-output.md", 2), names)  # noqa: S102 -- the page's own code

    assert names["read_output"](tmp_path)["name"].to_pylist() == ["first", "second"]  # type: ignore[operator]


def test_duckdb_reads_of_a_files_sink_what_is_committed(tmp_path: Path) -> None:
    pagecode.an_output_of_files(tmp_path)
    query = block("docs/howto/read-output.md", 1, language="sql").replace("s3://bucket/output", tmp_path.as_posix())

    with duckdb.connect() as session:
        assert sorted(session.execute(query).fetchall()) == [("first",), ("second",)]


def test_a_function_that_loads_a_model_does_so_on_workers_only() -> None:
    loaded: list[str] = []
    names: dict[str, type[ss.KeyedProcessFunction]] = {"ss": ss, "load_model": loaded.append}  # type: ignore[dict-item]
    exec(block("docs/state.md", 2), names)  # noqa: S102 -- the page's own code

    class Scores(names["Scores"]):  # type: ignore[misc, name-defined]
        def process(self, key: object, rows: object, ctx: object) -> list[object]:
            return [self.last.value()]

    assert KeyedHarness(Scores(), key="customer").feed({"customer": "ada"}) == [None]
    assert set(loaded) == {"/models/scores"}


def test_the_codec_of_the_page_reads_both_of_its_versions() -> None:
    names: dict[str, type[ss.Codec[float]]] = {"ss": ss}  # type: ignore[dict-item]
    exec(block("docs/state.md", 3), names)  # noqa: S102 -- the page's own code
    codec = names["Celsius"]()

    assert codec.decode(codec.encode(21.5)) == 21.5
    assert codec.decode(codec.migrate(21.5, 1)) == 21.5


def test_the_time_to_live_of_the_page_is_one() -> None:
    assert isinstance(eval(block("docs/state.md", 4), {"ss": ss}), ss.Ttl)  # noqa: S307 -- the page's own code


def test_the_totals_over_whole_tables_add_up() -> None:
    harness = harness_of("docs/state.md", 6, "Totals", key="key", operator=operator, pa=pa)
    harness.feed({"key": 1, "value": 2}, {"key": 2, "value": 5})

    assert harness.feed({"key": 1, "value": 40}) == [{"key": 1, "total": 42}]


def test_the_sinks_of_the_page_can_be_made() -> None:
    codes = (block("docs/sinks.md", 2), block("docs/sinks.md", 3), block("docs/sinks.md", 4), block("docs/sinks.md", 5))
    sinks = [eval(code, {"ss": ss}) for code in codes]  # noqa: S307 -- the page's own code

    kinds = (ss.KafkaSink, ss.KafkaSink, ss.PostgresSink, ss.IcebergSink)
    assert [type(sink) for sink in sinks] == list(kinds)


def test_the_source_of_the_page_counts_under_its_lock() -> None:
    names: dict[str, object] = {}
    exec(block("docs/operator-state.md", 3), names)  # noqa: S102 -- the page's own code
    source, collected = _Counter(), []

    class Context:
        checkpoint_lock = source

        def collect(self, number: int) -> None:
            assert source.is_held
            collected.append(number)
            source.is_running = number < 2

    names["run"](source, Context())  # type: ignore[operator]

    assert (collected, source.offset) == ([0, 1, 2], 3)


class _Counter:
    """A source function, and the lock of its context."""

    def __init__(self) -> None:
        self.is_running, self.is_held, self.offset = True, False, 0

    def __enter__(self) -> None:
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


def test_the_master_hook_of_the_page_is_taken_by_a_job() -> None:
    job = ss.Job("words")

    exec(block("docs/operator-state.md", 4), {"ss": ss, "job": job})  # noqa: S102 -- the page's own code

    assert [hook.hook.identifier for hook in job.hooks] == ["shop"]


def test_the_example_of_the_harness_of_functions_holds() -> None:
    totals = {"ss": ss}
    exec(block("docs/index.md", 1), totals)  # noqa: S102 -- the page's own code

    exec(block("docs/reference/python.md", 4), {**totals, "KeyedHarness": KeyedHarness})  # noqa: S102 -- the page's own code


def test_the_reminder_of_the_page_fires_after_a_minute() -> None:
    noon = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    names: dict[str, object] = {"ss": ss, "timedelta": timedelta}
    exec(block("docs/state.md", 5).partition("\n\n\n")[0], names)  # noqa: S102 -- the page's own code
    harness = KeyedHarness(names["Reminder"](), key="customer", timers="event-time")  # type: ignore[operator]
    harness.feed({"customer": "ada", "time": noon})

    fired = harness.advance_watermark(noon + timedelta(minutes=1))

    assert fired == [("ada", int(noon.timestamp() * 1000) + 60_000)]
