"""Each block of Python in the documentation runs in a test; here those that need no Spark."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import duckdb
import pagecode
import pyarrow as pa
import pytest
import s3server
import sinkcontexts
import sinkdrivers
import statefulspark as ss
from pagecode import block
from statefulspark import storage
from statefulspark.sinks.files import commits as files_commits
from statefulspark.storage import ObjectStore
from statefulspark.testing import KeyedHarness, TwoPhaseSinkContract

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

    assert names["read_output"](tmp_path.as_uri())["name"].to_pylist() == ["first", "second"]  # type: ignore[operator]


@pytest.mark.s3
@pytest.mark.parametrize("late", ["data", "a commit file"])
def test_at_a_replica_on_s3_the_page_reads_up_to_what_is_not_there_yet(
    s3: s3server.S3Server, capsys: pytest.CaptureFixture[str], late: str
) -> None:
    written, replica = (storage.open_store(f"s3://{s3.new_bucket()}/out", s3.options()) for _ in range(2))
    transactions = [files_commits.PreparedFiles.parse(commit_to(written, batch), "a test") for batch in range(5)]
    missing = transactions[2].files[1].path if late == "data" else files_commits.commit_key(2)
    for info in written.list(""):
        if info.key != missing:
            replica.write(info.key, written.read(info.key))
    access = f"{s3server.ACCESS_KEY}:{s3server.SECRET_KEY}@{replica.uri.removeprefix('s3://')}"
    uri = f"s3://{access}?scheme=http&endpoint_override={s3.endpoint.removeprefix('http://')}"
    names: dict[str, Callable[[str], pa.Table]] = {}
    exec(block("docs/howto/read-output.md", 2), names)  # noqa: S102 -- the page's own code

    before = names["read_output"](uri)["batch"].to_pylist()
    said = capsys.readouterr().out
    replica.write(missing, written.read(missing))
    after = names["read_output"](uri)["batch"].to_pylist()

    assert before == [0, 0, 1, 1]
    assert "batch 2 and what follows" in said
    assert (after, capsys.readouterr().out) == ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], "")


def commit_to(folder: ObjectStore, batch: int) -> bytes:
    """Commit a batch of two files, as the driver of a job does; return its transaction."""
    sink, context = sinkdrivers.MemoryFiles(folder.uri, folder=folder), sinkcontexts.a_sink_context(batch_id=batch)
    if not batch:
        sink.open(replace(context, batch_id=-1))
    rows = [pa.RecordBatch.from_pydict({"batch": [batch]})]
    parts = [sink.write_part(iter(rows), context) for _ in range(2)]
    transaction = sink.prepare(tuple(part for part in parts if part), context)
    assert transaction is not None
    sink.commit(transaction, context)
    return transaction


@pytest.mark.parametrize(
    ("late", "seen", "incomplete"),
    [
        pytest.param(None, [("first",), ("second",)], None, id="everything is there"),
        pytest.param("data/second.parquet", [("first",)], 2, id="data that is not there yet"),
        pytest.param("_commits/00000001.json", [("first",)], 2, id="a commit file that is not there yet"),
    ],
)
def test_duckdb_reads_of_a_files_sink_what_is_committed_and_there(
    tmp_path: Path, late: str | None, seen: list[tuple[str]], incomplete: int | None
) -> None:
    pagecode.an_output_of_files(tmp_path)
    query = block("docs/howto/read-output.md", 1, language="sql").replace("s3://bucket/output", tmp_path.as_posix())
    if late is not None:
        (tmp_path / late).unlink()

    with duckdb.connect() as session:
        assert sorted(session.execute(query).fetchall()) == seen
        assert session.execute("SELECT getvariable('incomplete')").fetchall() == [(incomplete,)]


def test_a_function_that_loads_a_model_does_so_on_workers_only() -> None:
    loaded: list[str] = []
    names: dict[str, type[ss.KeyedProcessFunction]] = {"ss": ss, "load_model": loaded.append}  # type: ignore[dict-item]
    exec(block("docs/state.md", 2), names)  # noqa: S102 -- the page's own code

    class Scores(names["Scores"]):  # type: ignore[misc, name-defined, valid-type]
        def process(self, key: object, rows: object, ctx: object) -> list[object]:
            return [self.last.get()]

    assert KeyedHarness(Scores(), key="customer").feed({"customer": "ada"}) == [None]
    assert set(loaded) == {"/models/scores"}


def test_the_codec_of_the_page_reads_both_of_its_versions() -> None:
    names: dict[str, type[ss.codecs.Codec[float]]] = {"ss": ss}  # type: ignore[dict-item]
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
    codes = (block("docs/sinks.md", 3), block("docs/sinks.md", 5), block("docs/sinks.md", 6))
    sinks = [eval(code, {"ss": ss}) for code in codes]  # noqa: S307 -- the page's own code

    assert [type(sink) for sink in sinks] == [ss.sinks.KafkaSink, ss.sinks.PostgresSink, ss.sinks.IcebergSink]


def test_the_connection_of_the_page_is_for_source_and_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "of-the-page")
    spark = mock.MagicMock()
    names: dict[str, object] = {"ss": ss, "spark": spark}
    exec(block("docs/sinks.md", 4), names)  # noqa: S102 -- the page's own code

    given = spark.readStream.format.return_value.options.call_args.kwargs
    assert 'password="of-the-page"' in given["kafka.sasl.jaas.config"]
    sink = names["sink"]
    assert isinstance(sink, ss.sinks.KafkaSink)
    assert sink.options["sasl.username"] == "job"


def test_the_parameters_of_the_page_are_those_of_the_job() -> None:
    job = ss.Job("sessions")
    names = {"ss": ss, "job": job, "dataclass": dataclass, "datetime": datetime, "timedelta": timedelta}
    code = compile(block("docs/cli.md", 1), "a page", "exec", dont_inherit=True)
    exec(code, names)  # noqa: S102 -- the page's own code

    context = job.definition.context(
        "sessions", "default", {"brokers": "kafka:9092", "topics": "orders,returns", "gap": "90s"}
    )

    assert context.parameters.topics == ("orders", "returns")
    assert context.parameters.gap == timedelta(seconds=90)


def test_the_function_of_the_page_counts_and_measures() -> None:
    harness = harness_of("docs/metrics.md", 1, "Orders")

    harness.feed({"customer": "ada", "time": datetime(2026, 5, 1, tzinfo=UTC), "amount": 5})

    assert harness.metrics == {"late_orders": 0, "largest_order": 5}


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

    assert [hook.hook.uid for hook in job.hooks] == ["shop"]


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

    assert fired == [("ada", noon + timedelta(minutes=1))]


_SINK_OF_THE_PAGE: dict[str, type[TwoPhaseSinkContract]] = {}
exec(block("docs/sinks.md", 8), _SINK_OF_THE_PAGE)  # noqa: S102 -- the page's own code
exec(block("docs/sinks.md", 9), _SINK_OF_THE_PAGE)  # noqa: S102 -- the page's own code


class TestSqliteSink(_SINK_OF_THE_PAGE["TestSqliteSink"]):  # type: ignore[misc, valid-type]
    """The tests of the page's sink."""
