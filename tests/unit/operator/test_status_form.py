"""The stored form of a status: what is promised beside the operator's records, and what a later release may write."""

from __future__ import annotations

import json

from situations import LONG_AGO, NOW, an_operation, an_upgrade
from statefulspark_operator.api import crd
from statefulspark_operator.api.status import (
    PruningStatus,
    RestoreIntent,
    SnapshotStatus,
    StatefulSparkJobStatus,
    TrialStatus,
    UpgradeState,
)
from statefulspark_operator.cluster import resources

STATUS = StatefulSparkJobStatus(
    operation=an_operation(),
    upgrade=an_upgrade(UpgradeState.STARTING, trial=TrialStatus(failures=1)),
    restore=RestoreIntent(id="again"),
    restore_applied="again",
    standby_count=3,
    pruning=PruningStatus(epoch=1, looked_at=NOW),
    silent_since=LONG_AGO,
    last_checkpoint=SnapshotStatus(id=7, completed_at=NOW),
)


def test_records_of_the_operator_are_below_internal_and_are_read_from_there() -> None:
    stored: resources.Resource = json.loads(STATUS.to_json())

    assert set(resources.section(stored, "internal")) == {
        "operation",
        "trial",
        "restore",
        "restoreApplied",
        "standbyCount",
        "pruning",
        "silentTime",
    }
    assert "trial" not in resources.section(stored, "upgrade")
    assert resources.text(stored, "lastCheckpoint", "completionTime") == "2026-01-01T12:00:00Z"
    assert StatefulSparkJobStatus.model_validate(stored) == STATUS


def test_words_of_a_later_release_in_what_is_for_people_do_not_stop_the_operator() -> None:
    told = {"status": "True", "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "Levitating", **told}, {"type": "Ready", **told}]

    status = StatefulSparkJobStatus.model_validate({"phase": "Levitating", "conditions": conditions})

    assert (status.phase, [condition.type.value for condition in status.conditions]) == (None, ["Ready"])


def test_the_schema_of_a_status_lists_no_values_and_says_how_large_numbers_are() -> None:
    def fields(name: str, schema: object) -> list[tuple[str, resources.Resource]]:
        if not isinstance(schema, dict):
            return []
        nested = [part for key in ("items", "additionalProperties") for part in fields(name, schema.get(key))]
        inner = [part for key, value in schema.get("properties", {}).items() for part in fields(key, value)]
        return [(name, schema), *nested, *inner]

    for definition in (crd.build_crd(), crd.build_savepoint_crd()):
        (version,) = resources.items(definition, "spec", "versions")
        status = resources.section(version, "schema", "openAPIV3Schema", "properties", "status")
        for name, schema in fields("status", status):
            assert "enum" not in schema, name
            assert "x-kubernetes-validations" not in schema, name
            assert schema.get("type") != "integer" or schema.get("format") in ("int32", "int64"), name
            assert schema.get("type") != "number", name
