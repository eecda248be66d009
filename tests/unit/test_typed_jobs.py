"""Jobs as users write them, for a type checker: right ones have no error, and a mistake is reported at its line.

One mypy process checks all of them, strictly. `make types` checks the examples and the template.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pagecode
import pytest
from mypy import api as mypy_api

_PRELUDE = """
from __future__ import annotations

import dataclasses
import datetime
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
"""
_SETTINGS = """
[mypy]
strict = True
check_untyped_defs = True

[mypy-pandas.*,pyarrow.*,kubernetes.*,fsspec.*,s3fs.*,botocore.*,aiobotocore.*,py4j.*,msgpack.*,confluent_kafka.*]
ignore_missing_imports = True

[mypy-statefulspark.*]
follow_imports = silent
disable_error_code = misc

[mypy-pages.*]
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
"""
_RIGHT = {
    "a value": """
        class Totals(ss.KeyedProcessFunction[str, tuple[str, int]]):
            def open(self, ctx: ss.KeyedContext[str]) -> None:
                self.total = ctx.value_state("total", int)

            def process(
                self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext[str]
            ) -> Iterator[tuple[str, int]]:
                total = (self.total.get() or 0) + sum(row.amount for row in rows)
                self.total.update(total)
                yield ctx.key, total
    """,
    "a function without types of its own": """
        class Totals(ss.KeyedProcessFunction):
            def open(self, ctx: ss.KeyedContext) -> None:
                self.total: ss.ValueState[int] = ctx.value_state("total", int)

            def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[object]:
                yield key, self.total.get()
    """,
    "a record": """
        class Spent(NamedTuple):
            orders: int
            amount: float


        def declare(ctx: ss.KeyedContext) -> float:
            state = ctx.value_state("spent", Spent)
            before = state.get() or Spent(0, 0.0)
            state.update(before._replace(orders=before.orders + 1))
            return before.amount
    """,
    "a type of Spark as text": """
        def declare(ctx: ss.KeyedContext) -> int:
            state = ctx.value_state("total", "bigint")
            before = state.get() or 0
            return before + 1
    """,
    "a list": """
        def declare(ctx: ss.KeyedContext) -> list[float]:
            state = ctx.list_state("seen", float)
            state.add_all([1.0, 2.5])
            return state.get()
    """,
    "a map": """
        def declare(ctx: ss.KeyedContext) -> int:
            state = ctx.map_state("latest", str, datetime.datetime)
            for name, moment in state.items():
                state.put(name.lower(), moment + datetime.timedelta(days=1))
            return len(state) if "a" in state else state["b"].year
    """,
    "a reducing state": """
        def declare(ctx: ss.KeyedContext) -> int:
            state = ctx.reducing_state("sum", operator.add, int)
            state.add(1)
            return state.get() or 0
    """,
    "an aggregating state": """
        class Mean:
            def create(self) -> tuple[int, float]:
                return 0, 0.0

            def add(self, accumulator: tuple[int, float], value: float) -> tuple[int, float]:
                return accumulator[0] + 1, accumulator[1] + value

            def result(self, accumulator: tuple[int, float]) -> float:
                return accumulator[1] / accumulator[0]


        def declare(ctx: ss.KeyedContext) -> ss.AggregatingState[float, float]:
            return ctx.aggregating_state("mean", Mean())
    """,
    "the columns of a row": """
        def late(rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> list[datetime.datetime]:
            return [row.time + datetime.timedelta(minutes=row["minutes"]) for row in rows if ctx.is_late(row.time)]
    """,
    "timers": """
        class Reminder(ss.KeyedProcessFunction[str, tuple[str, datetime.datetime]]):
            def open(self, ctx: ss.KeyedContext[str]) -> None:
                self.seen = ctx.value_state("seen", int, ttl=ss.Ttl("7d", cleanup_incrementally=10))

            def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext[str]) -> None:
                due = ctx.processing_time + datetime.timedelta(hours=1)
                if ctx.watermark is None or ctx.watermark < due:
                    ctx.timers.set(due)
                for when in ctx.timers.list():
                    ctx.timers.delete(when)

            def on_timer(
                self, when: datetime.datetime, ctx: ss.KeyedContext[str]
            ) -> Iterator[tuple[str, datetime.datetime]]:
                ctx.timers.set(when + datetime.timedelta(days=1), domain="processing-time")
                if ctx.time_domain == "event-time":
                    yield ctx.key, when
    """,
    "durations": """
        class Bookmark(ss.driver.MasterHook):
            uid = "shop"

            def trigger(self, checkpoint_id: int, when: datetime.datetime) -> bytes | None:
                return f"{checkpoint_id} {when.year}".encode()

            def restore(self, checkpoint_id: int, state: bytes | None) -> None:
                return None


        job = ss.Job("words")
        job.hook(Bookmark(), timeout="10s")
        job.hook(Bookmark(), timeout=datetime.timedelta(seconds=10))
        lives = (ss.Ttl("7d"), ss.Ttl(datetime.timedelta(days=7), update=ss.TtlUpdate.ON_READ_AND_WRITE))
        sink = ss.sinks.KafkaSink("t", bootstrap_servers="b:1", offsets_kept="7d")
    """,
    "parameters": """
        @dataclasses.dataclass(frozen=True)
        class Parameters:
            brokers: str
            rows: int = 20


        job = ss.Job("words")
        job.parameters(Parameters)


        @job.query(uid="counts")
        def counts(spark: SparkSession, ctx: ss.QueryContext[Parameters]) -> ss.Output:
            rows = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameters.rows + 1).load()
            return ss.write(rows, sink=ss.sinks.FilesSink(ctx.parameters.brokers), uid="out")


        def given(ctx: ss.QueryContext) -> tuple[str, int, bool, datetime.timedelta]:
            gap = ctx.parameter("gap", datetime.timedelta(hours=1))
            return ctx.parameter("brokers"), ctx.parameter("rows", 20), ctx.parameter("fast", False), gap
    """,
    "operator state": """
        class Buffer(ss.driver.SinkFunction[tuple[str, int]], ss.driver.CheckpointedFunction):
            def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
                self.kept = context.operator_state_store.list_state("kept", int)
                self.rules = context.operator_state_store.broadcast_state("rules", int, str)

            def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
                self.kept.update([len(self.rules.get(1) or "")])

            def invoke(self, value: tuple[str, int]) -> None:
                self.kept.add(value[1])


        sink = ss.sinks.DriverSink(Buffer())
    """,
}
_WRONG = {
    "a value of another type": """
        def declare(ctx: ss.KeyedContext) -> None:
            ctx.value_state("total", int).update("7")  # wrong
    """,
    "a value that may be absent": """
        def declare(ctx: ss.KeyedContext) -> int:
            return ctx.value_state("total", int).get() + 1  # wrong
    """,
    "a method that a value has not": """
        def declare(ctx: ss.KeyedContext) -> None:
            ctx.value_state("total", int).add(1)  # wrong
    """,
    "an element of another type": """
        def declare(ctx: ss.KeyedContext) -> None:
            ctx.list_state("seen", float).add("one")  # wrong
    """,
    "a key of another type in a map": """
        def declare(ctx: ss.KeyedContext) -> None:
            ctx.map_state("latest", str, int).put(1, 1)  # wrong
    """,
    "a function that reduces something else": """
        def longest(one: str, two: str) -> str:
            return max(one, two)


        def declare(ctx: ss.KeyedContext) -> None:
            ctx.reducing_state("longest", longest, int)  # wrong
    """,
    "a key of another type": """
        class Totals(ss.KeyedProcessFunction[str, tuple[str]]):
            def process(
                self,
                key: int,  # wrong
                rows: Sequence[ss.InputRow],
                ctx: ss.KeyedContext[str],
            ) -> Iterator[tuple[str]]:
                yield (ctx.key,)
    """,
    "an output of another type": """
        class Totals(ss.KeyedProcessFunction[str, tuple[str, int]]):
            def process(
                self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext[str]
            ) -> Iterator[tuple[str, int]]:
                yield key, key  # wrong
    """,
    "a parameter that is not declared": """
        @dataclasses.dataclass(frozen=True)
        class Parameters:
            rows: int = 20


        def show(ctx: ss.QueryContext[Parameters]) -> None:
            print(ctx.parameters.row)  # wrong
    """,
    "a parameter of another type": """
        def rows(ctx: ss.QueryContext) -> str:
            return ctx.parameter("rows", 20)  # wrong
    """,
    "an option that is spelled wrongly": """
        def totals(df: DataFrame, function: ss.KeyedProcessFunction) -> DataFrame:
            return ss.keyed_process(
                df, key="k", function=function, uid="u", schema="n int", timers="event_time"  # wrong
            )
    """,
    "a timer in milliseconds": """
        def declare(ctx: ss.KeyedContext) -> None:
            ctx.timers.set(1_000)  # wrong
    """,
    "a timer of no known clock": """
        def declare(ctx: ss.KeyedContext) -> None:
            ctx.timers.set(ctx.processing_time, domain="event_time")  # wrong
    """,
    "a watermark that may be absent": """
        def declare(ctx: ss.KeyedContext) -> int:
            return ctx.watermark.year  # wrong
    """,
    "a callback that expects milliseconds": """
        class Reminder(ss.KeyedProcessFunction):
            def on_timer(
                self,
                when: int,  # wrong
                ctx: ss.KeyedContext,
            ) -> None:
                return None
    """,
    "a clock that is compared with an unknown one": """
        def tell(ctx: ss.KeyedContext) -> bool:
            return ctx.time_domain == "event_time"  # wrong
    """,
    "a time to live in numbers": """
        lives = ss.Ttl(7)  # wrong
    """,
    "a time to live with parts": """
        lives = ss.Ttl(days=7)  # wrong
    """,
    "a timeout in seconds": """
        def register(job: ss.Job, hook: ss.driver.MasterHook) -> None:
            job.hook(hook, timeout=10)  # wrong
    """,
    "a sink that shows batches at no known time": """
        sink = ss.sinks.FilesSink("s3://bucket/out", visible="bacth")  # wrong
    """,
}


_ONE_FILE = ("docs/testing.md",)
"""Pages whose blocks are one file together."""


def _module(text: str) -> str:
    return _PRELUDE + "\n\n" + textwrap.dedent(text).strip() + "\n"


def _whole_blocks() -> dict[str, str]:
    """Return the blocks of Python in the pages that are whole, by page and number."""
    pages = sorted({*pagecode.ROOT.glob("*.md"), *pagecode.ROOT.glob("docs/**/*.md")})
    names = [page.relative_to(pagecode.ROOT).as_posix() for page in pages]
    return {
        f"{name}:{number}": code
        for name in names
        for number, code in enumerate(pagecode.blocks(name), 1)
        if "import statefulspark" in code and name not in _ONE_FILE
    }


def _checked(folder: Path, modules: dict[str, str]) -> dict[str, list[tuple[int, str]]]:
    """Return the errors in each module, by its name, as lines and messages."""
    (folder / "mypy.ini").write_text(_SETTINGS)
    (folder / "pages").mkdir()
    (folder / "pages" / "__init__.py").touch()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    cache = pagecode.ROOT / ".mypy_cache" / "jobs"
    said, failed, _ = mypy_api.run(
        [f"--config-file={folder / 'mypy.ini'}", f"--cache-dir={cache}", "--no-error-summary", "--no-pretty"]
        + [f"{name}.py" for name in modules]
    )
    assert not failed
    found: dict[str, list[tuple[int, str]]] = {name: [] for name in modules}
    for file, line, message in re.findall(r"^(.+)\.py:(\d+): error: (.*)$", said, re.MULTILINE):
        found.setdefault(file, []).append((int(line), message))
    return found


def test_right_jobs_pass_strictly_and_each_mistake_is_reported_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # The cache has messages with their paths.
    monkeypatch.setenv("MYPYPATH", str(pagecode.ROOT / "jobruntime" / "src"))
    modules: dict[str, str] = {}
    expected: dict[str, list[int]] = {}
    for kind, jobs in (("right", _RIGHT), ("wrong", _WRONG)):
        for number, text in enumerate(jobs.values()):
            module = _module(text)
            modules[f"{kind}_{number}"] = module
            expected[f"{kind}_{number}"] = [
                line for line, code in enumerate(module.splitlines(), 1) if code.endswith("# wrong")
            ]
    for number, code in enumerate(_whole_blocks().values()):
        modules[f"pages/block_{number}"], expected[f"pages/block_{number}"] = code, []

    found = _checked(tmp_path, modules)

    lines = {name: [line for line, _ in errors] for name, errors in found.items()}
    assert lines == expected, {name: errors for name, errors in found.items() if lines[name] != expected.get(name)}
