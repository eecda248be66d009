"""What tools for GitOps take a job for: Argo CD by its Lua, Flux and others by kstatus, in every situation of the rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import deletioncases
import executorcases
import lupa
import pytest
import situationcases
import standbycases
from jobworld import KEY, JobWorld
from obstacles import OBSTACLES
from statefulspark_operator.api import base
from statefulspark_operator.api.spark_savepoint import SavepointPhase, SparkSavepointStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.savepoints import progress
from statefulspark_operator.lifecycle.situation import Situation

pytestmark = pytest.mark.slow  # it starts a program in Go

ROOT = Path(__file__).resolve().parents[3]
KSTATUS = ROOT / "build" / "bin" / "kstatus"
CASES = {
    f"{concern}: {sentence}": situation
    for concern, situations in (
        situationcases.CASES | deletioncases.CASES | standbycases.CASES | executorcases.CASES
    ).items()
    for sentence, situation in situations.items()
}
_HEALTH_BY_KSTATUS = {"Current": {"Healthy", "Suspended"}, "InProgress": {"Progressing"}, "Failed": {"Degraded"}}
NAMED = {
    "ownership: a new resource whose last savepoint is to be taken": "Progressing",
    "ownership: no good spec": "Degraded",
    "start: storage does not answer": "Progressing",
    "start: storage has no such bucket": "Degraded",
    "handover: a quota left no room": "Progressing",
    "handover: storage refuses the standby": "Progressing",
    "deletion: a savepoint first, of a stalled job": "Progressing",
    "ownership: a bad spec after a good one": "Degraded",
    "progress: the driver restores": "Progressing",
    "progress: a job runs": "Healthy",
    "suspension: the driver runs": "Progressing",
    "suspension: nothing runs": "Suspended",
    "upgrade: the driver runs": "Progressing",
    "upgrade: the change was given up": "Degraded",
    "handover: the standby warms": "Progressing",
    "handover: the standby refuses": "Degraded",
    "handover: the new revision becomes stable": "Healthy",
    "rollback: three failures": "Progressing",
    "handover: the revision is withheld": "Degraded",
    "failure: the node is lost": "Progressing",
    "failure: the job file is wrong": "Degraded",
    "health: a batch hangs": "Progressing",
    "start: finished": "Healthy",
    "executors: one has found no node for long": "Progressing",
}


@pytest.mark.parametrize("case", NAMED)
def test_argo_cd_takes_a_job_for(case: str) -> None:
    assert _argo_cd(_job(CASES[case]))["status"] == NAMED[case]


def test_a_refused_revision_is_degraded_with_its_reason_while_the_old_one_runs() -> None:
    job = _job(CASES["handover: the revision is withheld"])

    health = _argo_cd(job)

    assert (job["status"]["phase"], health["status"]) == ("Running", "Degraded")
    assert health["message"] == next(c["message"] for c in job["status"]["conditions"] if c["type"] == "UpgradeBlocked")


def test_kstatus_and_argo_cd_agree_in_every_situation() -> None:
    jobs = {case: _job(situation) for case, situation in CASES.items()}
    seen = dict(zip(jobs, _kstatus(list(jobs.values())), strict=True))
    health = {case: _argo_cd(job)["status"] for case, job in jobs.items()}

    disagree = {case: (seen[case], health[case]) for case in jobs if health[case] not in _HEALTH_BY_KSTATUS[seen[case]]}

    assert disagree == {}


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_keeps_a_job_from_starting_has_failed_for_both_where_a_person_has_to_act(name: str) -> None:
    world = JobWorld()
    OBSTACLES[name].begin(world)
    world.run(60)
    job = json.loads(json.dumps(world.cluster.objects[(resources.JOB.name, KEY.namespace, KEY.name)]))

    expected = ("Degraded", "Failed") if OBSTACLES[name].needs_a_person else ("Progressing", "InProgress")

    assert (_argo_cd(job)["status"], *_kstatus([job])) == expected


def test_a_change_that_the_operator_has_not_seen_is_in_progress() -> None:
    job = _job(CASES["progress: a job runs"])
    job["metadata"]["generation"] = job["status"]["observedGeneration"] + 1

    assert (_argo_cd(job)["status"], _kstatus([job])) == ("Progressing", ["InProgress"])


@pytest.mark.parametrize(
    ("phase", "health", "kstatus"),
    [
        (SavepointPhase.PENDING, "Progressing", "InProgress"),
        (SavepointPhase.IN_PROGRESS, "Progressing", "InProgress"),
        (SavepointPhase.COMPLETED, "Healthy", "Current"),
        (SavepointPhase.FAILED, "Degraded", "Failed"),
    ],
)
def test_a_savepoint_is_waited_for(phase: SavepointPhase, health: str, kstatus: str) -> None:
    status = SparkSavepointStatus(phase=phase)
    answers = progress.derive_conditions(status, (), now=situationcases.NOW, generation=1)
    savepoint = _object(base.SAVEPOINT_KIND, 1, json.loads(status.model_copy(update={"conditions": answers}).to_json()))

    assert (_argo_cd(savepoint)["status"], _kstatus([savepoint])) == (health, [kstatus])


def test_an_object_that_the_operator_has_not_touched_is_in_progress_for_argo_cd() -> None:
    assert {_argo_cd(_object(kind, 1, None))["status"] for kind in (base.KIND, base.SAVEPOINT_KIND)} == {"Progressing"}


def _job(situation: Situation) -> dict[str, Any]:
    status = json.loads(decide.decide(situation).status.to_json())
    return _object(base.KIND, situation.job.generation, status)


def _object(kind: str, generation: int, status: Mapping[str, object] | None) -> dict[str, Any]:
    written: dict[str, object] = {
        "apiVersion": f"{base.GROUP}/{base.VERSION}",
        "kind": kind,
        "metadata": {"name": "x", "generation": generation},
    }
    return written | ({"status": dict(status)} if status is not None else {})


def _argo_cd(resource: dict[str, Any]) -> dict[str, str]:
    """Evaluate a health check as Argo CD does: the object is the global `obj`."""
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(resource, recursive=True)
    return dict(lua.execute(_script(str(resource["kind"]))))


@cache
def _script(kind: str) -> str:
    return (ROOT / "charts" / "gitops" / f"{kind}.lua").read_text()


def _kstatus(resources: list[dict[str, Any]]) -> list[str]:
    outcome = subprocess.run([KSTATUS], input=json.dumps(resources), capture_output=True, text=True, check=True)
    return [answer["status"] for answer in json.loads(outcome.stdout)]
