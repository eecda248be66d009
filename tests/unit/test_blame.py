# ruff: noqa: N802, N803, N815 - processors have Spark's names
"""Whose failure it is, only the type of the error tells: each call of the user's code, and our own failures beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
import sinkdrivers
import statefulspark as ss
from fakehooks import Bookmarks
from machines import files_sink
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming.state import GroupState
from sinkcontexts import a_sink_context, a_written_query
from snapshots import Clock
from statefulengine import Engine
from statefulspark import errors, failures, launch, operatorstate, usercode
from statefulspark.contract import api, config
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.driver.output import parts
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import start
from statefulspark.hooks import HookDefinition
from statefulspark.operators import functions, spark_errors
from statefulspark.operators.groupstate import frames, timeouts
from statefulspark.operators.groupstate import function as group_function
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import function, inputs, modes, processor, wrapping
from statefulspark.operatorstate import subtasks
from statefulspark.operatorstate.batches import SinkRun
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.sinks import base
from statefulspark.sinks.kafka import records
from statefulspark.sources import running
from statefulspark.state import evolution
from statefulspark.state import functions as state_functions
from statefulspark.state.types import conversions, typetext
from statefulspark.testing import stores
from transformworld import KEY, schema

HERE = str(Path(__file__))
AT = operatorstate.FunctionSnapshotContext(checkpoint_id=5, when=datetime.fromtimestamp(0, UTC))
_EMPTY = StartPlan(StartMode.EMPTY, 1)


def fail(*_: object, **__: object) -> None:
    """What every user function here does: it raises inside a library that it calls."""
    json.loads("{")


# What the user writes


class KeyedFails(ss.KeyedProcessFunction):
    process = fail


class KeyedCannotOpen(ss.KeyedProcessFunction):
    open = fail


class KeyedCannotClose(ss.KeyedProcessFunction):
    close = fail

    def process(self, key: object, rows: object, ctx: object) -> None:
        """Do nothing."""


class KeyedYieldsThenFails(ss.KeyedProcessFunction):
    def process(self, key: object, rows: object, ctx: object) -> Iterator[object]:
        yield ("a",)
        fail()


class TimerFails(ss.KeyedProcessFunction):
    on_timer = fail

    def process(self, key: object, rows: object, ctx: state_functions.KeyedContext) -> None:
        ctx.timers.set(ctx.processing_time)


class TableFails(state_functions.VectorizedProcessFunction):
    process_table = fail


class Processor(stateful_processor.StatefulProcessor):
    def init(self, handle) -> None:
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues):
        self.handle.registerTimer(1)
        return iter([])


class ProcessorCannotInit(Processor):
    init = fail


class ProcessorFails(Processor):
    handleInputRows = fail


class ProcessorTimerFails(Processor):
    handleExpiredTimer = fail


class ProcessorInitialFails(Processor):
    handleInitialState = fail


class ProcessorCannotClose(Processor):
    close = fail


def state_function_fails(
    key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"key": ["a"], "n": [1]})
    fail()


class SinkFunction(
    operatorstate.SinkFunction[object], operatorstate.CheckpointedFunction, operatorstate.CheckpointListener
):
    """A sink function whose named method raises."""

    def __init__(self, failing: str | None = None) -> None:
        if failing is not None:
            setattr(self, failing, fail)

    def __deepcopy__(self, _: object) -> SinkFunction:
        return self

    def invoke(self, value: object) -> None:
        """Do nothing."""

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        """Do nothing."""

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        """Do nothing."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Do nothing."""


class SourceFails(operatorstate.SourceFunction[int]):
    run = fail

    def cancel(self) -> None:
        """Do nothing."""


class OwnSink:
    """A sink of the job's own whose named method raises."""

    def __init__(self, failing: str) -> None:
        setattr(self, failing, fail)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: base.SinkContext) -> bytes | None:
        return None

    def prepare(self, parts: tuple[bytes, ...], context: base.SinkContext) -> bytes | None:
        return b"{}"

    def open(self, context: base.SinkContext) -> None:
        """Do nothing."""

    def commit(self, transaction: bytes, context: base.SinkContext) -> None:
        """Do nothing."""

    def abort(self, transaction: bytes, context: base.SinkContext) -> None:
        """Do nothing."""


class OldCodec(conversions.Codec[object]):
    name = "old"
    version = 2
    compatibility = fail


class MigratingCodec(conversions.Codec[object]):
    name = "old"
    version = 2
    migrate = fail

    def compatibility(self, stored: conversions.CodecVersion) -> conversions.CodecCompatibility:
        return conversions.CodecCompatibility.AFTER_MIGRATION


class HookFails(Bookmarks):
    restore = reset = trigger = fail


# Where the product calls it


def _settings(uid: str, *, key: str = "key", **more: object) -> keyed_processor.OperatorSettings:
    given: dict[str, object] = {"key_type": "string", "schema": schema("key string, n bigint"), "timezone": "UTC"}
    return keyed_processor.OperatorSettings(uid=uid, key=(key,), disk_bytes=0, **{**given, **more})  # type: ignore[arg-type]


def _batch(make: Callable[[], stateful_processor.StatefulProcessor], **more: object) -> None:
    table = pa.table({"key": ["a"], "n": [1], "key_group": pa.array([0], pa.int32())})
    Engine(make, "ProcessingTime").batch(table, now_ms=5, **more)  # type: ignore[arg-type]


def keyed(own: ss.KeyedProcessFunction, *, key: str = "key") -> None:
    domains = modes.TimeMode.PROCESSING_TIME.domains if isinstance(own, TimerFails) else frozenset()
    settings = _settings(type(own).__name__ + key, key=key, domains=domains)
    _batch(lambda: keyed_processor.KeyedProcessor(own, settings))


def transformed(own: Processor, *, key: str = "key") -> None:
    mode = modes.TimeMode.PROCESSING_TIME
    handed = processor.RowHandling(inputs.RowInputs([key]), inputs.RowInputs(["name"]), frames=False, late=None)
    settings = _settings(type(own).__name__ + key, domains=mode.domains)
    initial = pa.table({"name": ["x"], "key_group": pa.array([3], pa.int32())})
    _batch(
        lambda: processor.TransformProcessor(function.ProcessorFunction(own, mode, KEY), settings, handed),
        initial=initial if isinstance(own, ProcessorInitialFails) else None,
    )


def grouped(own: group_function.StateFunction, *, key: str = "key") -> None:
    given = frames.StateFrames(schema("key string, n bigint"), [key], pandas_options=frames.PandasOptions("UTC"))
    wrapped: Callable[[], wrapping.WrappedFunction] = lambda: group_function.GroupStateFunction(  # noqa: E731
        own,
        timeout=timeouts.Timeout.NONE,
        schema=schema("n bigint"),
        width=2,
        given=given,
        has_watermark=False,
    )
    handed = processor.RowHandling(given, None, frames=True, late=None)
    settings = _settings(f"grouped-{key}")
    _batch(lambda: group_function.GroupStateProcessor(wrapped(), settings, handed))  # type: ignore[arg-type]


def sink_run(failing: str | None = None) -> SinkRun:
    sink = operatorstate.DriverSink(SinkFunction(failing))
    return SinkRun("out", sink, restored=None, checkpoint_id=None)


def own_sink(failing: str) -> None:
    job = sinkdrivers.Driver(stores.MemoryStore("memory://bucket", Clock()), Clock(), None, sink=OwnSink(failing))  # type: ignore[arg-type]
    job.batch()
    job.checkpoint()


def write_part(sink: base.TwoPhaseSink) -> None:
    list(parts.write_parts("no batches", [parts.PartWriter(sink, a_sink_context())]))  # type: ignore[arg-type]


def running_source(own: operatorstate.SourceFunction[int]) -> None:
    source = running.RunningSource(subtasks.Subtasks("numbers", own, 1), columns=("n",), capacity=10)
    source.start()
    source.wait_for_rows(20)


def job_hooks(hook: Bookmarks | None) -> hooks.JobHooks:
    return hooks.JobHooks([HookDefinition("shop", hook)])  # type: ignore[arg-type]


def ask_hooks(asked: hooks.JobHooks) -> None:
    told: list[errors.StatefulSparkError] = []
    heard = threading.Event()

    def refused(_: str, error: errors.StatefulSparkError) -> None:
        told.append(error)
        heard.set()

    asked.trigger(1, 0, answered=lambda *_: None, refused=refused)
    assert heard.wait(20)
    raise told[0]


def build(own: Callable[..., object], declared: functions.JobFunctions | None = None) -> None:
    job = ss.Job("words")
    job.query(uid="counts")(own)  # type: ignore[arg-type]
    start.build_queries(job.definition, _CONFIG, None, _EMPTY, declared=declared)  # type: ignore[arg-type]


def compare(codec: conversions.Codec[object]) -> evolution.Verdict:
    return evolution._compare_codec(typetext.parse("codec<old,1>"), codec)


_USERS: dict[str, tuple[Callable[[], object], str]] = {
    "a query function": (lambda: build(fail), "JobFileRaised"),
    "restoring a hook": (
        lambda: job_hooks(HookFails("shop")).restore(StartPlan(StartMode.CONTINUE, 1, restored_from="x")),
        "HookFailed",
    ),
    "resetting a hook": (lambda: job_hooks(HookFails("shop")).restore(_EMPTY), "HookFailed"),
    "asking a hook": (lambda: ask_hooks(job_hooks(HookFails("shop"))), "HookFailed"),
    "opening a sink function": (lambda: sink_run("open"), "FunctionFailed"),
    "initialising a sink function": (lambda: sink_run("initialize_state"), "StateInitializationFailed"),
    "a row for a sink function": (lambda: sink_run("invoke").invoke(0, 1), "FunctionFailed"),
    "the state of a sink function": (lambda: sink_run("snapshot_state").end(AT), "SnapshotFailed"),
    "notifying a sink function": (
        lambda: sink_run("notify_checkpoint_complete").notify_complete(7),
        "NotifyFailed",
    ),
    "running a source function": (lambda: running_source(SourceFails()), "SourceFailed"),
    "a part for a sink of the job's own": (lambda: write_part(OwnSink("write_part")), "SinkFailed"),
    "opening a sink of the job's own": (lambda: own_sink("open"), "SinkFailed"),
    "committing to a sink of the job's own": (lambda: own_sink("commit"), "SinkFailed"),
    "a Kafka serializer": (
        lambda: list(records.encode(iter([pa.record_batch({"a": [1]})]), fail)),  # type: ignore[arg-type]
        "FunctionFailed",
    ),
    "the compatibility of a codec": (lambda: compare(OldCodec()), "FunctionFailed"),
    "the migration of a codec": (lambda: compare(MigratingCodec()).convert(1), "FunctionFailed"),  # type: ignore[misc]
    "rows of a keyed function": (lambda: keyed(KeyedFails()), "FunctionFailed"),
    "the generator of a keyed function": (lambda: keyed(KeyedYieldsThenFails()), "FunctionFailed"),
    "opening a keyed function": (lambda: keyed(KeyedCannotOpen()), "FunctionFailed"),
    "closing a keyed function": (lambda: keyed(KeyedCannotClose()), "FunctionFailed"),
    "the timer of a keyed function": (lambda: keyed(TimerFails()), "FunctionFailed"),
    "the table of a vectorized function": (lambda: keyed(TableFails()), "FunctionFailed"),
    "initialising a processor": (lambda: transformed(ProcessorCannotInit()), "FunctionFailed"),
    "rows of a processor": (lambda: transformed(ProcessorFails()), "FunctionFailed"),
    "the timer of a processor": (lambda: transformed(ProcessorTimerFails()), "FunctionFailed"),
    "initial state of a processor": (lambda: transformed(ProcessorInitialFails()), "FunctionFailed"),
    "closing a processor": (lambda: transformed(ProcessorCannotClose()), "FunctionFailed"),
    "a state function over frames": (lambda: grouped(state_function_fails), "FunctionFailed"),
}


@pytest.mark.parametrize(("call", "reason"), _USERS.values(), ids=_USERS)
def test_what_a_call_of_the_users_code_raises_is_told_as_theirs(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(errors.UserCodeError) as caught:
        call()

    error = caught.value
    assert (error.reason, type(error.raised), error.file) == (reason, json.JSONDecodeError, HERE)
    assert error.line == fail.__code__.co_firstlineno + 2
    assert "JSONDecodeError: Expecting property name" in error.message
    assert usercode.REPORT_IT not in failures.classify_error(error).message


class ListFails(functions.JobFunctions):
    """Our own list of functions, broken."""

    def declare(self, query_uid: str, output: object) -> None:
        raise LookupError(query_uid)


_OURS: dict[str, Callable[[], object]] = {
    "after a query function": lambda: build(
        lambda *_: a_written_query(None, frame=SimpleNamespace(columns=[])).outputs[0], ListFails()
    ),
    "around a hook that is asked": lambda: ask_hooks(job_hooks(None)),
    "around a hook that is restored": lambda: job_hooks(None).restore(_EMPTY),
    "before a function is initialised": lambda: subtasks.Subtasks(
        "out", SinkFunction("initialize_state"), 1
    ).initialize(
        "no state",  # type: ignore[arg-type]
        None,
    ),
    "before a function is asked for its state": lambda: sink_run("snapshot_state").end(None),  # type: ignore[arg-type]
    "before a row goes to a function": lambda: sink_run("invoke").invoke("no partition", 1),  # type: ignore[arg-type]
    "of our own sink": lambda: write_part(files_sink("s3://bucket/out")),
    "of our own Kafka serializer": lambda: list(
        records.encode(iter([pa.record_batch({"a": [1]})]), records.JsonSerializer(key="no column"))
    ),
    "before a codec is asked": lambda: compare(None),  # type: ignore[arg-type]
    "before rows go to a keyed function": lambda: keyed(KeyedFails(), key="nowhere"),
    "before rows go to a processor": lambda: transformed(ProcessorFails(), key="nowhere"),
    "before frames go to a state function": lambda: grouped(state_function_fails, key="nowhere"),
}


@pytest.mark.parametrize("call", _OURS.values(), ids=_OURS)
def test_a_failure_of_ours_beside_a_call_of_the_users_code_is_not_blamed_on_it(call: Callable[[], object]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - anything but one type
        call()

    error = caught.value
    assert not isinstance(error, errors.UserCodeError | errors.SpecRejectedError)
    known = isinstance(error, errors.StatefulSparkError)
    failure = failures.classify_error(error) if known else failures.classify_unexpected(error)
    assert failure.code is ExitCode.FAILED
    assert usercode.REPORT_IT in failure.message


def test_a_failure_of_ours_in_a_worker_asks_for_a_report_and_names_no_line_of_the_job() -> None:
    with pytest.raises(errors.InternalError) as caught:
        keyed(KeyedFails(), key="nowhere")
    text = f"Traceback (most recent call last):\nstatefulspark.errors.InternalError: {caught.value}\n" + "\n".join(
        [*caught.value.__notes__, '  File "/app/job.py", line 3, in process']
    )

    message = failures.classify_query("counts", text, fenced=False).message

    assert message.startswith("The query 'counts' failed: Keyed operator 'KeyedFailsnowhere' failed with KeyError")
    assert message.endswith(usercode.REPORT_IT)
    assert "job.py" not in message
    assert "rows.py" in caught.value.__notes__[0]


def test_what_a_function_returned_and_what_it_put_into_state_are_the_users_too() -> None:
    class Answers(operatorstate.SinkFunction[object], operatorstate.ListCheckpointed[int]):
        def invoke(self, value: object) -> None:
            """Do nothing."""

        def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
            return 5  # type: ignore[return-value]

        def restore_state(self, state: list[int]) -> None:
            """Do nothing."""

    def updates(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        state._value, state._updated, state._defined = 5, True, True
        return []

    for call in (lambda: subtasks.Subtasks("out", Answers(), 1).snapshot(AT), lambda: grouped(updates)):
        with pytest.raises((errors.UserCodeError, errors.SpecRejectedError)):
            call()


def test_an_error_of_ours_that_users_code_passes_on_keeps_its_type() -> None:
    damaged = errors.SnapshotCorruptError("ChunkUnreadable", "x")

    def reads(*_: object) -> None:
        raise damaged

    class Reads(KeyedFails):
        process = reads  # type: ignore[assignment]

    with pytest.raises(errors.SnapshotCorruptError) as caught:
        keyed(Reads())

    assert caught.value is damaged


# What Spark itself raises


def test_a_query_that_spark_does_not_plan_is_refused_by_name_and_exit_code() -> None:
    with pytest.raises(errors.SpecRejectedError) as caught, spark_errors.refusing_plan("counts"):
        raise AnalysisException("no column `x`\n+- Project [x]")

    failure = failures.classify_error(caught.value)
    assert (failure.code, failure.reason) == (ExitCode.BAD_JOB, "QueryInvalid")
    assert failure.message == (
        "Spark rejects the query 'counts': AnalysisException: no column `x`. Correct it and apply the job again."
    )


def test_a_query_that_spark_does_not_start_may_be_tried_again() -> None:
    with pytest.raises(errors.StatefulSparkError) as caught, spark_errors.refusing_start("counts"):
        raise AnalysisException("the topic is away")

    failure = failures.classify_error(caught.value)
    assert (failure.code, failure.reason) == (ExitCode.FAILED, "QueryFailed")


@pytest.mark.parametrize(
    "error",
    [AnalysisException("x"), Py4JError("x"), OSError("disk full"), MemoryError()],
    ids=["Spark", "the gateway", "the machine", "its memory"],
)
def test_what_spark_or_the_machine_raises_is_no_bug_of_ours(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, spark_errors.ours("Writing a batch"):
        raise error

    assert caught.value is error


# Whole job files

_CONFIG = config.JobConfig(
    name="words", storage=config.StorageConfig(uri="file:///nowhere/at/all", allow_local_files=True)
)
_BROKEN_INSIDE = """
import statefulspark as ss

class Broken(ss.Job):
    '''Stands for the product: its own property is what fails, inside of job.run().'''

    @property
    def queries(self):
        raise LookupError('lost')

Broken('words').run()
"""


@pytest.fixture
def termination_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setattr(launch, "TERMINATION_LOG", path)
    return path


@pytest.mark.parametrize("report", [None, "text", "json"], ids=["run", "check", "check as json"])
def test_a_failure_of_the_driver_inside_of_a_job_file_was_blamed_on_the_file_under_check(
    report: str | None, tmp_path: Path, termination_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.py"
    file.write_text(_BROKEN_INSIDE)

    code = launch.run_file(file, _CONFIG, report=report)

    told = api.ExitReport.model_validate_json(termination_log.read_bytes())
    printed = capsys.readouterr()
    assert (code, told.reason) == (ExitCode.FAILED, "DriverFailed")
    assert told.message.startswith(f"The driver failed with LookupError: lost. {usercode.REPORT_IT}")
    assert "in definition" in printed.err
    assert printed.out == ""


def test_a_library_that_the_job_file_calls_is_told_at_the_line_of_the_file(
    tmp_path: Path, termination_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.py"
    file.write_text("import json\n\ndef parse():\n    json.loads('{')\n\nparse()\n")

    code = launch.run_file(file, _CONFIG)

    told = api.ExitReport.model_validate_json(termination_log.read_bytes())
    assert (code, told.reason) == (ExitCode.BAD_JOB, "JobFileRaised")
    assert told.message.startswith(f"The job file {file} line 4 raised JSONDecodeError: ")
    shown = capsys.readouterr().err
    assert f'File "{file}", line 4, in parse' in shown
    assert "decoder.py" not in shown
