"""The observer counts each batch once, knows a new driver by its epoch, and says in words what is new."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from demo import failure, kubectl, observer
from demo.timeline import MarkKind
from manifests import a_manifest, a_query
from statefulspark import errors, storage
from statefulspark.contract import layout
from statefulspark.contract.manifest import SnapshotKind, Trigger

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
JOB = {"kind": "StatefulSparkJob", "metadata": {"name": "flights"}, "status": {"phase": "Running", "message": "ok"}}


class FakeKubectl(kubectl.Kubectl):
    """Answers with objects of the test's own."""

    __slots__ = ()
    objects: Sequence[Mapping[str, object]] = (JOB,)
    fails = False

    def list(self, kinds: str) -> tuple[Mapping[str, object], ...]:
        if type(self).fails:
            raise failure.DemoFailedError("the API server does not answer")
        return tuple(type(self).objects)


@pytest.fixture
def world(tmp_path: Path) -> storage.ObjectStore:
    return storage.open_store(f"file://{tmp_path}", storage.StorageOptions(allow_local_files=True))


@pytest.fixture
def cluster() -> type[FakeKubectl]:
    class Fresh(FakeKubectl):
        __slots__ = ()

    return Fresh


def watch(world: storage.ObjectStore, cluster: type[FakeKubectl]) -> observer.Observer:
    kube = cluster(("kubectl",), Path("kubeconfig"), "flights")
    return observer.Observer(kube, output=world.child("output"), job_root=world.child("state"))


def commit(
    world: storage.ObjectStore,
    query: str,
    batch: int,
    rows: Sequence[Mapping[str, int]],
    *,
    epoch: int = 1,
    second: int = 0,
) -> None:
    path = f"data/{query}-{batch}-{epoch}.parquet"
    body = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), body)
    sink = world.child(f"output/{query}")
    sink.write(path, body.getvalue())
    document = {
        "batchId": batch,
        "epoch": epoch,
        "committedAt": NOW.replace(second=second).isoformat(),
        "files": [{"path": path, "rows": len(rows)}],
    }
    sink.write(f"_commits/{batch:08d}.json", json.dumps(document).encode())


def ledger(count: int) -> list[dict[str, int]]:
    return [{"flight_id": number} for number in range(count)]


def test_before_the_first_commit_nothing_is_out(world: storage.ObjectStore, cluster: type[FakeKubectl]) -> None:
    look = watch(world, cluster).look()

    assert (look.seen.flights, look.seen.scored_flights, look.seen.epoch, look.seen.last_commit_at) == (0, 0, 0, None)
    assert look.job.phase == "Running"


def test_rows_are_counted_over_looks_and_a_batch_that_is_committed_again_only_once(
    world: storage.ObjectStore, cluster: type[FakeKubectl]
) -> None:
    watched = watch(world, cluster)
    commit(world, "aircraft", 0, ledger(10), second=1)
    commit(world, "aircraft", 1, ledger(5), second=2)
    first = watched.look().seen
    commit(world, "aircraft", 1, ledger(5), epoch=2, second=20)
    commit(world, "aircraft", 2, ledger(7), epoch=2, second=21)
    second = watched.look().seen

    assert (first.flights, first.epoch) == (15, 1)
    assert (second.flights, second.epoch) == (22, 2)
    assert [(point.batch_id, point.epoch, point.rows) for point in watched.commits] == [
        (0, 1, 10),
        (1, 1, 5),
        (1, 2, 0),
        (2, 2, 7),
    ]


def test_the_carriers_newest_rows_tell_how_far_they_are_and_which_version_wrote_them(
    world: storage.ObjectStore, cluster: type[FakeKubectl]
) -> None:
    watched = watch(world, cluster)
    commit(world, "carriers", 0, [{"last_flight_id": 40}, {"last_flight_id": 38}])
    first = watched.look().seen
    commit(world, "carriers", 1, [{"last_flight_id": 80, "job_version": 2}], epoch=3, second=9)
    second = watched.look().seen

    assert (first.scored_flights, first.version) == (40, 1)
    assert (second.scored_flights, second.version) == (80, 2)


def test_a_snapshot_is_news_once_and_only_when_it_is_complete(
    world: storage.ObjectStore, cluster: type[FakeKubectl]
) -> None:
    watched = watch(world, cluster)
    manifest = a_manifest(
        4,
        [a_query("aircraft", batch_id=7), a_query("carriers", batch_id=8)],
        kind=SnapshotKind.SAVEPOINT,
        namespace="flights",
        trigger=Trigger.UPGRADE,
        epoch=2,
        now=NOW,
    )
    world.write(f"state/{layout.savepoint(4)}/files/part", b"copied before the manifest")
    incomplete = watched.look().news
    world.write(f"state/{layout.savepoint(4)}/_metadata.json", manifest.to_json().encode())
    complete, again = watched.look().news, watched.look().news

    assert [mark.kind for mark in incomplete] == [MarkKind.PHASE]
    assert [(mark.kind, mark.text) for mark in complete] == [
        (MarkKind.SAVEPOINT, "savepoint 4, upgrade, batches 7+8, 0.0 MiB")
    ]
    assert again == ()


def test_events_and_changes_of_the_phase_are_news_once(world: storage.ObjectStore, cluster: type[FakeKubectl]) -> None:
    watched = watch(world, cluster)
    event = {
        "kind": "Event",
        "metadata": {"uid": "a", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "reason": "Killing",
        "message": "Stopping container driver",
        "involvedObject": {"kind": "Pod", "name": "flights-driver-1"},
    }
    watched.look()
    restarting = {**JOB, "status": {"phase": "Restarting"}}
    cluster.objects = (restarting, event)
    news, again = watched.look().news, watched.look().news

    assert [(mark.kind, mark.text) for mark in news] == [
        (MarkKind.EVENT, "Killing: Stopping container driver (Pod flights-driver-1)"),
        (MarkKind.PHASE, "Running -> Restarting"),
    ]
    assert again == ()


@pytest.mark.parametrize(
    ("reason", "message", "shown"),
    [
        ("Unhealthy", "Startup probe failed: connection refused", 0),
        ("Unhealthy", "Readiness probe failed: connection refused", 0),
        ("Unhealthy", "Liveness probe failed: no answer", 1),
    ],
    ids=["a start being probed is no news", "nor is a driver that gets ready", "a driver that does not answer is"],
)
def test_what_the_kubelet_says_of_a_start_is_left_out(
    reason: str, message: str, shown: int, world: storage.ObjectStore, cluster: type[FakeKubectl]
) -> None:
    event = {"kind": "Event", "metadata": {"uid": "a"}, "reason": reason, "message": message, "involvedObject": {}}
    cluster.objects = (JOB, event)

    assert len([mark for mark in watch(world, cluster).look().news if mark.kind is MarkKind.EVENT]) == shown


@pytest.mark.parametrize(("driver", "named"), [("flights-standby-2", "flights-standby-2"), ("flights-driver-1", None)])
def test_the_driver_is_the_pod_that_the_status_names_while_it_lives(
    world: storage.ObjectStore, cluster: type[FakeKubectl], driver: str, named: str | None
) -> None:
    pods = [
        {"kind": "Pod", "metadata": {"name": "flights-driver-1"}, "status": {"phase": "Failed"}},
        {"kind": "Pod", "metadata": {"name": "flights-standby-2"}, "status": {"phase": "Running"}},
        {"kind": "Pod", "metadata": {"name": "flights-standby-3", "deletionTimestamp": "x"}, "status": {}},
    ]
    status = {"driver": {"pod": driver}, "standby": {"state": "Ready"}, "upgrade": {"state": "Blocked"}}
    cluster.objects = ({**JOB, "status": status}, *pods)

    look = watch(world, cluster).look()

    assert (look.job.driver_pod, look.job.pods) == (named, ("flights-standby-2",))
    assert (look.seen.has_standby, look.seen.is_blocked) == (True, True)


def test_a_commit_has_the_time_at_which_its_rows_were_written(
    world: storage.ObjectStore, cluster: type[FakeKubectl]
) -> None:
    watched = watch(world, cluster)
    commit(world, "aircraft", 0, [{"flight_id": 1}])
    watched.look()

    (point,) = watched.commits_as_written()

    (written,) = (
        found.modified_at for found in world.child("output/aircraft").list("") if found.key.endswith("parquet")
    )
    assert (point.written_at, point.worked_until) == (written, written)


def test_failed_looks_are_waited_out_but_not_for_ever(world: storage.ObjectStore, cluster: type[FakeKubectl]) -> None:
    watched = watch(world, cluster)
    cluster.fails = True
    for _ in range(observer.FAILED_LOOKS_MAX - 1):
        watched.look()

    with pytest.raises(errors.StatefulSparkError, match="20 looks in a row failed: the API server does not answer"):
        watched.look()


def test_a_resource_that_somebody_deleted_is_named(world: storage.ObjectStore, cluster: type[FakeKubectl]) -> None:
    with pytest.raises(failure.DemoFailedError, match="no StatefulSparkJob flights any more"):
        observer.job_view([])
