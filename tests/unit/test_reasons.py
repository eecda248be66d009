"""Every reason that the product raises, and the exit code of a driver that ends for it: a new reason needs a line here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import statefulspark
from statefulspark import errors, failures
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.evolution import definitions

_ROOT = Path(statefulspark.__file__).parent
_CODES = {
    ExitCode.FAILED: """
        AlreadyActivated BatchPlanned EpochTaken GenerationChanged GenerationExists JarsMissing JavaMissing
        JavaUnsupported JvmEnded JvmNotStarted KeyGroupScattered KeysAlike PacksUnplaced
        LookCannotWrite ManifestMissing NoGeneration NotAStandby NotClaimed NotConfigured PlanUnreadable PortUnavailable
        QueryFailed SavepointExists SinkNotBound SnapshotGivenUp SourceUnknown SparkMissing SparkUnsupported StillStarting
        StandbyRefused StandingBy StoresApart Unexpected WrongKind
    """,
    ExitCode.USAGE: """
        AlreadyCanonical AnswerInvalid CaInvalid ColumnOverflow ColumnsInvalid ConfigInvalid ConfigMissing DriverNotTrusted
        DurationInvalid EndpointInvalid
        EngineMissing EngineSettingRefused ExtraMissing FileMissing FolderNotEmpty FolderUnwritable
        IcebergAccessDenied IcebergRefused IcebergTableMissing JobInvalid KafkaAccessDenied KafkaRefused KafkaTopicMissing
        LocalStorageRefused LocationInvalid MaxParallelismUnknown NameInvalid NameMissing NotASavepoint NullInState
        OutputRowInvalid OutputValueInvalid PartitionsInvalid PostgresAccessDenied PostgresKeyMissing
        PostgresRefused
        PostgresTableMissing RegionInvalid RequestInvalid RestoreMissing JobMissing RowUnsupported RowsDiffer
        SavepointLocationInvalid
        SizeImpossible SizeUnknown
        SecretMissing SinkFolderTaken SinkSchemaMismatch SnapshotClaimed SourceRowInvalid StateFormatUnsupported StateKept
        SinkUnknown SparkTooOld
        StateNotFound StateOwnedByAnother StateTypeUnsupported StateValueInvalid StateValueUnsupported StorageKeyInvalid
        StorageConditionsIgnored
        StorageMissing StorageUriInvalid TargetInsideSource TimerMomentInvalid TlsFileInvalid TlsFileMissing TlsIncomplete
        TlsKeyMismatch TokenMissing TokenWrong UrlInvalid
    """,
    ExitCode.FENCED: "Fenced",
    ExitCode.BAD_JOB: """
        BufferInvalid CodeArchiveInvalid CodeChecksumMismatch CodeMissing CodeTooLarge
        ColumnTypeUnsupported ColumnsAmbiguous
        FunctionInvalid FunctionNotCopyable GroupingInvalid HookFailed HookInvalid
        InitialStateInvalid InputNotStreaming JobFileMissing JobFileRaised KeyColumnUnknown KeyMissing
        KeyTypeUnsupported KeyedStateOutsideKey KeyedStateOutsideTable MaxParallelismInvalid MetricInvalid NoCurrentKey
        NoQueries
        NoQuery OffsetsGroupInvalid OperatorUidInvalid OperatorUidTaken OutputModeInvalid OutputSchemaInvalid
        ParallelismInvalid ParameterMissing ParametersInvalid QueryInvalid SchemaInvalid SessionRefused SinkInvalid
        SinkSettingRefused
        SourceNameTaken SourceNotSingle StateDeclaredTooLate StateNameInvalid StateNameTaken
        StateTypeInvalid StateValueTypeUnsupported TimeModeInvalid TimeoutInvalid TimerDomainMissing TimersInvalid
        TimersNotDeclared TtlCleanupInvalid TtlInvalid TtlNotPositive UidDuplicate UidInvalid WatermarkMissing
    """,
    ExitCode.INCOMPATIBLE_STATE: """
        AggregationChanged JoinChanged KeyChanged MaxParallelismChanged MaxParallelismExceeded NonRestoredState
        OperatorsAmbiguous OutputModeChanged OutputRepeated PartitionsChanged SinkAhead SinkOfAnotherJob
        SinkOpenedElsewhere SinkTaken
        SourcesAmbiguous SparkOlderThanState StateAbsent StateKeyTypeIncompatible
        StateModeIncompatible StateTtlIncompatible StateTypeIncompatible TimeZoneChanged ValueChanged WindowChanged
    """,
    ExitCode.SNAPSHOT_NOT_FOUND: "SnapshotNotFound",
    ExitCode.STORAGE_UNAVAILABLE: """
        AccessDenied ApiServerSlow CredentialsMissing DriverUnreachable IcebergRaced IcebergUnavailable KafkaRaced
        KafkaUnavailable NoSuchBucket PostgresLocked PostgresUnavailable StillInProgress StorageFailed StorageUnreachable
    """,
    ExitCode.STATE_UNKNOWN: """
        BatchNotCommitted BatchSkipped CanonicalFailed CanonicalMissing CanonicalUnreadable ChecksumDiffers ChunkMissing
        ChunkUnreadable ClosureIncomplete CommitLogBehind CopyIncomplete DocumentUnreadable EmptyStateFailed
        FormatVersionUnknown IcebergMarkerMissing IcebergPartitioningChanged IcebergTableReplaced KafkaMarkerLost
        KafkaMarkerUnreadable KeyGroupsDiffer NoCheckpointVerifies OperatorStateDamaged OtherLife RepartitionFailed
        RestoreUnknown
        SegmentDamaged SegmentMissing SinkBehind SinkHistoryForgotten SinkMarkerMissing SnapshotBroken
        SourceOffsetUnknown SparkLogUnreadable StagedRowsMissing StagedRowsUnreadable
        StateMissing StateWithoutCheckpoint StopUnseen
    """,
}
_EXPECTED = {reason: code for code, reasons in _CODES.items() for reason in reasons.split()}
_CLASSES = {name: found for name, found in vars(errors).items() if isinstance(found, type)} | {
    # Kinds of them that only their own modules know.
    "FilesAbsentError": errors.SnapshotCorruptError,
    "SinkBehindError": errors.StateUnknownError,
    "credentials_refused": errors.CredentialsRefusedError,
}
# Given as a variable where they are raised.
_FROM_TABLES = {refusal.reason: errors.SpecRejectedError for refusal in definitions._REFUSED.values()} | dict.fromkeys(
    ("KeyChanged", "ValueChanged", "OutputModeChanged"), errors.SpecRejectedError
)


def _raised() -> Iterator[tuple[str, type[errors.StatefulSparkError]]]:
    """Yield every reason in the source that is given to an error, with the error's class."""
    yield from _FROM_TABLES.items()
    for file in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[ast.Constant(value=reason), *_]):
                    if name in _CLASSES and isinstance(reason, str) and reason.isidentifier():
                        yield reason, _CLASSES[name]


@pytest.mark.parametrize(("reason", "kind"), sorted(set(_raised()), key=str))
def test_a_driver_that_ends_for_a_reason_has_the_exit_code_of_the_table(
    reason: str, kind: type[errors.StatefulSparkError]
) -> None:
    assert reason in _EXPECTED, f"{reason} has no exit code in this table: say what helps who gets it"
    assert failures.classify_error(kind(reason, "x")).code is _EXPECTED[reason]


def test_the_table_names_nothing_that_is_never_raised() -> None:
    assert sorted(_EXPECTED.keys() - {reason for reason, _ in _raised()}) == ["Fenced"]


def test_a_fenced_driver_ends_as_fenced() -> None:
    assert failures.classify_error(errors.FencedError("x")).code is _EXPECTED["Fenced"]
