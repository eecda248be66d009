"""The models of the resource: durations, what a change costs, revisions, and the generated CRD."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from jobspecs import a_spec
from pydantic import BaseModel
from statefulspark_operator import cli
from statefulspark_operator.api import crd, names, quantities, revision
from statefulspark_operator.api.base import ChangeCost
from statefulspark_operator.api.spec import Checkpoint, Executor, PodTemplate, StatefulSparkJobSpec
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, ChangeCost]]:
    for attribute, field in model.model_fields.items():
        name = f"{prefix}{field.serialization_alias or attribute}"
        optional = (part for part in (PodTemplate, Executor) if part in get_args(field.annotation))
        nested = next(optional, field.annotation)
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _leaves(nested, f"{name}.")
        else:
            yield name, revision.change_cost(field)


def test_the_fields_that_do_not_restart_a_job_are_these_and_no_others() -> None:
    costs = dict(_leaves(StatefulSparkJobSpec))

    assert {name: cost.name for name, cost in costs.items() if cost is not ChangeCost.RESTART} == {
        "driver.terminationGracePeriodSeconds": "IGNORE",
        "imagePullPolicy": "IGNORE",
        "podTemplate.metadata": "RELOAD",
        "driver.podTemplate.metadata": "RELOAD",
        "executor.podTemplate.metadata": "RELOAD",
        "imagePullSecrets": "IGNORE",
        **{f"checkpoint.{name}": "RELOAD" for name, _ in _leaves(Checkpoint)},
        "restore.dropState": "IGNORE",
        "restore.claimMode": "IGNORE",
        "storage.ownership": "IGNORE",
        "restore.repeatOutputOf": "IGNORE",
        "restore.loseOutputOf": "IGNORE",
        "savepoint.location": "RELOAD",
        "savepoint.schedule": "RELOAD",
        "savepoint.retention.count": "RELOAD",
        "savepoint.retention.maxAge": "RELOAD",
        "savepoint.retention.maxSize": "RELOAD",
        "restore.source": "RELOAD",
        "restore.nonce": "RELOAD",
        "driver.standby": "RELOAD",
        "upgrade.strategy": "RELOAD",
        "upgrade.stateFrom": "RELOAD",
        "upgrade.savepointTimeout": "RELOAD",
        "upgrade.onSavepointFailure": "RELOAD",
        "upgrade.rehearsal": "IGNORE",
        "upgrade.standbyTimeout": "RELOAD",
        "upgrade.stableAfterCheckpoints": "RELOAD",
        "upgrade.rollbackPolicy": "RELOAD",
        "restart.maxFailures": "RELOAD",
        "restart.initialBackoff": "RELOAD",
        "restart.maxBackoff": "RELOAD",
        "health.unavailableAfter": "RELOAD",
        "health.restartAfter": "RELOAD",
        "suspend": "RELOAD",
        "deletionPolicy": "RELOAD",
    }


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"suspend": True}, id="suspending"),
        pytest.param({"deletionPolicy": "Delete"}, id="another deletion policy"),
        pytest.param({"upgrade": {"onSavepointFailure": "Abort"}}, id="another savepoint policy"),
        pytest.param({"driver": {"terminationGracePeriodSeconds": 90}}, id="another grace period"),
        pytest.param({"checkpoint": {"interval": "1m", "retention": {"count": 7}}}, id="other checkpoints"),
        pytest.param({"imagePullSecrets": [{"name": "registry"}]}, id="another secret for the image"),
        pytest.param({"sparkConf": {}}, id="writing out an empty map"),
        pytest.param({"restore": {"source": {"uri": "s3://state/sp"}}}, id="a restore, which restarts by itself"),
    ],
)
def test_the_revision_stays_when_the_driver_may_stay(change: dict[str, object]) -> None:
    assert revision.revision_of(a_spec(**change)) == revision.revision_of(a_spec())


@pytest.mark.parametrize(
    "change",
    [
        {"image": "i:2"},
        {"job": {"file": "/other.py"}},
        {"job": {"file": "/j.py", "parameters": {"a": "1"}}},
        {"driver": {"resources": {"limits": {"memory": "2Gi"}}}},
        {"executor": {"instances": 1}},
        {"sparkConf": {"spark.sql.shuffle.partitions": "8"}},
        {"restartNonce": "1"},
    ],
)
def test_the_revision_changes_with_what_the_driver_is_started_with(change: dict[str, object]) -> None:
    assert revision.revision_of(a_spec(**change)) != revision.revision_of(a_spec())


def test_a_nonce_makes_the_same_restore_a_new_one() -> None:
    once = a_spec(restore={"source": {"uri": "s3://state/sp"}})
    again = a_spec(restore={"source": {"uri": "s3://state/sp"}, "nonce": "2"})

    assert revision.restore_id(a_spec()) is None
    assert revision.restore_id(once) != revision.restore_id(again)


def _schemas(schema: Resource, path: str) -> Iterator[tuple[str, Resource]]:
    yield path, schema
    for name, part in resources.section(schema, "properties").items():
        if isinstance(part, dict):
            yield from _schemas(part, f"{path}.{name}")
    for nested in ("items", "additionalProperties"):
        if isinstance(part := schema.get(nested), dict):
            yield from _schemas(part, f"{path}[]")


def _root() -> Resource:
    (version,) = resources.items(crd.build_crd(), "spec", "versions")
    return resources.section(version, "schema", "openAPIV3Schema", "properties")


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_of_the_crd_is_described_and_none_has_a_default(part: str) -> None:
    fields = [found for found in _schemas(resources.section(_root(), part), part) if not found[0].endswith("[]")]

    assert [path for path, schema in fields if not schema.get("description")] == []
    assert [path for path, schema in fields if "default" in schema or "$ref" in schema] == []


def test_the_status_schema_declares_every_list_of_named_things_as_a_map() -> None:
    status = resources.section(_root(), "status", "properties")

    assert resources.section(status, "conditions")["x-kubernetes-list-map-keys"] == ["type"]
    assert resources.section(status, "queries")["x-kubernetes-list-map-keys"] == ["uid"]


def test_check_finds_an_outdated_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["crds", "--write", str(tmp_path)]) == 0
    assert cli.main(["crds", "--check", str(tmp_path)]) == 0

    (tmp_path / "sparksavepoints.yaml").write_text("old")

    assert cli.main(["crds", "--check", str(tmp_path)]) == 1
    assert "make crds" in capsys.readouterr().err


def test_a_withheld_spec_changes_what_costs_no_restart_and_keeps_the_running_revision() -> None:
    running = a_spec("i:1", checkpoint={"interval": "5s"}, driver={"heap": "1Gi"})
    current = a_spec(
        "i:2",
        suspend=True,
        driver={"heap": "2Gi", "standby": True},
        upgrade={"stableAfterCheckpoints": 7},
        restart={"maxFailures": 1},
    )

    carried_out = revision.running_spec(current, running)

    assert revision.revision_of(carried_out) == revision.revision_of(running)
    assert (carried_out.image, carried_out.driver.heap, carried_out.driver.standby) == ("i:1", "1Gi", True)
    assert (carried_out.suspend, carried_out.upgrade.stable_after_checkpoints, carried_out.restart.max_failures) == (
        True,
        7,
        1,
    )


def test_upgrades_are_warm_and_roll_back_unless_the_spec_says_otherwise() -> None:
    spec = StatefulSparkJobSpec.model_validate(
        {"image": "i:1", "job": {"file": "/j.py"}, "storage": {"uri": "s3://s/j"}}
    )

    assert (spec.upgrade.strategy.value, spec.upgrade.rollback_policy.value) == ("Warm", "Automatic")
    assert (spec.upgrade.standby_timeout.total_seconds(), spec.upgrade.stable_after_checkpoints) == (300, 3)
    assert not spec.driver.standby


@pytest.mark.parametrize(
    ("pod", "number"),
    [("flights-standby-12", 12), ("flights-driver-12", 0), ("flights-standby-x", 0), ("other-standby-1", 0)],
)
def test_the_number_of_a_standby_is_in_its_name(pod: str, number: int) -> None:
    assert names.standby_number("flights", pod) == number


def test_a_driver_that_was_a_standby_keeps_its_configuration() -> None:
    assert names.config_of("flights", "flights-standby-3", 8) == "flights-standby-3-config"
    assert names.config_of("flights", "flights-driver-8", 8) == "flights-config-8"


@pytest.mark.parametrize(
    ("size_bytes", "size"),
    [(0, "0"), (999, "999"), (1000, "1Ki"), (12_897_484, "12.3Mi"), (157_286_400, "150Mi"), (10**15, "909Ti")],
)
def test_a_size_is_shown_as_a_quantity(size_bytes: int, size: str) -> None:
    assert quantities.rounded(size_bytes) == size
