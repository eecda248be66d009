"""What a savepoint's name stands for, and what becomes of its files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spark_savepoint import SavepointDeletionPolicy, SavepointPhase, SparkSavepointStatus
from statefulspark_operator.lifecycle.savepoints import naming
from statefulspark_operator.lifecycle.savepoints.naming import Deleted, Farewell, Resolved, Unresolved

FOLDER = "s3://b/43"
OBJECTS = {
    "night": SparkSavepointStatus(phase=SavepointPhase.COMPLETED, location=FOLDER),
    "broken": SparkSavepointStatus(phase=SavepointPhase.FAILED, message="disk full"),
    "now": SparkSavepointStatus(phase=SavepointPhase.IN_PROGRESS),
}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param({"uri": "s3://other/7"}, Resolved(RestoreSource(uri="s3://other/7")), id="a folder is itself"),
        pytest.param({"checkpointID": 42}, Resolved(RestoreSource(checkpointID=42)), id="a checkpoint is itself"),
        pytest.param(
            {"savepointName": "night"}, Resolved(RestoreSource(uri=FOLDER)), id="a complete one is its folder"
        ),
        pytest.param(
            {"savepointName": "now"},
            Unresolved("SparkSavepoint 'now' is InProgress; the start waits for it.", may_come=True),
            id="one that is being taken",
        ),
        pytest.param(
            {"savepointName": "broken"},
            Unresolved("SparkSavepoint 'broken' failed: disk full. Name another one.", may_come=False),
            id="one that failed",
        ),
        pytest.param(
            {"savepointName": "nigth"},
            Unresolved(
                "There is no SparkSavepoint 'nigth' in the namespace; there are: broken, night, now.", may_come=True
            ),
            id="one that is not there",
        ),
    ],
)
def test_a_source_stands_for(source: dict[str, object], said: Resolved | Unresolved) -> None:
    assert naming.resolve(RestoreSource.model_validate(source), OBJECTS) == said


@pytest.mark.parametrize(
    "source", [{}, {"sparkCheckpoint": {}}, {"uri": "s3://b/1", "empty": {}}, {"savepointName": "a", "checkpointID": 1}]
)
def test_a_source_is_one_thing(source: dict[str, object]) -> None:
    """A snapshot and empty state at once were accepted, and the state was empty."""
    with pytest.raises(ValidationError, match="exactly one of the members savepointName, uri, checkpointID and empty"):
        RestoreSource.model_validate(source)


DISPOSED = Deleted(SavepointDeletionPolicy.DELETE, SavepointPhase.COMPLETED, FOLDER)
KEPT = Deleted(SavepointDeletionPolicy.RETAIN, SavepointPhase.COMPLETED, FOLDER, is_in_use=True)


@pytest.mark.parametrize(
    ("deleted", "others", "farewell"),
    [
        pytest.param(DISPOSED, (), Farewell.DISPOSE, id="disposed"),
        pytest.param(DISPOSED, ("s3://b/4", None), Farewell.DISPOSE, id="others have other folders"),
        pytest.param(DISPOSED, ("s3://b/43/",), Farewell.RELEASE, id="another object has the same files"),
        pytest.param(
            DISPOSED, ("s3://b/43/_metadata.json",), Farewell.RELEASE, id="another object names them by the manifest"
        ),
        pytest.param(KEPT, (), Farewell.RELEASE, id="kept, whoever uses it"),
        pytest.param(
            Deleted(SavepointDeletionPolicy.DELETE, SavepointPhase.COMPLETED, FOLDER, is_in_use=True),
            (),
            Farewell.WAIT,
            id="a start still goes back to it",
        ),
        pytest.param(
            Deleted(SavepointDeletionPolicy.RETAIN, SavepointPhase.IN_PROGRESS, None),
            (),
            Farewell.WAIT,
            id="being taken",
        ),
        pytest.param(
            Deleted(SavepointDeletionPolicy.DELETE, SavepointPhase.FAILED, None),
            (),
            Farewell.RELEASE,
            id="there are no files",
        ),
    ],
)
def test_a_deleted_object_parts_with_its_files(
    deleted: Deleted, others: tuple[str | None, ...], farewell: Farewell
) -> None:
    assert naming.part_with(deleted, others) is farewell


DELETED = st.builds(
    Deleted,
    policy=st.sampled_from(SavepointDeletionPolicy),
    phase=st.sampled_from(SavepointPhase),
    location=st.sampled_from([None, FOLDER, "s3://b/44"]),
    is_in_use=st.booleans(),
)


@given(deleted=DELETED, others=st.lists(st.sampled_from([None, FOLDER, f"{FOLDER}/", "s3://b/44"]), max_size=3))
def test_files_that_somebody_else_needs_are_never_deleted(deleted: Deleted, others: list[str | None]) -> None:
    if naming.part_with(deleted, others) is Farewell.DISPOSE:
        assert deleted.policy is SavepointDeletionPolicy.DELETE
        assert not deleted.is_in_use
        assert deleted.location is not None
        assert deleted.location not in {other.rstrip("/") for other in others if other is not None}
