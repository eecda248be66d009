"""Classifies failures: returns the exit code and reason for an error or for the text of one. Pure.

A failure that an unchanged restart would certainly repeat must not be retried; every unknown failure is retried, with
backoff.
The error classes are Spark's (`common/utils/src/main/resources/error/error-conditions.json`, Spark 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from statefulspark import errors, usercode
from statefulspark.contract import faults
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.judgement import Judgement, Remedy
from statefulspark.storage import judgements, s3a_judgements

_INCOMPATIBLE = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_SCHEMA_MUST_BE_NULLABLE",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
    "sources in the checkpoint offsets and now there are",
    # Raised by the product in a Python worker that opens a key group for the first time.
    "SpecRejectedError: StateKeyTypeIncompatible",
    "SpecRejectedError: StateTypeIncompatible",
    "SpecRejectedError: StateTtlIncompatible",
)
_DAMAGED = (
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
    "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
    "CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED",
    "CANNOT_LOAD_STATE_STORE.CANNOT_READ_",
    "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION",
    "CANNOT_LOAD_STATE_STORE.INVALID_CHECKPOINT_LINEAGE",
    "CANNOT_LOAD_STATE_STORE.SNAPSHOT_PARTITION_ID_NOT_FOUND",
    "CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE",
    "CANNOT_LOAD_STATE_STORE.UNEXPECTED_VERSION",
    "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
    "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
    # Raised by the product in a Python worker that reads chunks of keyed state.
    "SnapshotCorruptError: ",
)
_NEWER = "statefulspark.errors.FormatVersionError: "
"""State of a later release is not damaged: it gets no damage note, and no older state replaces it."""
_DAMAGED_WHILE_LOADING = (
    "java.io.FileNotFoundException",
    "java.io.EOFException",
    "java.util.zip.ZipException",
    "org.rocksdb.RocksDBException: Corruption",
    "java.io.IOException: Stream is corrupted",
    "com.github.luben.zstd.ZstdIOException",
    "Invalid checksum",
)
"""Causes that mean damage if a state store could not be loaded and Spark has no error class for the cause."""
_SLOW_START = (
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",
    "Python worker failed to connect back",
    "Timed out while waiting for the Python worker to connect back",
)
_STAGE_REPEATED = (
    "[STAGE_REPEATED]",
    "A shuffle map stage with indeterminate output was failed and retried",
)
_FILES_GONE = re.compile(r"\[INPUT_FILES_GONE\] [^\n]*?(?P<why>\d+ of its input files [^\n]*)")
"""How the check before the commit begins (`InputFiles` in `jobruntime/jvm`)."""
_INPUT_LOST = re.compile(
    r"Some data may have been lost because they are not available in Kafka any more(?:.*?Reason:\s*(?P<why>[^\n]+))?",
    re.DOTALL,
)
"""How Spark's Kafka source begins every error of its class KAFKA_DATA_LOSS, whose name is not in the text."""
_UNREACHABLE = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.SaslAuthenticationException",
    "org.apache.kafka.common.errors.SslAuthenticationException",
    "org.apache.kafka.common.errors.TopicAuthorizationException",
    "org.apache.kafka.common.errors.GroupAuthorizationException",
    "No resolvable bootstrap urls given in bootstrap.servers",
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketTimeoutException",
    "java.net.UnknownHostException",
)
"""How Spark's sources and sinks fail if the system behind them cannot be reached, or refuses its credentials."""
SYSTEM_UNREACHABLE = "SystemUnreachable"
STATE_DAMAGED = "StateDamaged"
_DECLARED_WRONGLY = (
    *("ColumnTypeUnsupported", "ColumnsAmbiguous"),
    *("CodeArchiveInvalid", "CodeChecksumMismatch", "CodeMissing", "CodeTooLarge"),
    *(
        "JobFileMissing",
        "JobFileRaised",
        "NoQueries",
        "NoQuery",
        "ParameterMissing",
        "ParametersInvalid",
        "QueryInvalid",
    ),
    *("OperatorUidInvalid", "OperatorUidTaken", "UidDuplicate", "UidInvalid"),
    *("HookFailed", "HookInvalid", "MetricInvalid"),
    *("FunctionInvalid", "FunctionNotCopyable", "MaxParallelismInvalid", "OutputModeInvalid", "OutputSchemaInvalid"),
    *("InputNotStreaming", "TimeoutInvalid", "WatermarkMissing"),
    *("ParallelismInvalid", "TimeModeInvalid", "TimerDomainMissing", "TimersInvalid", "TimersNotDeclared"),
    *(
        "GroupingInvalid",
        "InitialStateInvalid",
        "KeyColumnUnknown",
        "KeyMissing",
        "KeyTypeUnsupported",
    ),
    *("KeyedStateOutsideKey", "KeyedStateOutsideTable", "NoCurrentKey", "StateValueTypeUnsupported"),
    *("StateDeclaredTooLate", "StateNameInvalid", "StateNameTaken", "StateTypeInvalid"),
    *("TtlCleanupInvalid", "TtlInvalid", "TtlNotPositive"),
    *("BufferInvalid", "OffsetsGroupInvalid", "SchemaInvalid", "SessionRefused", "SinkInvalid", "SinkSettingRefused"),
    *("SourceNameTaken", "SourceNotSingle"),
)
"""Reasons that require a correction of the job file."""
_NOT_INSTALLED = frozenset(
    {"JarsMissing", "JavaMissing", "JavaUnsupported", "JvmEnded", "JvmNotStarted", "SparkMissing", "SparkUnsupported"}
)
"""Reasons of internal errors that say what to do; all others are bugs."""
_TRACEBACK = "Traceback (most recent call last)"
"""How Python's part of an error begins."""
_LONGEST = 800
"""Characters of what failed in a message."""
_RESTART_CONTINUES = "It continues when it is started again."
_BY_REASON = {
    "NonRestoredState": ExitCode.INCOMPATIBLE_STATE,
    "StateTypeIncompatible": ExitCode.INCOMPATIBLE_STATE,
    "StateTtlIncompatible": ExitCode.INCOMPATIBLE_STATE,
    "StateModeIncompatible": ExitCode.INCOMPATIBLE_STATE,
    "StateKeyTypeIncompatible": ExitCode.INCOMPATIBLE_STATE,
    # A changed job that cannot read its state; see evolution/comparison.py and evolution/definitions.py.
    "AggregationChanged": ExitCode.INCOMPATIBLE_STATE,
    "JoinChanged": ExitCode.INCOMPATIBLE_STATE,
    "KeyChanged": ExitCode.INCOMPATIBLE_STATE,
    "MaxParallelismChanged": ExitCode.INCOMPATIBLE_STATE,
    "MaxParallelismExceeded": ExitCode.INCOMPATIBLE_STATE,
    "OperatorsAmbiguous": ExitCode.INCOMPATIBLE_STATE,
    "OutputModeChanged": ExitCode.INCOMPATIBLE_STATE,
    "PartitionsChanged": ExitCode.INCOMPATIBLE_STATE,
    "SourcesAmbiguous": ExitCode.INCOMPATIBLE_STATE,
    "SparkOlderThanState": ExitCode.INCOMPATIBLE_STATE,
    "TimeZoneChanged": ExitCode.INCOMPATIBLE_STATE,
    "ValueChanged": ExitCode.INCOMPATIBLE_STATE,
    # A rollback that would not be harmless; see driver/starting/rollbacks.py.
    "OutputRepeated": ExitCode.INCOMPATIBLE_STATE,
    "StateAbsent": ExitCode.INCOMPATIBLE_STATE,
    # A sink that holds output which is not part of the state; see sinks/marker.py.
    "SinkAhead": ExitCode.INCOMPATIBLE_STATE,
    "SinkOfAnotherJob": ExitCode.INCOMPATIBLE_STATE,
    "SinkOpenedElsewhere": ExitCode.INCOMPATIBLE_STATE,
    "SinkTaken": ExitCode.INCOMPATIBLE_STATE,
    "WindowChanged": ExitCode.INCOMPATIBLE_STATE,
    "PortUnavailable": ExitCode.FAILED,
    "SnapshotNotFound": ExitCode.SNAPSHOT_NOT_FOUND,
    **dict.fromkeys(_DECLARED_WRONGLY, ExitCode.BAD_JOB),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """How the process ends after a failure."""

    code: ExitCode
    reason: str
    message: str


def classify_error(error: errors.StatefulSparkError) -> Failure:
    """Classify a StatefulSparkError."""
    message = f"{error.message} {usercode.REPORT_IT}" if is_a_bug(error) else error.message
    if isinstance(error, errors.FencedError):
        code = ExitCode.FENCED
    elif error.reason in _BY_REASON:
        code = _BY_REASON[error.reason]
    elif error.reason in faults.STORAGE or isinstance(error, errors.TransientError):
        code = ExitCode.STORAGE_UNAVAILABLE
    elif isinstance(error, errors.SpecRejectedError):
        code = ExitCode.USAGE
    else:
        code = ExitCode.STATE_UNKNOWN if isinstance(error, errors.StateUnknownError) else ExitCode.FAILED
    return Failure(code, error.reason, message)


def is_a_bug(error: errors.StatefulSparkError) -> bool:
    """Tell whether an error is a bug, which a person can only report."""
    return isinstance(error, errors.InternalError) and error.reason not in _NOT_INSTALLED


def classify_unexpected(error: Exception) -> Failure:
    """Classify an unexpected error: it is a bug, since an exception of the job's code is a `UserCodeError`."""
    message = f"The driver failed with {usercode.format_error(error)}. {usercode.REPORT_IT} {_RESTART_CONTINUES}"
    return Failure(ExitCode.FAILED, "DriverFailed", message)


def classify_query(uid: str, text: str, *, fenced: bool) -> Failure:
    """Classify the exception that ended a query.

    Args:
        uid: The query.
        text: Spark's message and stack trace.
        fenced: Whether the epoch's fence refused a write of this driver.
    """
    sentence = _sentence(uid, text)
    if fenced or "io.statefulspark.checkpoint.FencedException" in text:
        return Failure(ExitCode.FENCED, "Fenced", sentence)
    if any(marker in text for marker in _INCOMPATIBLE):
        return Failure(ExitCode.INCOMPATIBLE_STATE, "StateIncompatible", sentence)
    if _NEWER in text:
        return Failure(ExitCode.STATE_UNKNOWN, "FormatVersionUnknown", sentence)
    # A state file is missing or damaged; an unavailable store is no damage, because it says nothing about the file.
    cannot_load = "CANNOT_LOAD_STATE_STORE" in text and any(cause in text for cause in _DAMAGED_WHILE_LOADING)
    if cannot_load or any(marker in text for marker in _DAMAGED):
        return Failure(ExitCode.FAILED, STATE_DAMAGED, sentence)
    if lost_a_race(text):
        return Failure(ExitCode.FAILED, "ConcurrentDriver", sentence)
    if is_input_lost(text):
        return Failure(ExitCode.INPUT_LOST, "InputLost", _sentence_of_lost_input(uid, text))
    if reason := _storage_reason(text):
        return Failure(ExitCode.STORAGE_UNAVAILABLE, reason, sentence)
    if failed := _failure_of_s3a(text):
        message = f"The query {uid!r} failed: {failed.said[:_LONGEST].rstrip('. ')}; {failed.judgement.advice}."
        return Failure(ExitCode.STORAGE_UNAVAILABLE, _reason_of(failed.judgement), message)
    if is_system_unreachable(text):
        return Failure(ExitCode.STORAGE_UNAVAILABLE, SYSTEM_UNREACHABLE, sentence)
    return Failure(ExitCode.FAILED, "QueryFailed", sentence)


def is_system_unreachable(text: str) -> bool:
    """Tell whether a source or a sink of Spark could not reach its system; not of what the job's own Python code calls."""
    return _TRACEBACK not in text and any(marker in text for marker in _UNREACHABLE)


def _failure_of_s3a(text: str) -> s3a_judgements.S3aFailure | None:
    """Return how Spark itself could not use storage; None if the storage did what it was asked.

    A race that S3A lost is an answer: the object is gone, or has changed. The next start reads what there is then.
    """
    failed = s3a_judgements.find(text)
    return None if failed is None or failed.judgement.remedy is Remedy.LOST_RACE else failed


def _reason_of(judgement: Judgement) -> str:
    if judgement is judgements.BUCKET:
        return "NoSuchBucket"
    if judgement is judgements.NO_KEYS:
        return "CredentialsMissing"
    if judgement.remedy is Remedy.WAIT:
        return "StorageUnreachable"
    return "StorageFailed" if judgement.remedy is Remedy.PERSON else "AccessDenied"


def is_input_lost(text: str) -> bool:
    """Tell whether a source no longer has rows that a query has to read.

    They expired in Kafka, their topic was made anew, or their files are gone and the job does not go on without them.

    A restart of the query is safe, since it reads the same rows again or fails again.
    """
    return _INPUT_LOST.search(text) is not None or _FILES_GONE.search(text) is not None


def _sentence_of_lost_input(uid: str, text: str) -> str:
    if files := _FILES_GONE.search(text):
        return (
            f"The query {uid!r} cannot go on: {files['why']} Bring them back; or accept that they are lost: leave "
            "ignoreMissingFiles=false out of the source's options and the job's settings, and it goes on with its state and "
            "with the files that are there."
        )
    loss = _INPUT_LOST.search(text)
    why = "".join(f" {word}" for word in (loss["why"] or "").split()) if loss else ""
    return (
        f"The query {uid!r} cannot go on, because rows that it has not read are no longer in Kafka.{why} Bring them back; "
        "or accept that they are lost: give that source the option failOnDataLoss=false in the job, and it goes on with its "
        "state and with the rows that are there."
    )


def _storage_reason(text: str) -> str:
    """Return why the product could not use its storage in a Python worker; empty if the query failed of something else."""
    errors_of_python = [line.strip() for line in text.splitlines() if _is_python_error(line.strip())]
    of_storage = _OUR_STORAGE_ERROR.match(errors_of_python[-1]) if errors_of_python else None
    return of_storage["reason"] if of_storage else ""


def _sentence(uid: str, text: str) -> str:
    """Return the message for the error of a query: with the job's line, or with a request to report a bug."""
    what, calls = essence(text), calls_of_job(text)
    if _INTERNAL_ERROR in text:
        return f"The query {uid!r} failed: {what} {usercode.REPORT_IT}"
    is_named = not calls or f"{calls[-1].file} line {calls[-1].line}" in what
    return f"The query {uid!r} failed{'' if is_named else f' at {calls[-1].location}'}: {what}"


def calls_of_job(text: str) -> tuple[usercode.Frame, ...]:
    """Return the calls in the job's code that the exception of a query names; none for an internal error.

    An exception that the product did not wrap comes from a function that Spark itself called, such as a UDF. Storage that
    the product cannot reach is no failure of the job's code, whatever libraries the trace goes through.
    """
    is_of_storage = bool(_storage_reason(text)) or _failure_of_s3a(text) is not None
    return () if _INTERNAL_ERROR in text or is_of_storage else usercode.parse_frames(text)


def is_slow_start(text: str) -> bool:
    """Tell whether a query ended because a Python worker did not start in time, before it did any work.

    Python workers on the driver (of stateful operators, sources and the planner) come from
    `PythonWorkerFactory.createSimpleWorker`, which gives a new process ten seconds to connect back, without a setting (Spark
    4.2); a busy node may need longer. `StreamingPythonRunner` then waits for its first answer, with an error of its own.
    A restart of the query is safe: it continues at the end of its log.
    """
    return any(marker in text for marker in _SLOW_START)


def lost_a_race(text: str) -> bool:
    """Tell whether a query ended because another process wrote an entry of its log first.

    After a take-over that is the previous driver: it committed a batch after it had checked its epoch. A restart of the
    query is safe, since Spark reads the log again and continues after that batch.
    """
    return "CONCURRENT_STREAM_LOG_UPDATE" in text or "Multiple streaming queries are concurrently using" in text


def is_stage_repeated(text: str) -> bool:
    """Tell whether a batch was not committed because an executor was lost and one of its stages gave other rows again.

    Either the check before the commit found two states of one partition (`StateAttempts` in `jobruntime/jvm`), or Spark
    had used rows of the first attempt already. A restart of the query is safe: the batch runs again as a whole.
    """
    return any(marker in text for marker in _STAGE_REPEATED)


def essence(text: str, limit: int = _LONGEST) -> str:
    """Return the part that a person needs: the last Python error if there is one, else the first line of Spark's message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if not line.startswith(("at ", "File ", "^")) and _is_python_error(line)]
    chosen = python[-1] if python and _TRACEBACK in text else (lines[0] if lines else "no message")
    if chosen.startswith(_CALL_OF_JAVA):
        chosen = _java_error(lines[lines.index(chosen) + 1 :]) or chosen
    return _OUR_STORAGE_ERROR.sub("", _OUR_ERROR.sub("", chosen))[:limit]


def _java_error(lines: Sequence[str]) -> str:
    """Return what Java raised in a call from Python, and its innermost cause; empty if that is not in the text."""
    raised = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), "")
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return " ".join(part for part in (raised, *causes[-1:]) if part)


_CALL_OF_JAVA = "py4j.protocol.Py4JJavaError: "

_INTERNAL_ERROR = "statefulspark.errors.InternalError: "
_OUR_ERROR = re.compile(
    r"^statefulspark\.errors\.(?:SpecRejectedError|InvalidArgumentError|InvalidTypeError|ParameterMissingError"
    r"|CredentialsRefusedError|UserCodeError|InternalError): "
    r"(?:FunctionFailed: |Unexpected: )?"
)
_OUR_STORAGE_ERROR = re.compile(
    r"^statefulspark\.errors\.(?:StatefulSparkError|TransientError|StateUnknownError): "
    rf"(?P<reason>{'|'.join(sorted(faults.STORAGE))}): "
)


def _is_python_error(line: str) -> bool:
    name, separator, _ = line.partition(": ")
    return (
        bool(separator) and name.replace(".", "").isidentifier() and name.endswith(("Error", "Exception", "Interrupt"))
    )
