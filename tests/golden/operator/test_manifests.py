"""Every manifest of a job, compared whole with the file beside this test.

A wanted change is written with `UPDATE_GOLDEN=1 pytest tests/golden/operator` and read in the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import jobspecs
import pytest
import yaml
from statefulspark.contract.config import JobConfig
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import RestoreIntent
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import children, config, driver, executor, network_policy
from statefulspark_operator.render.base import Manifest, Subject

FOLDER = Path(__file__).parent
JOB = Job("demo", "flights", "6f9c0000-0000-4000-8000-000000000001", 7)

SMALL = {
    "image": "registry.example/flights:1",
    "job": {"file": "/opt/job/flights.py"},
    "storage": {"uri": "s3://state/jobs"},
}
GIVEN = {
    **jobspecs.FULL,
    "executor": {
        "instances": 2,
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "4Gi", "example.com/gpu": "1"}},
        "env": [
            {"name": "TZ", "value": "UTC"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "settings", "optional": True}}],
        "serviceAccountName": "reader-of-buckets",
        "localDisk": {"size": "20Gi", "storageClassName": "fast"},
        "podTemplate": {
            "metadata": {"annotations": {"team": "a"}, "labels": {"team": "a", "statefulspark.io/driver": "another"}},
            "spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "executor", "lifecycle": {}}]},
        },
    },
    "sparkConf": {"spark.authenticate": "true"},
}
FILES_BESIDE = {**SMALL, "job": {"source": {"configMap": {"name": "code", "key": "flights.py", "sha256": "ab" * 32}}}}
ZIP_BESIDE = {
    **jobspecs.FULL,
    "job": {"file": "app/flights.py", "source": {"s3": {"uri": "s3://code/flights.zip", "sha256": "cd" * 32}}},
}
PEERS: tuple[Manifest, ...] = (
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "statefulspark"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "statefulspark-operator"}},
    },
)
SCRAPERS: tuple[Manifest, ...] = (
    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
)
RESTORE = RestoreIntent(id="uid-upgrade-7-2-1", source=RestoreSource(uri="s3://savepoints/flights/00000043-upgrade"))


def subject(spec: dict[str, object]) -> Subject:
    return Subject(JOB, StatefulSparkJobSpec.model_validate(spec))


CLAIMED = {"spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1.options.claimName": "OnDemand"}
CASES: list[tuple[str, Manifest]] = [
    ("driver-small", driver.pod(subject(SMALL), epoch=1, revision="0a1b2c3d4e")),
    ("driver-full", driver.pod(subject(jobspecs.FULL), epoch=3, revision="0a1b2c3d4e")),
    ("config-small", config.config_map(subject(SMALL), epoch=1, revision="0a1b2c3d4e", restore=None)),
    ("config-full", config.config_map(subject(jobspecs.FULL), epoch=3, revision="0a1b2c3d4e", restore=RESTORE)),
    ("standby-small", driver.standby_pod(subject(SMALL), name="flights-standby-2", revision="0a1b2c3d4e")),
    ("standby-full", driver.standby_pod(subject(jobspecs.FULL), name="flights-standby-2", revision="0a1b2c3d4e")),
    (
        "standby-config-full",
        config.standby_config_map(subject(jobspecs.FULL), pod="flights-standby-2", revision="0a1b2c3d4e"),
    ),
    ("service", children.service(subject(SMALL), epoch=3, revision="0a1b2c3d4e")),
    ("token", children.token_secret(subject(SMALL), "a-token")),
    ("network", children.network_secret(subject(jobspecs.FULL), "a-secret")),
    ("executor-full", executor.template(subject(jobspecs.FULL), executor.Owner("flights-driver-3", "0a1b2c3d4e", 3))),
    ("executor-given", executor.template(subject(GIVEN), executor.Owner("flights-standby-2", "0a1b2c3d4e"))),
    ("driver-files-beside", driver.pod(subject(FILES_BESIDE), epoch=1, revision="0a1b2c3d4e")),
    ("driver-zip-beside", driver.pod(subject(ZIP_BESIDE), epoch=1, revision="0a1b2c3d4e")),
    (
        "executor-zip-beside",
        executor.template(subject(ZIP_BESIDE), executor.Owner("flights-driver-3", "0a1b2c3d4e", 3)),
    ),
    ("network-policy", network_policy.policy(JOB, network_policy.Peers(PEERS, SCRAPERS))),
    ("network-policy-alone", network_policy.policy(JOB, network_policy.Peers())),
    ("revision", children.controller_revision(subject(SMALL), revision="0a1b2c3d4e")),
    *zip(
        ("account", "role", "binding", "role-of-claims", "binding-of-claims"),
        children.access(subject({**jobspecs.FULL, "sparkConf": CLAIMED})),
        strict=True,
    ),
]


@pytest.mark.parametrize(("name", "manifest"), CASES, ids=[name for name, _ in CASES])
def test_a_manifest_is_exactly_the_committed_one(name: str, manifest: Manifest) -> None:
    file = FOLDER / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(yaml.safe_dump(manifest, sort_keys=False, width=120))

    assert manifest == yaml.safe_load(file.read_text())


def test_the_driver_reads_what_the_operator_writes() -> None:
    manifest = config.config_map(subject(jobspecs.FULL), epoch=3, revision="0a1b2c3d4e", restore=RESTORE)
    data = manifest["data"]
    assert isinstance(data, dict)

    read = JobConfig.model_validate_json(str(data["job.json"]))

    assert (read.name, read.namespace, read.owner_id) == ("flights", "demo", JOB.uid)
    assert read.restore.snapshot == RESTORE.snapshot
    assert read.restore.nonce == RESTORE.id
    assert read.checkpoint.interval.total_seconds() == 30
    assert read.engine.conf == {"spark.sql.shuffle.partitions": "8"}


def test_a_standby_is_told_of_state_that_may_be_dropped_and_of_no_snapshot() -> None:
    spec = {
        **SMALL,
        "restore": {"source": {"uri": RESTORE.snapshot}, "dropState": ["old"], "repeatOutputOf": ["q/out"]},
    }

    manifest = config.standby_config_map(subject(spec), pod="flights-standby-2", revision="0a1b2c3d4e")

    read = JobConfig.model_validate_json(resources.text(manifest, "data", "job.json"))
    assert read.restore.source is None
    assert (read.restore.drop_state, read.restore.repeat_output_of) == (("old",), ("q/out",))


def test_what_a_standby_is_told_at_its_start_as_driver_is_what_a_new_driver_would_read() -> None:
    intent = RestoreIntent(id="r", source=RestoreSource(uri="s3://state/sp"))
    made = config.job_config(subject(SMALL), executor.Owner("flights-driver-1", "0a1b2c3d4e", 1), restore=intent)

    assert config.restore_config(subject(SMALL), intent) == made.restore


def test_no_secret_is_in_the_configuration() -> None:
    manifest = config.config_map(subject(jobspecs.FULL), epoch=3, revision="0a1b2c3d4e", restore=RESTORE)

    assert "password" not in json.dumps(manifest["data"]).lower()
