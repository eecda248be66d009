"""The blocks of Python in the documentation that need Spark: whole jobs are run, frames are planned."""

from __future__ import annotations

import operator
import re
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pagecode
import pandas as pd
import pyspark
import pytest
import statefulspark as ss
from pagecode import block
from statefulspark.declaration import QueryOutputs, read_result
from statefulspark.operators import functions
from statefulspark.testing import JobHarness, QueryHarness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
Start = Callable[..., JobHarness]

_IN_A_QUERY = """
import statefulspark as ss
{before}

job = ss.Job("page")


@job.query(uid="page")
def page(spark, ctx):
    {given}
{code}
    {ends}
"""
_TOTALS = """
class Totals(ss.KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.value_state("total")

    def process(self, key, rows, ctx):
        self.total.update((self.total.get() or 0) + sum(row.amount for row in rows))
        yield key, self.total.get()
"""
_MEAN = """
class Mean(ss.AggregateFunction):
    def create(self):
        return (0, 0)

    def add(self, accumulator, value):
        return (accumulator[0] + value, accumulator[1] + 1)

    def result(self, accumulator):
        return accumulator[0] / accumulator[1]
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """An empty folder, as the URI of a source."""
    (tmp_path / "input").mkdir()
    return (tmp_path / "input").as_uri()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        file = tmp_path / "job.py"
        file.write_text(text, encoding="utf-8")
        return file

    return written


def a_job_with(code: str, *, given: str, ends: str, before: str = "") -> str:
    """Return a job file with a block of a page in its query function."""
    return _IN_A_QUERY.format(before=before, given=given, code=textwrap.indent(code, "    "), ends=ends)


def rows_of(spark: SparkSession, columns: str) -> DataFrame:
    """Return a stream with these columns; it is planned and never run."""
    expressions = [
        f"CAST(NULL AS {kind}) AS {name}" for name, kind in (column.split() for column in columns.split(", "))
    ]
    return spark.readStream.format("rate").load().selectExpr(*expressions)


# Whole jobs


def test_the_job_of_the_first_page_runs(job_harness: Start, write: Callable[[str], Path], folder: str) -> None:
    job = job_harness(write(block("README.md", 1)), parameters={"input": folder, "output": f"{folder}/out"})
    job.add({"carrier": "UA", "dep_delay": 4}, {"carrier": "UA", "dep_delay": None})

    job.run()
    job.checkpoint()

    assert job.output() == [{"carrier": "UA", "flights": 2, "mean_delay": 2.0}]


def test_the_job_that_came_from_plain_spark_runs(job_harness: Start, write: Callable[[str], Path]) -> None:
    job = job_harness(write(block("docs/migrate/spark.md", 2)))
    job.add({"key": b"ada"}, {"key": b"ada"})

    job.run()

    assert job.output() == [{"customer": "ada", "count": 2}]


def test_bad_records_get_a_query_of_their_own(job_harness: Start, write: Callable[[str], Path]) -> None:
    head = f'import statefulspark as ss\n\njob = ss.Job("orders")\n{_TOTALS}\n\n'
    given = {"brokers": "nobody:9092", "output": "/nowhere/out", "bad": "/nowhere/bad"}
    job = job_harness(write(head + block("docs/howto/poison-records.md", 1)), parameters=given)
    job.add({"value": b'{"customer": "ada", "amount": 2}'}, {"value": b"no order"})

    job.run()
    job.checkpoint()

    assert job.output("totals") == [{"customer": "ada", "total": 2}]
    assert [bytes(row["value"]) for row in job.output("bad-orders")] == [b"no order"]  # type: ignore[call-overload]


def test_rows_that_a_function_puts_aside_have_a_sink_of_their_own(
    job_harness: Start, write: Callable[[str], Path]
) -> None:
    head = 'import statefulspark as ss\n\njob = ss.Job("orders")\nparse = int\n\n'
    given = {"brokers": "nobody:9092", "output": "/nowhere/out", "bad": "/nowhere/bad"}
    code = block("docs/howto/poison-records.md", 2) + "\n" + block("docs/howto/poison-records.md", 3)
    job = job_harness(write(head + code), parameters=given)
    job.add({"key": b"ada", "value": b"2"}, {"key": b"ada", "value": b"two"})

    job.run()
    job.checkpoint()

    assert job.output(sink="out") == [{"customer": "ada", "total": 2}]
    [bad] = job.output(sink="bad")
    assert bad["customer"] == "ada"
    assert str(bad["error"]).startswith("two: invalid literal")


def test_the_job_in_the_reference_counts_words(job_harness: Start, write: Callable[[str], Path], folder: str) -> None:
    code = f"import statefulspark as ss\n\n{block('docs/reference/python.md', 1)}"
    job = job_harness(write(code), parameters={"input": folder, "output": f"{folder}/out"})
    job.add({"value": "to be or not to be"})

    job.run()
    job.checkpoint()

    assert {row["word"]: row["count"] for row in job.output()} == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_the_example_of_the_harness_of_jobs_holds(
    job_harness: Start, write: Callable[[str], Path], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = f'orders = spark.readStream.schema("customer string, amount int").csv("{folder}")'
    keyed = (
        'totals = ss.keyed_process(orders, key="customer", function=Totals(), uid="by-customer", '
        'schema="customer string, total bigint")\n'
    )
    ends = 'return totals.writeStream.outputMode("update").format("console")'
    file = write(a_job_with(keyed, given=given, ends=ends, before=_TOTALS).replace('uid="page"', 'uid="totals"'))
    monkeypatch.chdir(file.parent)

    exec(block("docs/reference/python.md", 3), {"job_harness": job_harness})  # noqa: S102 -- the page's own code


def test_the_example_of_the_harness_of_queries_holds(query_harness: Callable[..., QueryHarness]) -> None:
    def alerts_of(cards: DataFrame) -> DataFrame:
        return cards.where("country <> 'AT'")

    code = block("docs/reference/python.md", 5)

    exec(code, {"query_harness": query_harness, "alerts_of": alerts_of, "noon": NOON})  # noqa: S102 -- the page's own code


# Parts of jobs, in a query that runs


def test_the_mean_of_the_page_about_state_is_kept(
    job_harness: Start, write: Callable[[str], Path], folder: str
) -> None:
    given = f'flights = spark.readStream.schema("carrier string, dep_delay int").csv("{folder}")'
    ends = 'return ss.write(state, sink=ss.sinks.FilesSink("/nowhere"), uid="out")'
    job = job_harness(write(a_job_with(block("docs/state.md", 1), given=given, ends=ends, before=_MEAN)))
    job.add({"carrier": "UA", "dep_delay": 4})
    job.run()
    job.restart()
    job.add({"carrier": "UA", "dep_delay": 8})

    job.run()
    job.checkpoint()

    assert job.output() == [{"carrier": "UA", "delay": 4.0}, {"carrier": "UA", "delay": 6.0}]


def test_the_timer_of_the_page_about_state_fires(job_harness: Start, write: Callable[[str], Path], folder: str) -> None:
    given = f'rows = spark.readStream.schema("customer string, time timestamp").json("{folder}")'
    ends = 'return ss.write(reminders, sink=ss.sinks.FilesSink("/nowhere"), uid="out")'
    before = "from datetime import timedelta"
    job = job_harness(write(a_job_with(block("docs/state.md", 5), given=given, ends=ends, before=before)))
    job.add({"customer": "ada", "time": NOON})
    job.run()

    job.advance_watermark(NOON + timedelta(minutes=2))
    job.checkpoint()

    assert job.output() == [{"customer": "ada", "due": NOON + timedelta(minutes=1)}]


def test_the_sink_function_of_the_page_gets_rows(
    job_harness: Start, write: Callable[[str], Path], folder: str, tmp_path: Path
) -> None:
    before = f'''
from pathlib import Path


class BufferingSink(ss.driver.SinkFunction):
    def __init__(self, threshold):
        self.threshold = threshold

    def invoke(self, value):
        Path("{tmp_path}", value.name).touch()
'''
    given = f'frame = spark.readStream.schema("name string").json("{folder}")'
    job = job_harness(write(a_job_with(block("docs/operator-state.md", 1), given=given, ends="", before=before)))
    job.add({"name": "ada"})

    job.run()

    assert (tmp_path / "ada").exists()


# Calls that make a frame, which is planned


@pytest.fixture
def names(spark_session: SparkSession) -> dict[str, object]:
    return {"ss": ss, "spark": spark_session}


def test_processors_and_functions_of_spark_are_taken_as_they_are(names: dict[str, object]) -> None:
    spark = names["spark"]
    df = rows_of(spark, "card string, id string, time timestamp").withWatermark("time", "1 second")  # type: ignore[arg-type]
    initial = spark.createDataFrame([("a",)], "id string")  # type: ignore[attr-defined]
    state = pyspark.sql.streaming.state

    def track(key: object, frames: Iterator[pd.DataFrame], _: object) -> Iterator[pd.DataFrame]:
        yield from frames

    given = {
        **names, "df": df, "initial": initial, "Fraud": _Processor, "Violations": _Processor, "track": track,
        "ALERTS": "card string", "REPORTS": "id string", "SESSIONS": "id string", "OPEN_SESSION": "n long",
        "GroupStateTimeout": state.GroupStateTimeout,
    }  # fmt: skip
    made: list[DataFrame] = []
    recording = _Recording(made)

    exec(block("docs/state.md", 7), {**given, "ss": recording})  # noqa: S102 -- the page's own code
    exec(block("docs/state.md", 8), {**given, "ss": recording})  # noqa: S102 -- the page's own code

    assert [(frame.columns, frame.isStreaming) for frame in made] == [(["card"], True), (["id"], True), (["id"], True)]


class _Processor(pyspark.sql.streaming.StatefulProcessor):
    """Declares nothing and says nothing."""

    def init(self, handle: object) -> None: ...

    def handleInputRows(self, key: object, rows: object, timer_values: object) -> Iterator[object]:  # noqa: N802 -- Spark's
        yield from ()

    def close(self) -> None: ...


class _Recording:
    """The library, or a public module of it, with a note of each frame that it makes."""

    def __init__(self, made: list[DataFrame], module: ModuleType = ss) -> None:
        self._made, self._module = made, module

    def __getattr__(self, name: str) -> object:
        call = getattr(self._module, name)
        if isinstance(call, ModuleType):
            return _Recording(self._made, call)

        def recorded(*arguments: object, **named: object) -> object:
            self._made.append(call(*arguments, **named))
            return self._made[-1]

        return recorded


def test_a_sink_is_written_to_as_the_page_says(names: dict[str, object]) -> None:
    rows = rows_of(names["spark"], "carrier string, delay double")  # type: ignore[arg-type]

    output = eval(block("docs/sinks.md", 1), {**names, "rows": rows})  # noqa: S307 -- the page's own code

    assert isinstance(output, ss.Output)


def test_several_sinks_of_the_page_fit_one_stream(names: dict[str, object]) -> None:
    totals = rows_of(names["spark"], "customer string, total bigint, day date")  # type: ignore[arg-type]

    code = block("docs/sinks.md", 2).removeprefix("return ")
    written = read_result(eval(code, {**names, "totals": totals}), "totals")  # noqa: S307 -- the page's own code

    assert isinstance(written, QueryOutputs)
    assert [written.schema_of(number).names for number in (0, 1)] == [
        ["customer", "total", "day"],
        ["customer", "total"],
    ]


def test_a_source_that_publishes_its_offsets_is_a_reader(names: dict[str, object]) -> None:
    reader = eval(block("docs/sinks.md", 7), names)  # noqa: S307 -- the page's own code

    assert callable(operator.attrgetter("load")(reader))


def test_a_source_function_has_the_columns_that_the_page_gives_it(names: dict[str, object]) -> None:
    class CounterSource(ss.driver.SourceFunction[int]):
        def run(self, ctx: object) -> None: ...

        def cancel(self) -> None: ...

    job_functions = functions.JobFunctions()
    with job_functions.collecting("page"):
        exec(block("docs/operator-state.md", 2), {**names, "CounterSource": CounterSource}, names)  # noqa: S102 -- the page's own code
    job_functions.close()

    assert (names["frame"].isStreaming, names["frame"].columns) == (True, ["n"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "code", [block("docs/upgrading.md", 1), block("docs/reference/python.md", 2)], ids=["upgrading", "reference"]
)
def test_a_source_gets_the_name_that_the_page_gives_it(code: str, names: dict[str, object], folder: str) -> None:
    exec(re.sub("s3a?://bucket/clicks", folder, code), names)  # noqa: S102 -- the page's own code

    assert names["clicks"].isStreaming  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("late", "seen", "left_out"),
    [
        pytest.param(None, ["first", "second"], None, id="everything is there"),
        pytest.param("data/second.parquet", ["first"], 2, id="data that is not there yet"),
        pytest.param("_commits/00000001.json", ["first"], 1, id="a commit file that is not there yet"),
    ],
)
def test_what_reads_a_files_sink_with_spark_reads_what_is_committed_and_there(
    names: dict[str, object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    late: str | None,
    seen: list[str],
    left_out: int | None,
) -> None:
    pagecode.an_output_of_files(tmp_path)
    if late is not None:
        (tmp_path / late).unlink()

    exec(block("docs/howto/read-output.md", 1), names)  # noqa: S102 -- the page's own code

    frame = names["read_output"](names["spark"], tmp_path.as_uri())  # type: ignore[operator]
    assert sorted(row.name for row in frame.collect()) == seen
    said = capsys.readouterr().out
    assert said == "" if left_out is None else f"batch {left_out} and what follows" in said
