"""Every setting of the runtime is in the resource, or is left out for a reason that stands here: none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jobspecs import a_spec
from pydantic import BaseModel, JsonValue
from statefulspark.contract.config import ClaimMode, JobConfig
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import RestoreIntent
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import config, executor
from statefulspark_operator.render.base import Subject

OWNER = executor.Owner("x-driver-1", "r", 1)
EXPOSED = {
    "storage.ownership": "storage.ownership",
    "storage.uri": "storage.uri",
    "storage.s3.endpoint": "storage.s3.endpoint",
    "storage.s3.region": "storage.s3.region",
    "storage.s3.addressing": "storage.s3.addressing",
    "storage.s3.caFile": "storage.s3.caSecretRef",
    "checkpoint.interval": "checkpoint.interval",
    "checkpoint.timeout": "checkpoint.timeout",
    "checkpoint.minPause": "checkpoint.minPause",
    "checkpoint.maxConcurrent": "checkpoint.maxConcurrent",
    "checkpoint.tolerableFailures": "checkpoint.tolerableFailures",
    "checkpoint.retention.count": "checkpoint.retention.count",
    "checkpoint.retention.maxAge": "checkpoint.retention.maxAge",
    "checkpoint.pruneDelay": "checkpoint.pruneDelay",
    "checkpoint.historyLimit": "checkpoint.historyLimit",
    "restore.source": "restore.source",
    "restore.dropState": "restore.dropState",
    "restore.claimMode": "restore.claimMode",
    "restore.repeatOutputOf": "restore.repeatOutputOf",
    "restore.loseOutputOf": "restore.loseOutputOf",
    "engine.conf": "sparkConf",
    "savepointLocation": "savepoint.location",
    "rehearsal": "upgrade.rehearsal",
    "parameters": "job.parameters",
}
"""Field of the spec by field of the configuration."""

LEFT_OUT = {
    "name": "the resource's name",
    "namespace": "the resource's namespace",
    "ownerId": "the resource's uid",
    "clusterId": "the uid of kube-system, which the operator reads",
    "revision": "computed from the spec",
    "storage.allowLocalFiles": "state on one node's disk cannot be restored on another; for development outside a cluster",
    "restore.rollback": "the operator's own, for a rollback; a person who restores a snapshot by name has decided",
    "restore.afterStop": "the operator's own, for the savepoint of its stop; a person who names it goes back to it",
    "restore.ofAnotherRevision": "the operator's own, for a revision that runs although the spec asks for another",
    "restore.keepAside": "the operator's own, for a revision that ran before; a person names uids in restore.dropState",
    "restore.nonce": "made from what is asked for and restore.nonce",
    "restore.takesOverAs": "made from what is asked for and restore.nonce",
    "engine.master": "follows from executor and driver.cores",
    "engine.platform": "follows from driver and executor; never the user's",
    "apiTls": "driver.tls names a Secret, and flags its files: an image that does not know them ends, and speaks no HTTP",
    "apiTokenFile": "a flag names the file of the job's Secret: an image that does not know it ends, and is not open",
    "apiPort": "the operator, the Service and the NetworkPolicy agree on one",
    "metricsPort": "the PodMonitor, the Service and the NetworkPolicy agree on one",
}
"""Why a field of the configuration has none in the spec."""

GIVEN: dict[str, dict[str, JsonValue]] = {
    "maxConcurrent": {"checkpoint": {"maxConcurrent": 4}},
    "maxAge": {"checkpoint": {"retention": {"maxAge": "48h"}}},
    "pruneDelay": {"checkpoint": {"pruneDelay": "5m"}},
    "historyLimit": {"checkpoint": {"historyLimit": 0}},
    "minPause": {"checkpoint": {"minPause": "500ms"}},
    "tolerableFailures": {"checkpoint": {"tolerableFailures": 0}},
}


def _paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for attribute, field in model.model_fields.items():
        name = f"{prefix}{field.serialization_alias or field.alias or attribute}"
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _paths(nested, f"{name}.")
        else:
            yield name


def _subject(**changes: JsonValue) -> Subject:
    return Subject(Job("demo", "flights", "uid-1", 1), a_spec(**changes))


def test_every_setting_of_the_runtime_is_exposed_or_left_out_for_a_reason() -> None:
    assert set(_paths(JobConfig)) == EXPOSED.keys() | LEFT_OUT.keys()
    assert not EXPOSED.keys() & LEFT_OUT.keys()


def test_what_is_exposed_is_in_the_spec() -> None:
    assert set(EXPOSED.values()) <= set(_paths(StatefulSparkJobSpec))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (GIVEN["maxConcurrent"], {"maxConcurrent": 4}),
        (GIVEN["maxAge"], {"retention": {"count": 3, "maxAge": "48h"}}),
        (GIVEN["pruneDelay"], {"pruneDelay": "5m"}),
        (GIVEN["historyLimit"], {"historyLimit": 0}),
        (GIVEN["minPause"], {"minPause": "500ms"}),
        (GIVEN["tolerableFailures"], {"tolerableFailures": 0}),
        ({}, {}),
    ],
    ids=[*GIVEN, "nothing"],
)
def test_the_driver_is_told_what_the_spec_says_and_the_runtimes_defaults(
    changes: dict[str, JsonValue], told: dict[str, JsonValue]
) -> None:
    defaults = JobConfig.model_validate({"name": "x", "storage": {"uri": "s3://x"}}).checkpoint

    made = config.job_config(_subject(**changes), OWNER, restore=None)

    expected = defaults.model_dump(mode="json", by_alias=True) | told
    assert made.checkpoint.model_dump(mode="json", by_alias=True) == expected


@pytest.mark.parametrize("mode", [None, *ClaimMode])
def test_a_claim_is_passed_on_to_the_driver(mode: ClaimMode | None) -> None:
    """A.170."""
    wanted = RestoreIntent(id="a", source=RestoreSource(uri="s3://savepoints/a"), claim_mode=mode)

    made = config.job_config(_subject(), OWNER, restore=wanted)

    assert made.restore.claim_mode is (mode or ClaimMode.NO_CLAIM)
