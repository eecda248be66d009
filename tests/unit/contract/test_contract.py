"""The wire contract: messages survive a round trip, and what cannot be read is refused by name.

`tests/unit/documents` proves the same of every kind of stored document.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from fakecontrol import a_status, a_summary
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from restores import a_restore
from statefulspark import errors
from statefulspark.contract import api, base, config, layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import (
    EpochRecord,
    FileEntry,
    Manifest,
    OperatorEntry,
    QueryEntry,
    SnapshotKind,
    Trigger,
)

_NOON = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
_QUERY = QueryEntry(
    uid="delays",
    batch_id=12,
    path="generations/00000003/delays",
    files=(FileEntry(path="state/0/0/12.changelog", size_bytes=100, checksum="etag:abc"),),
    operators=(OperatorEntry(uid="mean", operator_id=0, name="tws", partitions=4, max_parallelism=128),),
    offsets=('{"flights":{"0":41}}',),
)
_MANIFEST = Manifest(
    kind=SnapshotKind.CHECKPOINT,
    id=42,
    namespace="default",
    job="flights",
    trigger=Trigger.PERIODIC,
    epoch=7,
    generation=3,
    triggered_at=_NOON,
    completed_at=_NOON + timedelta(seconds=2),
    queries=(_QUERY,),
    request_id="r",
    savepoint_name="n",
    restored_from="checkpoint 41",
    revision="2",
    versions={"pyspark": "4.2.0"},
)


@pytest.mark.parametrize(
    "value",
    [
        a_status(last_checkpoint=a_summary()),
        api.SavepointRequest(request_id="a", location="s3://b/sp", name="nightly"),
        api.StopRequest(request_id="a", savepoint=False),
        api.Operation(
            request_id="a", kind=api.OperationKind.STOP, state=api.OperationState.COMPLETED, snapshot=a_summary()
        ),
        api.ExitReport(exit_code=13, reason="JobFileRaised", message="x"),
        config.JobConfig(
            name="w",
            storage=config.StorageConfig(uri="s3://b/p"),
            checkpoint=config.CheckpointConfig(interval=timedelta(milliseconds=1500)),
            restore=a_restore(snapshot="checkpoint:41", nonce="once"),
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_message_is_read_back_as_it_was_sent(value: base.WireModel) -> None:
    assert type(value).model_validate_json(value.to_json()) == value


@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param(b"", "the document", id="empty"),
        pytest.param(_MANIFEST.to_json().encode()[:-40], "the document", id="cut short"),
        pytest.param(b"[]", "the document", id="another kind of JSON"),
        pytest.param(b'{"kind": "checkpoint"}', "id", id="fields are missing"),
        pytest.param(
            _MANIFEST.to_json().encode().replace(b'"sizeBytes":100', b'"sizeBytes":-1'),
            "queries.0.files.0.sizeBytes",
            id="a size below zero",
        ),
    ],
)
def test_a_damaged_document_is_refused_by_its_place(body: bytes, named: str) -> None:
    with pytest.raises(errors.SnapshotCorruptError) as raised:
        Manifest.parse(body, "s3://b/x")

    assert raised.value.reason == "DocumentUnreadable"
    assert f"s3://b/x is no readable Manifest: {named}: " in raised.value.message


@given(st.integers(0, len(_MANIFEST.to_json()) - 1))
def test_a_manifest_that_was_cut_anywhere_is_never_taken_for_whole(length: int) -> None:
    with pytest.raises(errors.SnapshotCorruptError):
        Manifest.parse(_MANIFEST.to_json().encode()[:length], "s3://b/x")


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="no time zone"):
        EpochRecord(epoch=1, claimed_at=datetime(2026, 1, 1), holder="h", claim_id="c")


def test_a_time_is_kept_in_utc() -> None:
    berlin = datetime(2026, 11, 21, 13, 0, tzinfo=timezone(timedelta(hours=1)))

    record = EpochRecord(epoch=1, claimed_at=berlin, holder="h", claim_id="c")

    assert record.claimed_at.utcoffset() == timedelta(0)
    assert record.claimed_at == berlin


def test_sizes_and_labels_of_a_manifest_are_derived() -> None:
    assert (_MANIFEST.size_bytes, _MANIFEST.label) == (100, "checkpoint 42")


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (layout.job_prefix("default", "flights"), "default/flights"),
        (layout.epoch(7), "epochs/00000007.json"),
        (layout.generation(3), "generations/00000003"),
        (layout.generation_record(3), "generations/00000003/generation.json"),
        (layout.query_root(3, "delays"), "generations/00000003/delays"),
        (layout.checkpoint(42), "checkpoints/00000042"),
        (layout.checkpoint_manifest(42), "checkpoints/00000042/_metadata.json"),
        (layout.savepoint(43), "savepoints/00000043"),
        (layout.savepoint(43, "nightly"), "savepoints/00000043-nightly"),
    ],
)
def test_names_on_storage_stay_what_they_are(made: str, name: str) -> None:
    assert made == name


@given(st.integers(1, 10**12), st.sampled_from(["", "/", ".json", "-nightly", "-nightly/"]))
def test_a_number_is_read_back_from_every_name_it_is_in(value: int, suffix: str) -> None:
    assert layout.parse_number(layout.number(value) + suffix) == value


@pytest.mark.parametrize(
    "name", ["", "42", "00000042x", "x00000042", "000000042", "0000004 ", "_metadata.json", "\uff14" * 8]
)
def test_what_is_no_name_of_ours_has_no_number(name: str) -> None:
    assert layout.parse_number(name) is None


def test_exit_codes_stay_what_they_are() -> None:
    """The operator and scripts compare with the numbers."""
    assert {code.name: code.value for code in ExitCode} == {
        "SUCCESS": 0,
        "FAILED": 1,
        "USAGE": 2,
        "FENCED": 12,
        "BAD_JOB": 13,
        "INCOMPATIBLE_STATE": 14,
        "SNAPSHOT_NOT_FOUND": 15,
        "STORAGE_UNAVAILABLE": 16,
        "STATE_UNKNOWN": 17,
        "INPUT_LOST": 18,
    }


def test_only_some_exit_codes_are_worth_an_unchanged_restart() -> None:
    retryable = {code for code in ExitCode if code.is_retryable}

    assert retryable == {ExitCode.FAILED, ExitCode.STORAGE_UNAVAILABLE}


@pytest.mark.parametrize(
    ("code", "text"), [(13, "BAD_JOB"), (137, "killed by signal 9"), (143, "killed by signal 15"), (99, "exit code 99")]
)
def test_an_exit_code_has_a_name_for_people(code: int, text: str) -> None:
    assert ExitCode.describe(code) == text


@pytest.mark.parametrize(
    ("restore", "key"),
    [
        (config.RestoreConfig(), None),
        (a_restore(nonce="unused"), None),
        (a_restore(empty=True), "fresh"),
        (a_restore(empty=True, nonce="second"), "second"),
        (a_restore(snapshot="checkpoint:41"), "checkpoint:41"),
        (a_restore(snapshot="checkpoint:41", nonce="again"), "again"),
    ],
)
def test_a_restore_that_was_done_is_recognised(restore: config.RestoreConfig, key: str | None) -> None:
    assert restore.once_key == key


@pytest.mark.parametrize("source", [{}, {"uri": "s3://b/1", "empty": {}}, {"uri": "s3://b/1", "checkpointID": 1}])
def test_a_restore_is_from_one_source(source: dict[str, object]) -> None:
    """A snapshot and empty state at once were accepted, and the state was empty."""
    with pytest.raises(ValidationError, match="exactly one of the members uri, checkpointID and empty"):
        config.RestoreConfig.model_validate({"source": source})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param(
            {"interval": timedelta(milliseconds=9)}, "larger than or equal to 10 ms", id="A.70 an interval of 9 ms"
        ),
        pytest.param({"interval": timedelta(0)}, "larger than or equal to 10 ms", id="A.70 no interval"),
        pytest.param({"interval": timedelta(days=366)}, "at most a year", id="A.73 an interval of more than a year"),
        pytest.param(
            {"timeout": timedelta(milliseconds=9)}, "larger than or equal to 10 ms", id="A.72 a timeout of 9 ms"
        ),
        pytest.param({"min_pause": timedelta(seconds=-1)}, "min_pause", id="A.73 a negative pause"),
        pytest.param({"min_pause": timedelta(days=366)}, "min_pause", id="A.73 a pause of more than a year"),
        pytest.param({"max_concurrent": 0}, "max_concurrent", id="A.74 no attempt at all"),
        pytest.param({"tolerable_failures": -1}, "tolerable_failures", id="A.76 fewer failures than none"),
        pytest.param({"retention": {"count": 0}}, "retention.count", id="A.77 nothing retained"),
    ],
)
def test_a_checkpoint_setting_that_cannot_work_is_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        config.CheckpointConfig.model_validate(changes)


def test_the_defaults_of_checkpoints_are_what_the_pages_say() -> None:
    """A.70 to A.77, without a mode (A.71): interval, tolerable failures and retained differ from Flink's on purpose."""
    default = config.CheckpointConfig()

    assert (default.interval, default.timeout, default.min_pause) == (
        timedelta(seconds=10),
        timedelta(minutes=10),
        timedelta(0),
    )
    assert (default.max_concurrent, default.tolerable_failures, default.retention.count) == (1, 3, 3)


@pytest.mark.parametrize("period", [timedelta(milliseconds=10), timedelta(days=365)], ids=["shortest", "longest"])
def test_the_limits_of_interval_and_timeout_are_allowed(period: timedelta) -> None:
    """A.70, A.72."""
    allowed = config.CheckpointConfig(interval=period, timeout=period)

    assert (allowed.interval, allowed.timeout) == (period, period)
