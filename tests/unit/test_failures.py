"""Which failure an unchanged restart can heal, and which not."""

from __future__ import annotations

import pytest
from statefulspark import errors, failures
from statefulspark.contract.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.FencedError("epoch 8 runs"), ExitCode.FENCED),
        (errors.SpecRejectedError("NonRestoredState", "x"), ExitCode.INCOMPATIBLE_STATE),
        (errors.SpecRejectedError("StateTypeIncompatible", "x"), ExitCode.INCOMPATIBLE_STATE),
        (errors.SpecRejectedError("SnapshotNotFound", "x"), ExitCode.SNAPSHOT_NOT_FOUND),
        (errors.SpecRejectedError("NoQueries", "x"), ExitCode.BAD_JOB),
        (errors.SpecRejectedError("EngineSettingRefused", "x"), ExitCode.USAGE),
        (errors.StateUnknownError("AccessDenied", "x"), ExitCode.STORAGE_UNAVAILABLE),
        (errors.StateUnknownError("NoSuchBucket", "x"), ExitCode.STORAGE_UNAVAILABLE),
        (errors.TransientError("StorageUnreachable", "x"), ExitCode.STORAGE_UNAVAILABLE),
        (errors.TransientError("PortUnavailable", "x"), ExitCode.FAILED),
        (errors.SnapshotCorruptError("SnapshotBroken", "x"), ExitCode.STATE_UNKNOWN),
        (errors.StateUnknownError("NoCheckpointVerifies", "x"), ExitCode.STATE_UNKNOWN),
        (errors.PreconditionFailedError("CheckpointExists", "x"), ExitCode.FAILED),
        (errors.InternalError("JarsMissing", "x"), ExitCode.FAILED),
    ],
    ids=lambda value: value.reason if isinstance(value, errors.StatefulSparkError) else str(value.name),
)
def test_an_error_has_the_exit_code_that_says_what_helps(error: errors.StatefulSparkError, code: ExitCode) -> None:
    assert failures.classify_error(error) == failures.Failure(code, error.reason, error.message)


_PYTHON = """org.apache.spark.SparkException: Job aborted
  at org.apache.spark.Foo
Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 5, in main
    process()
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        pytest.param(_PYTHON, ExitCode.FAILED, "QueryFailed", id="an error in the user's function is retried"),
        pytest.param(
            "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] x",
            ExitCode.INCOMPATIBLE_STATE,
            "StateIncompatible",
            id="a changed schema is not",
        ),
        pytest.param(
            "Traceback (most recent call last):\nstatefulspark.errors.SpecRejectedError: StateTypeIncompatible: the state",
            ExitCode.INCOMPATIBLE_STATE,
            "StateIncompatible",
            id="a changed type of ours is not",
        ),
        pytest.param(
            "There are [1] sources in the checkpoint offsets and now there are [2]",
            ExitCode.INCOMPATIBLE_STATE,
            "StateIncompatible",
            id="another number of sources is not",
        ),
        pytest.param(
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: describeTopics",
            ExitCode.STORAGE_UNAVAILABLE,
            "SystemUnreachable",
            id="Kafka does not answer",
        ),
        pytest.param(
            "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\nCaused by: "
            "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
            ExitCode.STORAGE_UNAVAILABLE,
            "SystemUnreachable",
            id="the name of Kafka is not known",
        ),
        pytest.param(
            "org.postgresql.util.PSQLException: Connection refused\nCaused by: java.net.ConnectException: refused",
            ExitCode.STORAGE_UNAVAILABLE,
            "SystemUnreachable",
            id="a database refuses the connection",
        ),
        pytest.param("[CONCURRENT_STREAM_LOG_UPDATE] x", ExitCode.FAILED, "ConcurrentDriver", id="a race with another"),
        pytest.param("io.statefulspark.checkpoint.FencedException: epoch 8", ExitCode.FENCED, "Fenced", id="the fence"),
    ],
)
def test_a_query_that_failed_is_classified_by_what_spark_says(text: str, code: ExitCode, reason: str) -> None:
    failure = failures.classify_query("delays", text, fenced=False)

    assert (failure.code, failure.reason) == (code, reason)
    assert failure.message.startswith("The query 'delays' failed: ")


_LOST = "Some data may have been lost because they are not available in Kafka any more;"
_EXPIRED = f"""org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated: {_LOST}
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Partition clicks-0 offset was changed from 40 to 10.
This could be either 1) a user error that the start offset is set beyond available offset when starting query
\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream.latestOffset
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(_EXPIRED, " Partition clicks-0 offset was changed from 40 to 10.", id="and Spark says why"),
        pytest.param(f"java.lang.IllegalStateException: {_LOST} either", "", id="and Spark does not say why"),
    ],
)
def test_rows_that_kafka_no_longer_has_need_a_person_who_is_told_what_to_do(text: str, why: str) -> None:
    assert failures.classify_query("delays", text, fenced=False) == failures.Failure(
        ExitCode.INPUT_LOST,
        "InputLost",
        f"The query 'delays' cannot go on, because rows that it has not read are no longer in Kafka.{why} Bring them "
        "back; or accept that they are lost: give that source the option failOnDataLoss=false in the job, and it goes on "
        "with its state and with the rows that are there.",
    )


def test_input_files_that_are_gone_need_a_person_where_the_job_does_not_go_on_without_them() -> None:
    text = (
        "org.apache.spark.sql.streaming.StreamingQueryException: io.statefulspark.checkpoint.InputFilesGoneException: "
        "[INPUT_FILES_GONE] Batch 4 is not committed: 2 of its input files were listed and then gone before they were read, "
        "the first is s3a://in/4.json.\n\tat io.statefulspark.checkpoint.InputFiles.requireAll(InputFiles.java:51)"
    )
    assert failures.classify_query("delays", text, fenced=False) == failures.Failure(
        ExitCode.INPUT_LOST,
        "InputLost",
        "The query 'delays' cannot go on: 2 of its input files were listed and then gone before they were read, the first "
        "is s3a://in/4.json. Bring them back; or accept that they are lost: leave ignoreMissingFiles=false out of the "
        "source's options and the job's settings, and it goes on with its state and with the files that are there.",
    )


def test_a_fenced_driver_is_fenced_whatever_the_query_says() -> None:
    assert failures.classify_query("delays", _PYTHON, fenced=True).code is ExitCode.FENCED


_RAISED = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/statefulspark/driver/output/writing.py", line 88, in _write
    rows = frame.collect()
py4j.protocol.Py4JJavaError: An error occurred while calling o1292.collectToPython."""
_CALLED = f"""An exception was raised by the Python Proxy. Return Message: {_RAISED}
: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.
\tat org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider.loadStateStore
Caused by: java.util.concurrent.ExecutionException: x
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.SparkException: [CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] 3.zip
\t... 35 more
"""


@pytest.mark.parametrize(
    ("text", "essence"),
    [
        pytest.param(_PYTHON, "ZeroDivisionError: division by zero", id="the Python error below the stack"),
        pytest.param("java.io.IOException: disk full\n\tat x\n", "java.io.IOException: disk full", id="the first line"),
        pytest.param("", "no message", id="nothing"),
        pytest.param(
            _CALLED,
            "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading "
            "state. Caused by: org.apache.spark.SparkException: [CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] 3.zip",
            id="what Java raised in a call from Python, and why",
        ),
        pytest.param(f"{_RAISED}\n", _RAISED.splitlines()[-1], id="a call from Python of which Java says nothing"),
        pytest.param("y" * 5000, "y" * 800, id="not more than a screen"),
    ],
)
def test_a_person_gets_the_one_line_that_matters(text: str, essence: str) -> None:
    assert failures.classify_query("q", text, fenced=False).message == f"The query 'q' failed: {essence}"


_LOADING = "org.apache.spark.sql.execution.streaming.state.X: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] Checksum verification failed", "StateDamaged"),
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] x", "StateDamaged"),
        (f"{_LOADING}\nCaused by: java.io.FileNotFoundException: No such file 3_x.zip", "StateDamaged"),
        (f"{_LOADING}\nCaused by: org.rocksdb.RocksDBException: Corruption: block checksum mismatch", "StateDamaged"),
        ("Traceback\nstatefulspark.errors.SnapshotCorruptError: ChunkUnreadable: x", "StateDamaged"),
        ("java.io.FileNotFoundException: /data/input.csv", "QueryFailed"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log", "ConcurrentDriver"),
    ],
)
def test_damage_of_the_state_is_told_from_a_store_that_cannot_be_asked(text: str, reason: str) -> None:
    failure = failures.classify_query("delays", text, fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.FAILED, reason)


def test_a_state_store_that_cannot_be_asked_is_not_damaged() -> None:
    text = f"{_LOADING}\nCaused by: java.net.SocketTimeoutException: Read timed out"
    failure = failures.classify_query("delays", text, fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.STORAGE_UNAVAILABLE, "SystemUnreachable")


def test_state_that_a_later_release_wrote_is_not_noted_as_damage() -> None:
    text = "Traceback\nstatefulspark.errors.FormatVersionError: FormatVersionUnknown: The chunk x has format version 5"

    failure = failures.classify_query("delays", text, fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.STATE_UNKNOWN, "FormatVersionUnknown")


_OF_A_FUNCTION = """org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated
  File "/site-packages/statefulspark/operators/keyed/processor.py", line 96, in handleInputRows
    yield from self._work_on(self._group_of(key), table)
statefulspark.errors.UserCodeError: FunctionFailed: Count.process() of keyed operator 'by-k' failed: ValueError: bad.
Raised in the job's own code:
  File "/app/job.py", line 12, in process
    raise ValueError("bad")
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner
Traceback (most recent call last):
statefulspark.errors.UserCodeError: FunctionFailed: Count.process() of keyed operator 'by-k' failed: ValueError: bad.
"""


def test_a_function_that_raised_is_told_with_the_users_file_and_line() -> None:
    assert failures.classify_query("delays", _OF_A_FUNCTION, fenced=False).message == (
        "The query 'delays' failed at /app/job.py:12 in process: Count.process() of keyed operator 'by-k' failed: "
        "ValueError: bad."
    )


_STORAGE_GONE_FROM_A_WORKER = """org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated
\tat org.apache.spark.api.python.BasePythonRunner
Traceback (most recent call last):
  File "/site-packages/statefulspark/sources/feed.py", line 40, in read
    body = self._store.read(key)
  File "/site-packages/fsspec/asyn.py", line 63, in _runner
    result[0] = await coro
statefulspark.errors.{error}: {reason}: Could not read s3://bucket/segment at http://s3:9000: no answer.
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param("TransientError", "StorageUnreachable", id="gone"),
        pytest.param("StateUnknownError", "AccessDenied", id="refused"),
        pytest.param("StatefulSparkError", "StorageUnreachable", id="gone, as a source of the driver tells its reader"),
    ],
)
def test_storage_that_a_worker_cannot_reach_is_not_blamed_on_a_line_of_the_job(error: str, reason: str) -> None:
    text = _STORAGE_GONE_FROM_A_WORKER.format(error=error, reason=reason)

    assert failures.classify_query("counter", text, fenced=False) == failures.Failure(
        ExitCode.STORAGE_UNAVAILABLE,
        reason,
        "The query 'counter' failed: Could not read s3://bucket/segment at http://s3:9000: no answer.",
    )
    assert failures.calls_of_job(text) == ()


def test_an_error_of_the_job_that_only_mentions_unreachable_storage_is_the_jobs() -> None:
    text = 'Traceback (most recent call last):\n  File "/app/job.py", line 3, in process\n    raise\nValueError: '
    text += "statefulspark.errors.TransientError: StorageUnreachable: x\n"

    failure = failures.classify_query("counter", text, fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.FAILED, "QueryFailed")
    assert len(failures.calls_of_job(text)) == 1
