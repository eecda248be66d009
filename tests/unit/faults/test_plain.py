"""What the runs of plain PySpark read from storage and from logs, and how its flags are told from Spark's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults.plain import acts, driver, files
from faults.scenario import Expectation

FAILED = """
26/11/24 03:16:13 ERROR MicroBatchExecution: Query ledger [id = 243e01ca, runId = 2be278de] terminated with error
org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.
Caused by: java.io.FileNotFoundException: s3a://bucket/checkpoints/ledger/state/0/0/7.changelog
"""
AND_THEN_ALL = (
    FAILED
    + """
26/11/24 03:16:15 ERROR MicroBatchExecution: Query windows [id = 1638bf38, runId = d7bb73fd] terminated with error
org.apache.spark.sql.execution.streaming.sources.ForeachBatchUserFuncException: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error
"""
)
WITHOUT_A_CLASS = """
26/11/24 03:16:13 ERROR MicroBatchExecution: Query ledger [id = 243e01ca, runId = 2be278de] terminated with error
java.lang.AssertionError: assertion failed: There are [1] sources in the checkpoint offsets and now there are [2]
"""
NOT_STARTED = """
Traceback (most recent call last):
  File "ledger.py", line 9, in <module>
pyspark.errors.exceptions.captured.IllegalArgumentException: Error parsing 'nonsense' to interval
"""


def a_checkpoint_location(folder: Path, *, committed: int, changelogs: dict[str, int]) -> Path:
    """Make a checkpoint location with the logs of batches up to one, one more plan, and changelogs of some sizes."""
    for name, batches in (("commits", committed + 1), ("offsets", committed + 2)):
        (folder / name).mkdir(parents=True)
        for batch in range(batches):
            (folder / name / str(batch)).write_text("v1")
            (folder / name / f"{batch}.crc").write_text("")
    for path, size in changelogs.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"0" * size)
    return folder


def test_the_newest_state_is_what_the_newest_committed_batch_changed_most(tmp_path: Path) -> None:
    changelogs = {"state/0/0/3.changelog": 9, "state/0/0/4.changelog": 1, "state/0/1/4.changelog": 2}
    checkpoint = a_checkpoint_location(tmp_path, committed=3, changelogs={**changelogs, "state/0/1/5.changelog": 7})

    assert files.newest_state(checkpoint) == tmp_path / "state/0/1/4.changelog"


def test_a_query_whose_newest_batch_changed_nothing_is_named(tmp_path: Path) -> None:
    checkpoint = a_checkpoint_location(tmp_path, committed=3, changelogs={"state/0/0/3.changelog": 9})

    with pytest.raises(LookupError, match="no changelog of version 4"):
        files.newest_state(checkpoint)


@pytest.mark.parametrize(
    ("name", "version"),
    [("12.changelog", 12), ("12_4f0c-9a.changelog", 12), ("12.zip", None), ("12.changelog.crc", None)],
)
def test_a_changelog_tells_its_version(name: str, version: int | None) -> None:
    assert files.version_of(Path(name)) == version


def test_batches_are_forgotten_with_their_plans_and_checksums(tmp_path: Path) -> None:
    checkpoint = a_checkpoint_location(tmp_path, committed=2, changelogs={})

    gone = files.forget_batches(checkpoint, 2)

    assert set(gone) == {"commits/2", "commits/2.crc", "offsets/2", "offsets/2.crc", "offsets/3", "offsets/3.crc"}
    assert files.newest_batch(checkpoint) == 1


def test_files_are_those_that_the_newest_compacted_entry_and_the_later_ones_list() -> None:
    assert files.entries_to_read(["8", "9.compact", "10", "11", ".11.crc"]) == ("9.compact", "10", "11")
    assert files.entries_to_read(["0", "1"]) == ("0", "1")


def test_a_file_that_an_entry_deletes_is_not_listed() -> None:
    lines = ["v1", *(json.dumps({"path": f"s3a://b/{act}.parquet", "action": act}) for act in ("add", "delete"))]

    assert list(files.listed(lines)) == ["s3a://b/add.parquet"]


@pytest.mark.parametrize(
    ("log", "name"),
    [
        pytest.param(FAILED, "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", id="an error class"),
        pytest.param(
            AND_THEN_ALL, "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", id="queries that end because the first did"
        ),
        pytest.param(WITHOUT_A_CLASS, "AssertionError", id="an exception without a class"),
        pytest.param(NOT_STARTED, "IllegalArgumentException", id="a query that could not be started"),
        pytest.param("", "no error was logged", id="nothing"),
    ],
)
def test_an_error_has_the_name_that_spark_gave_it(log: str, name: str) -> None:
    assert driver.error_class(log) == name


def test_flags_of_the_job_are_told_from_those_of_spark() -> None:
    assert driver.split(("--aggregate", "--conf", "a=1", "--more", "topic")) == (
        ("--aggregate", "--more", "topic"),
        ("--conf", "a=1"),
    )


def test_every_plain_scenario_is_measured_and_has_a_name_of_its_own() -> None:
    assert {one.expects for one in acts.ALL} == {Expectation.MEASURED}
    assert len({one.name for one in acts.ALL}) == len(acts.ALL)
